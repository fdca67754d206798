// What `sandboxd drain` asks of a host of a fleet, in the registry that its daemon follows: that its Node is cordoned,
// or uncordoned. A request is carried out once, also by a daemon that starts later, or refused with a reason; then the
// Node alone says what holds.
import type { Logger } from 'pino';
import { toError } from '../../lib/errors.ts';
import type { Table } from '../../store/store.ts';

const POLL_MS = 1000;
const REQUEST = 'request';

export type CordonRecord = {
  readonly sinceMs: number;
  readonly isCordoned: boolean;
  /** Why it was not carried out. */
  readonly refusal?: string;
};

type Records = Pick<Table<CordonRecord>, 'get' | 'latest' | 'put' | 'remove' | 'atomically'>;

type CordonRequestsDeps = {
  readonly records: Records;
  /** AppError. */
  readonly assertPossible: (isCordoned: boolean) => void;
  /** Rejects when it is not done. */
  readonly setCordoned: (isCordoned: boolean) => Promise<void>;
  readonly log: Logger;
  readonly pollMs?: number;
};

/** For `sandboxd drain`, beside the daemon that has the registry. The last one counts. */
export const askCordon = (records: Records, isCordoned: boolean): Promise<void> =>
  records.put(REQUEST, { sinceMs: Date.now(), isCordoned });

/** It asks for nothing any more. */
export const forgetCordon = (records: Records): Promise<void> => records.remove(REQUEST);

/** Undefined: it is carried out. */
export const readCordon = (records: Records): CordonRecord | undefined => records.latest(REQUEST);

export class CordonRequests {
  readonly #deps: CordonRequestsDeps;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isStopped = false;

  constructor(deps: CordonRequestsDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#running ??= this.#look().finally(() => {
        this.#running = undefined;
      });
    }, this.#deps.pollMs ?? POLL_MS).unref();
  }

  /** Resolves when no request is worked on; one that did not come to its end stays for the next daemon. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await this.#running;
  }

  /** Never rejects. */
  async #look(): Promise<void> {
    const { records, assertPossible, setCordoned, log } = this.#deps;
    const request = records.latest(REQUEST);
    if (request === undefined || request.refusal !== undefined) return;
    const { isCordoned } = request;
    let refusal: string | undefined;
    try {
      assertPossible(isCordoned);
      await setCordoned(isCordoned);
      log.info({ isCordoned }, 'this node is cordoned, or uncordoned, for sandboxd drain');
    } catch (error) {
      if (this.#isStopped) return;
      refusal = toError(error).message;
      log.error({ isCordoned, reason: refusal }, 'this node is not cordoned, or uncordoned');
    }
    await this.#answer(request, refusal).catch((error: unknown) =>
      log.error({ reason: toError(error).message }, 'a request of sandboxd drain has no answer'),
    );
  }

  /** Unless another one has been made meanwhile. */
  async #answer(request: CordonRecord, refusal: string | undefined): Promise<void> {
    const { records } = this.#deps;
    await records.atomically(() => {
      const found = records.get(REQUEST);
      if (found?.sinceMs !== request.sinceMs || found.isCordoned !== request.isCordoned) return;
      if (refusal === undefined) void records.remove(REQUEST);
      else void records.put(REQUEST, { ...found, refusal });
    });
  }
}
