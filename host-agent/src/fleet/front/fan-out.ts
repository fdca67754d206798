// A request that all hosts are asked at the same time. The key is checked first, each key has so many at once, and the
// answers have a limited memory until the client has its own.
import type { IncomingMessage, ServerResponse } from 'node:http';
import PQueue from 'p-queue';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError, toError } from '../../lib/errors.ts';
import type { FleetMap, Host } from '../catalogue.ts';
import { type Caller, type Callers, clientOf } from './callers.ts';
import { pickHostHeaders } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { Shares } from './shares.ts';

const LIST_MS = 5000;
const MAX_ASKED_AT_ONCE = 256;
const MAX_FAN_OUTS = 1024;
const MAX_FAN_OUTS_OF_EACH = 128;
/** Of 320 full hosts, the longest lists have some 200 MiB. */
const MAX_ANSWERS_BYTES = 768 * 2 ** 20;
const MAX_ANSWERS_BYTES_OF_EACH = 256 * 2 ** 20;
const NOT_PERMITTED: readonly (number | undefined)[] = [401, 403];

/** `failure`: why there is no answer. */
export type Asked = {
  readonly host: Host;
  readonly found: HostAnswer | undefined;
  readonly failure?: string;
};

/** What the answers to one request take. */
export type AnswerMemory = Disposable & {
  /** AppError exhausted. */
  readonly add: (bytes: number) => void;
};

/** Of one gateway, over all keys and for each. */
export class FanOutLimits {
  readonly #limit = new ConcurrencyLimit({
    what: 'requests to all hosts',
    max: MAX_FAN_OUTS,
    maxPerClient: MAX_FAN_OUTS_OF_EACH,
  });
  readonly #bytes = new Shares(MAX_ANSWERS_BYTES, MAX_ANSWERS_BYTES_OF_EACH);

  /** AppError exhausted. */
  acquire(caller: Caller): AnswerMemory {
    const slot = this.#limit.acquire(clientOf(caller), caller.tenant);
    let heldBytes = 0;
    let isOpen = true;
    const add = (bytes: number): void => {
      if (!isOpen) return;
      if (!this.#bytes.take(caller, bytes))
        throw new AppError('exhausted', 'the answers of the hosts take too much memory; ask for less', {
          retryAfterS: 5,
        });
      heldBytes += bytes;
    };
    return {
      add,
      [Symbol.dispose]: () => {
        isOpen = false;
        this.#bytes.giveBack(caller, heldBytes);
        heldBytes = 0;
        slot[Symbol.dispose]();
      },
    };
  }
}

export type FanOutDeps = {
  readonly map: FleetMap;
  readonly connections: HostConnections;
  readonly callers: Callers;
};

export class FanOut {
  readonly #deps: FanOutDeps;
  readonly #limits = new FanOutLimits();

  constructor(deps: FanOutDeps) {
    this.#deps = deps;
  }

  /** RefusedCaller; AppError exhausted, also for a fleet without hosts. Answers count until the client has its own. */
  async askAll(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    method = request.method ?? 'GET',
  ): Promise<readonly Asked[]> {
    const memory = this.#limits.acquire(await this.#deps.callers.findFor(request, response));
    if (response.destroyed) memory[Symbol.dispose]();
    else response.once('close', () => memory[Symbol.dispose]());
    return await this.#ask(request, path, method, memory);
  }

  /** As `askAll`; the answers are read by `read`, and not kept. */
  async readAll<T>(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    read: (asked: readonly Asked[]) => T,
  ): Promise<T> {
    using memory = this.#limits.acquire(await this.#deps.callers.findFor(request, response));
    return read(await this.#ask(request, path, 'GET', memory));
  }

  async #ask(
    request: IncomingMessage,
    path: string,
    method: string,
    memory: AnswerMemory,
  ): Promise<readonly Asked[]> {
    const hosts = this.#deps.map.hosts();
    if (hosts.length === 0) throw new AppError('exhausted', 'the fleet has no host', { retryAfterS: 5 });
    const headers = pickHostHeaders(request, ['authorization', 'prefer', 'accept', 'x-request-id']);
    const limit = AbortSignal.timeout(LIST_MS);
    const ask = async (host: Host): Promise<Asked> => {
      const asked = { method, path, headers };
      const found = await this.#deps.connections.send(host, asked, undefined, limit, memory);
      const { statusCode = 500 } = found.answer;
      return statusCode < 500
        ? { host, found }
        : { host, found: undefined, failure: `it answers with status ${statusCode}` };
    };
    const fail = (host: Host, error: unknown): Asked => ({
      ...{ host, found: undefined, failure: toError(error).message },
    });
    // Those that are not reached in time are missing in the answer, as those that do not answer.
    const queue = new PQueue({ concurrency: MAX_ASKED_AT_ONCE });
    return await Promise.all(
      hosts.map((host) => queue.add(() => ask(host).catch((error: unknown) => fail(host, error)))),
    );
  }
}

export function isDone({ found }: Pick<Asked, 'found'>): boolean {
  const { statusCode = 500 } = found?.answer ?? {};
  return statusCode >= 200 && statusCode < 300;
}

/** The answer of a host that did not do it, about the key first. It counts if none has done it. */
export function refusalOf(asked: readonly Pick<Asked, 'found'>[]): HostAnswer | undefined {
  const refused = asked.flatMap((each) => (each.found === undefined || isDone(each) ? [] : [each.found]));
  return refused.find(isNotPermitted) ?? refused[0];
}

/** The key is not permitted to do it, if no host has done it; then others need not be known. */
export function keyRefusalOf(asked: readonly Pick<Asked, 'found'>[]): HostAnswer | undefined {
  const refusal = asked.some(isDone) ? undefined : refusalOf(asked);
  return refusal !== undefined && isNotPermitted(refusal) ? refusal : undefined;
}

export function isNotPermitted({ answer: { statusCode } }: HostAnswer): boolean {
  return NOT_PERMITTED.includes(statusCode);
}
