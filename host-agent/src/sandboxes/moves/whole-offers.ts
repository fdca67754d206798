// Sandboxes that are offered as changes of a copy, which hosts of earlier versions refuse. The host that was to take
// one may end before it does: what none has claimed after a while is offered whole, for every host.
import PQueue from 'p-queue';
import { enqueue } from '../../lib/concurrency-limit.ts';
import { AppError, firstLine } from '../../lib/errors.ts';
import type { Sandbox } from '../sandbox.ts';
import type { CopyDeps } from './copy-ahead.ts';
import type { DepartureRecord } from './departure-record.ts';
import { parkedId } from './parked.ts';
import { uploadParked } from './upload-parked.ts';

/** A host that has the copy has claimed it long before. */
const AFTER_MS = 30_000;
/** Each sends with as many connections as any upload; a drained host may have hundreds that no host claims. */
const MAX_SENDING = 2;

type WholeOffersDeps = Pick<CopyDeps, 'store' | 'context' | 'track' | 'log'> & {
  readonly afterMs?: number | undefined;
};

export class WholeOffers {
  readonly #deps: WholeOffersDeps;
  readonly #queue = new PQueue({ concurrency: MAX_SENDING });
  readonly #running = new Map<string, { readonly abort: AbortController; readonly done: Promise<void> }>();
  /** Since when each is looked at, by id: the wall clock may jump. A restart of the daemon begins again. */
  readonly #since = new Map<string, { readonly departure: string; readonly atMs: number }>();
  /** Their departures, by id. After a restart of the daemon they are sent again, which sends no chunks. */
  readonly #whole = new Map<string, string>();

  constructor(deps: WholeOffersDeps) {
    this.#deps = deps;
  }

  /** Begins with one that no host has claimed, if it is time; it may wait for others. */
  look(sandbox: Sandbox, { departure, hasChanges, wasRunning }: DepartureRecord): void {
    const { afterMs = AFTER_MS, track, log } = this.#deps;
    const { id } = sandbox;
    if (hasChanges !== true || this.#whole.get(id) === departure || this.#running.has(id)) return;
    if (performance.now() - this.#sinceOf(id, departure) < afterMs) return;
    const abort = new AbortController();
    const send = (stop: AbortSignal) =>
      this.#send(sandbox, { departure, wasRunning }, AbortSignal.any([abort.signal, stop]));
    const begin = () => track((stop) => sandbox.snapshotQueue.add(() => send(stop)));
    const done = enqueue(this.#queue, begin, abort.signal)
      .catch((error: unknown) => {
        if (!abort.signal.aborted)
          log.warn({ sandbox: id, reason: firstLine(error) }, 'a paused sandbox is not offered whole yet');
      })
      .finally(() => this.#running.delete(id));
    this.#running.set(id, { abort, done });
  }

  /** It is not offered by this host any more. */
  async end(id: string): Promise<void> {
    const running = this.#running.get(id);
    running?.abort.abort(new AppError('cancelled', `sandbox ${id} is not offered any more`));
    await running?.done;
    this.#whole.delete(id);
    this.#since.delete(id);
  }

  #sinceOf(id: string, departure: string): number {
    const known = this.#since.get(id);
    if (known?.departure === departure) return known.atMs;
    const atMs = performance.now();
    this.#since.set(id, { departure, atMs });
    return atMs;
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#running.keys()].map((id) => this.end(id)));
  }

  async #send(
    sandbox: Sandbox,
    { departure, wasRunning }: Pick<DepartureRecord, 'departure' | 'wasRunning'>,
    signal: AbortSignal,
  ): Promise<void> {
    const { store, log } = this.#deps;
    const { id } = sandbox;
    signal.throwIfAborted();
    // One that a host has claimed is that host's to remove.
    const beforeManifest = async (): Promise<void> => {
      const holder = await store.parked.readClaim(parkedId(id, departure), signal);
      signal.throwIfAborted();
      if (holder !== undefined) throw new AppError('cancelled', `a host has claimed sandbox ${id}`);
    };
    const about = { sandbox, departure, wasRunning, bases: undefined, ended: Promise.resolve() };
    const upload = { ...about, replaces: true, beforeManifest };
    const { sentBytes } = await uploadParked(upload, this.#deps, signal);
    this.#whole.set(id, departure);
    log.info({ sandbox: id, sentBytes }, 'a paused sandbox that no host has taken is offered whole');
  }
}
