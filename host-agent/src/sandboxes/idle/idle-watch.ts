// Measures how long a sandbox is idle. Uses through the daemon are reported to it; other activity is read from
// counters of the host, so that no guest is woken by polling.
import { mkdirSync, readFileSync, rmdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { z } from 'zod';
import { readVmUsage, type UsageSource } from '../vm-usage.ts';

/** Share of one CPU below which a guest counts as idle. */
const CPU_FLOOR = 0.05;
/** Traffic below this in one sample is neighbour discovery and similar. */
const BYTES_FLOOR = 256;
/** Samples within the idle timeout, if the interval stays within its bounds. */
const SAMPLES = 4;
const MIN_SAMPLE_MS = 250;
const MAX_SAMPLE_MS = 15_000;

/** Counters that grow only while a guest works. */
export type Counters = { readonly cpuMs: number; readonly networkBytes: number };

/** Where idle timeouts read what a sandbox did. */
export type IdleSources = {
  readonly readCounters: (sandbox: UsageSource & { readonly id: string }) => Counters | undefined;
};

export type IdleWatchOptions = {
  readonly idleMs: number;
  /** File that stores the state for the next daemon, in a directory that a reboot empties and no VMM can write. */
  readonly path: string;
  /** Undefined when the counters cannot be read; then only uses through the daemon count. */
  readonly read: () => Counters | undefined;
  /** Called when there is no other sign of use. */
  readonly hasConnection: () => Promise<boolean>;
  /**
   * Called after the idle timeout. `signal` fires when a client uses the sandbox again. If the sandbox still exists
   * when this resolves, the idle time starts again.
   */
  readonly onIdle: (signal: AbortSignal) => Promise<void>;
};

const stateSchema = z.object({
  activeAt: z.number(),
  lookedAt: z.number(),
  counters: z.object({ cpuMs: z.number(), networkBytes: z.number() }).optional(),
});
type State = z.infer<typeof stateSchema>;

export class IdleWatch {
  readonly #options: IdleWatchOptions;
  #state: State;
  #uses = 0;
  #timer: NodeJS.Timeout | undefined;
  #ending: AbortController | undefined;
  #isStopped = false;

  constructor(options: IdleWatchOptions) {
    this.#options = options;
    const now = monotonicMs();
    const earlier = readState(options.path);
    this.#state = earlier !== undefined && earlier.lookedAt <= now ? earlier : this.#sample(now, now);
    this.#schedule();
  }

  /** Begins a use of the sandbox; returns the function that ends it, which may be called more than once. */
  beginUse(): () => void {
    this.#uses += 1;
    this.touch();
    let hasEnded = false;
    return () => {
      if (hasEnded) return;
      hasEnded = true;
      this.#uses -= 1;
      this.touch();
    };
  }

  /** Notes a use or an activity. */
  touch(): void {
    this.#state = { ...this.#state, activeAt: monotonicMs() };
    this.#ending?.abort(new Error('the sandbox is used again'));
  }

  /** `isGone`: the stored state is removed. */
  stop(isGone: boolean): void {
    if (!this.#isStopped && !isGone) this.#store();
    this.#isStopped = true;
    clearTimeout(this.#timer);
    if (!isGone) return;
    rmSync(this.#options.path, { force: true });
    try {
      rmdirSync(dirname(this.#options.path));
    } catch {
      // The directory contains files of other sandboxes.
    }
  }

  #schedule(): void {
    if (this.#isStopped) return;
    const ms = Math.min(MAX_SAMPLE_MS, Math.max(MIN_SAMPLE_MS, this.#options.idleMs / SAMPLES));
    this.#timer = setTimeout(() => void this.#tick(), ms).unref();
  }

  async #tick(): Promise<void> {
    const before = this.#state;
    const now = monotonicMs();
    const next = this.#sample(now, before.activeAt);
    this.#state = this.#uses > 0 || isBusy(before, next) ? { ...next, activeAt: now } : next;
    this.#store();
    if (this.#isIdle && (await this.#options.hasConnection())) this.touch();
    // Checked again: a use may have begun during the call.
    if (this.#isIdle && !this.#isStopped) await this.#end();
    this.#schedule();
  }

  get #isIdle(): boolean {
    return this.#uses === 0 && monotonicMs() - this.#state.activeAt >= this.#options.idleMs;
  }

  async #end(): Promise<void> {
    this.#ending = new AbortController();
    // No await between the decision and the call.
    await this.#options.onIdle(this.#ending.signal);
    this.#ending = undefined;
    this.touch();
  }

  #sample(now: number, activeAt: number): State {
    const counters = this.#options.read();
    return { activeAt, lookedAt: now, ...(counters && { counters }) };
  }

  /** If the file cannot be written, the next daemon starts with a full idle time. */
  #store(): void {
    if (this.#isStopped) return;
    try {
      mkdirSync(dirname(this.#options.path), { recursive: true, mode: 0o700 });
      writeFileSync(this.#options.path, JSON.stringify(this.#state), { mode: 0o600 });
    } catch {
      // For example on a full disk; this daemon continues with its state in memory.
    }
  }
}

/** Milliseconds since the boot of the host: it continues while the daemon does not run, and ignores the wall clock. */
function monotonicMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

function isBusy({ lookedAt, counters: before }: State, { lookedAt: now, counters }: State): boolean {
  if (before === undefined || counters === undefined || now <= lookedAt) return false;
  const hasWorked = counters.cpuMs - before.cpuMs > CPU_FLOOR * (now - lookedAt);
  return hasWorked || counters.networkBytes - before.networkBytes > BYTES_FLOOR;
}

function readState(path: string): State | undefined {
  try {
    return stateSchema.parse(JSON.parse(readFileSync(path, 'utf8')));
  } catch {
    return undefined;
  }
}

function toCounters(sandbox: UsageSource): Counters | undefined {
  const usage = readVmUsage(sandbox);
  if (usage === undefined) return undefined;
  const { receivedBytes = 0, sentBytes = 0 } = usage.network ?? {};
  return { cpuMs: usage.cpuMs, networkBytes: receivedBytes + sentBytes };
}

export const HOST_IDLE: IdleSources = { readCounters: toCounters };
