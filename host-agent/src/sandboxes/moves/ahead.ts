// Before a sandbox is paused: what it has is sent while it runs, and the host where it will go on fetches that. Neither
// must succeed, and both end in bounded time; what was not sent or fetched by then is sent and fetched after the pause.
import { firstLine } from '../../lib/errors.ts';
import type { Sandbox } from '../sandbox.ts';
import { type CopyDeps, copyAhead, type KeptCopy } from './copy-ahead.ts';
import { parkedId } from './parked.ts';
import type { PrefetchState } from './prefetches.ts';

/** None may fit, or know how. */
const PLACED_MS = 10_000;
/** What a guest changes meanwhile is sent twice. */
const FETCHED_MS = 120_000;
const REMOVE_MS = 5000;

/** How long hosts wait for each other before a pause. */
export type MoveTimes = {
  /** Until another host has begun to fetch what was sent; 0: none is chosen before the pause. */
  readonly placedMs?: number;
  /** Until it is there. */
  readonly fetchedMs?: number;
  /** For its sandbox. */
  readonly keptMs?: number;
  /** From the pause until what no host has claimed is offered whole. */
  readonly wholeMs?: number;
};

/** `move`: the beginning of the departure; `takesChanges`: not only whole chunks. */
export type Arrival = {
  readonly move: string;
  readonly state: PrefetchState;
  readonly takesChanges: boolean;
};

type Waiting = {
  readonly departure: string;
  copy: KeptCopy | undefined;
  /** Of the fetch, as the fleet says. */
  state: PrefetchState | undefined;
  takesChanges: boolean;
  wake: () => void;
};

export type AheadDeps = CopyDeps & {
  readonly onChange: (id: string) => void;
  readonly times?: MoveTimes | undefined;
};

export class Ahead {
  readonly #deps: AheadDeps;
  readonly #waiting = new Map<string, Waiting>();

  constructor(deps: AheadDeps) {
    this.#deps = deps;
  }

  /** The departure of one whose copy can be fetched. */
  departureOf(id: string): string | undefined {
    return this.#waiting.get(id)?.departure;
  }

  /** Of each part, what its next host has; undefined unless that one has all of it, and takes changes. */
  basesOf(id: string): KeptCopy['bases'] | undefined {
    const { copy, state, takesChanges = false } = this.#waiting.get(id) ?? {};
    return state === 'ready' && takesChanges ? copy?.bases : undefined;
  }

  /** For its pause. */
  sinceOf(id: string): KeptCopy['since'] {
    return this.#waiting.get(id)?.copy?.since;
  }

  /** Frees the disk space of the copy that is kept; false: there is none. */
  async dropCopy(id: string): Promise<boolean> {
    const waiting = this.#waiting.get(id);
    const copy = waiting?.copy;
    if (waiting === undefined || copy === undefined) return false;
    waiting.copy = undefined;
    await copy[Symbol.asyncDispose]();
    return true;
  }

  /** How far the host is where it will go on. */
  note(id: string, { move, state, takesChanges }: Arrival): void {
    const waiting = this.#waiting.get(id);
    if (waiting?.departure.startsWith(move) !== true) return;
    waiting.takesChanges = takesChanges;
    if (waiting.state === state) return;
    waiting.state = state;
    waiting.wake();
  }

  /**
   * Sends it; `isPlaced`: a fleet chooses its next host meanwhile, for which this waits. Rejects only when aborted.
   * `end` must follow when another host may have it, or it stays.
   */
  async send(sandbox: Sandbox, departure: string, isPlaced: boolean, signal: AbortSignal): Promise<void> {
    const { log, onChange, track, times = {} } = this.#deps;
    const { id } = sandbox;
    const { placedMs = PLACED_MS, fetchedMs = FETCHED_MS } = times;
    const isNamed = isPlaced && placedMs > 0;
    const copy = await copyAhead(sandbox, departure, { ...this.#deps, isNamed }, signal);
    if (copy === undefined) return;
    const waiting: Waiting = {
      ...{ departure, copy, state: undefined, takesChanges: false },
      wake: () => undefined,
    };
    this.#waiting.set(id, waiting);
    onChange(id);
    const startedAt = performance.now();
    await track(async (stop) => {
      const either = AbortSignal.any([signal, stop]);
      await waitUntil(waiting, (state) => state !== undefined, placedMs, either);
      if (waiting.state !== 'fetching') return;
      await waitUntil(waiting, (state) => state !== 'fetching', fetchedMs, either);
    });
    const waitedMs = Math.round(performance.now() - startedAt);
    log.info(
      { sandbox: id, waitedMs, fetched: waiting.state ?? 'by no host' },
      'a sandbox that is to leave is paused now',
    );
  }

  /** Never rejects; what stays in the store is collected. */
  async end(id: string): Promise<void> {
    const { departure, copy } = this.#waiting.get(id) ?? {};
    if (departure === undefined) return;
    this.#waiting.delete(id);
    await copy?.[Symbol.asyncDispose]();
    const { store, log } = this.#deps;
    await store.ahead
      .remove(parkedId(id, departure), AbortSignal.timeout(REMOVE_MS))
      .catch((error: unknown) =>
        log.warn(
          { sandbox: id, reason: firstLine(error) },
          'what a sandbox has sent ahead stays in the store',
        ),
      );
  }
}

/** Rejects with the signal's reason. */
async function waitUntil(
  waiting: Waiting,
  isMet: (state: Waiting['state']) => boolean,
  limitMs: number,
  outer: AbortSignal,
): Promise<void> {
  const limit = AbortSignal.timeout(limitMs);
  const signal = AbortSignal.any([outer, limit]);
  while (!isMet(waiting.state) && !signal.aborted)
    await new Promise<void>((resolve) => {
      const done = (): void => {
        signal.removeEventListener('abort', done);
        resolve();
      };
      waiting.wake = done;
      signal.addEventListener('abort', done, { once: true });
    });
  outer.throwIfAborted();
}
