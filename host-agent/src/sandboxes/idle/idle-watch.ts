// How long nobody has used a sandbox. What passes through the daemon is told; what does not is seen in counters of the host, so
// that no guest is woken to be asked.
import { mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';

/** Share of one CPU below which a guest does nothing but exist. */
const CPU_FLOOR = 0.05;
/** Below this in one look it is neighbour discovery and the like. */
const BYTES_FLOOR = 256;
/** Looks in the time after which it is idle, within bounds. */
const LOOKS = 4;
const MIN_LOOK_MS = 250;
const MAX_LOOK_MS = 15_000;

/** What only grows while a guest does something. */
export type Counters = { readonly cpuMs: number; readonly networkBytes: number };

/** Milliseconds that go on while the daemon does not run, and do not jump when somebody sets the clock. */
export type Clock = {
  now(): number;
  /** Calls back once after that; the result calls it off. */
  after(ms: number, callback: () => void): () => void;
};

export const HOST_CLOCK: Clock = {
  now: () => Number(process.hrtime.bigint() / 1_000_000n),
  after: (ms, callback) => {
    const timer = setTimeout(callback, ms).unref();
    return () => clearTimeout(timer);
  },
};

export type IdleWatchOptions = {
  readonly idleMs: number;
  /** Keeps the time for the next daemon, where a reboot empties it and no VMM can write. */
  readonly path: string;
  readonly clock?: Clock | undefined;
  /** Undefined when they cannot be read: then only what passes through the daemon counts. */
  readonly read: () => Counters | undefined;
  /** Asked when all else is quiet. */
  readonly hasConnection: () => Promise<boolean>;
  /** Nobody used it for so long. `signal` fires when somebody does after all. When it resolves and it is still there, its time begins anew. */
  readonly onIdle: (signal: AbortSignal) => Promise<void>;
};

const keptSchema = z.object({
  activeAt: z.number(),
  lookedAt: z.number(),
  counters: z.object({ cpuMs: z.number(), networkBytes: z.number() }).optional(),
});
type Kept = z.infer<typeof keptSchema>;

export class IdleWatch {
  readonly #options: IdleWatchOptions;
  readonly #clock: Clock;
  #kept: Kept;
  #uses = 0;
  #callOff: () => void = () => undefined;
  #ending: AbortController | undefined;
  #isStopped = false;

  constructor(options: IdleWatchOptions) {
    this.#options = options;
    this.#clock = options.clock ?? HOST_CLOCK;
    const now = this.#clock.now();
    const earlier = readKept(options.path);
    this.#kept = earlier !== undefined && earlier.lookedAt <= now ? earlier : this.#look(now, now);
    this.#schedule();
  }

  /** Somebody uses it until the result is called, which may be more than once. */
  begin(): () => void {
    this.#uses += 1;
    this.touch();
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      this.#uses -= 1;
      this.touch();
    };
  }

  /** Somebody used it, or it did something. */
  touch(): void {
    this.#kept = { ...this.#kept, activeAt: this.#clock.now() };
    this.#ending?.abort(new Error('the sandbox is used again'));
  }

  /** `isGone`: nothing of it is for a later daemon. */
  stop(isGone: boolean): void {
    if (!this.#isStopped && !isGone) this.#keep();
    this.#isStopped = true;
    this.#callOff();
    if (!isGone) return;
    rmSync(this.#options.path, { force: true });
    try {
      rmdirSync(dirname(this.#options.path));
    } catch {
      // There are others.
    }
  }

  #schedule(): void {
    if (this.#isStopped) return;
    const ms = Math.min(MAX_LOOK_MS, Math.max(MIN_LOOK_MS, this.#options.idleMs / LOOKS));
    this.#callOff = this.#clock.after(ms, () => void this.#turn());
  }

  async #turn(): Promise<void> {
    const before = this.#kept;
    const now = this.#clock.now();
    const next = this.#look(now, before.activeAt);
    this.#kept = this.#uses > 0 || isBusy(before, next) ? { ...next, activeAt: now } : next;
    this.#keep();
    if (this.#isOver && (await this.#options.hasConnection())) this.touch();
    // Once more: somebody may have come while that was found out.
    if (this.#isOver && !this.#isStopped) await this.#end();
    this.#schedule();
  }

  get #isOver(): boolean {
    return this.#uses === 0 && this.#clock.now() - this.#kept.activeAt >= this.#options.idleMs;
  }

  async #end(): Promise<void> {
    this.#ending = new AbortController();
    // Nothing may come between the decision and the call.
    await this.#options.onIdle(this.#ending.signal);
    this.#ending = undefined;
    this.touch();
  }

  #look(now: number, activeAt: number): Kept {
    const counters = this.#options.read();
    return { activeAt, lookedAt: now, ...(counters && { counters }) };
  }

  /** Where it cannot be written, the next daemon begins anew. */
  #keep(): void {
    if (this.#isStopped) return;
    try {
      mkdirSync(dirname(this.#options.path), { recursive: true, mode: 0o700 });
      writeFileSync(this.#options.path, JSON.stringify(this.#kept), { mode: 0o600 });
    } catch {
      // So it is on a full disk; this one goes on all the same.
    }
  }
}

function isBusy({ lookedAt, counters: before }: Kept, { lookedAt: now, counters }: Kept): boolean {
  if (before === undefined || counters === undefined || now <= lookedAt) return false;
  const hasWorked = counters.cpuMs - before.cpuMs > CPU_FLOOR * (now - lookedAt);
  return hasWorked || counters.networkBytes - before.networkBytes > BYTES_FLOOR;
}

function readKept(path: string): Kept | undefined {
  try {
    return keptSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return undefined;
  }
}
