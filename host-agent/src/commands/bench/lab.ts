// What a run makes in the daemon: sandboxes and snapshots with a label of the run, which all go at its end.
import type { Client, CreateOptions, Sandbox, Snapshot } from '@sandboxd/client';
import { firstLine, toError } from '../../lib/errors.ts';
import { codeOf, NotMeasured } from './measure.ts';
import { type BenchResult, toSpread } from './result.ts';

const LABEL = 'sandboxd-bench';
/** A run that was killed leaves what the daemon deletes so much later than the run would have ended. */
const GRACE_S = 900;
const BATCH = 8;
const CLEANUP_TRIES = 3;
const CLEANUP_MS = 120_000;

export type LabOptions = {
  readonly client: Client;
  readonly run: string;
  readonly profile: string;
  readonly memoryMib: number;
  readonly vcpus: number;
  readonly timeMs: number;
};

export class Lab {
  readonly client: Client;
  readonly options: LabOptions;
  /** Copies of the snapshot that run, for tiers that need no new ones. */
  readonly #pool: Sandbox[] = [];
  #snapshot: Promise<Snapshot> | undefined;

  constructor(options: LabOptions) {
    this.client = options.client;
    this.options = options;
  }

  get #labels() {
    return { [LABEL]: this.options.run };
  }

  get #lifetimeS(): number {
    return Math.ceil(this.options.timeMs / 1000) + GRACE_S;
  }

  create(more: CreateOptions, signal: AbortSignal): Promise<Sandbox> {
    const { profile, memoryMib, vcpus } = this.options;
    const source = more.image === undefined ? { profile } : {};
    const size = { memory_mib: memoryMib, vcpus };
    const bounds = { timeout_s: this.#lifetimeS, labels: this.#labels };
    return this.client.sandboxes.create({ ...source, ...size, ...bounds, ...more, signal });
  }

  /** Of an idle sandbox, taken once. */
  snapshot(signal: AbortSignal): Promise<Snapshot> {
    this.#snapshot ??= this.#take(signal);
    return this.#snapshot;
  }

  async #take(signal: AbortSignal): Promise<Snapshot> {
    const source = await this.create({}, signal);
    await answer(source, signal);
    const snapshot = await source.snapshot({ labels: this.#labels, expires_s: this.#lifetimeS, signal });
    await source.delete({ signal });
    return snapshot;
  }

  /** `count` copies that run, more than once if `isShared` and they do not fit. NotMeasured if too few fit. */
  async copies(count: number, signal: AbortSignal): Promise<readonly Sandbox[]> {
    const snapshot = await this.snapshot(signal);
    while (this.#pool.length < count) {
      const missing = Math.min(BATCH, count - this.#pool.length);
      try {
        this.#pool.push(...(await snapshot.fork({ count: missing, labels: this.#labels, signal })));
      } catch (error) {
        signal.throwIfAborted();
        throw new NotMeasured(`only ${this.#pool.length} copies fit: ${toError(error).message}`);
      }
    }
    return this.#pool.slice(0, count);
  }

  async fork(signal: AbortSignal): Promise<Sandbox> {
    const snapshot = await this.snapshot(signal);
    const [fork] = await snapshot.fork({ labels: this.#labels, signal });
    if (fork === undefined) throw new Error('the daemon made no fork');
    return fork;
  }

  /** Deletes the copies: what follows needs their memory, or they are no longer as they were. */
  async clearCopies(signal: AbortSignal): Promise<void> {
    await Promise.all(this.#pool.splice(0).map((each) => each.delete({ signal })));
  }

  /** Deletes all that has the label, and resolves with what is left: ids. */
  async clear(): Promise<string[]> {
    const filter = `${LABEL}=${this.options.run}`;
    let left: string[] = [];
    for (let attempt = 0; attempt < CLEANUP_TRIES; attempt++) {
      const signal = AbortSignal.timeout(CLEANUP_MS);
      try {
        await this.client.sandboxes.deleteAll({ label: [filter], signal });
        const snapshots = await this.client.snapshots.list({ labels: [filter], signal });
        for (const { id } of snapshots) await this.client.snapshots.get(id).delete({ signal });
        left = (await this.client.sandboxes.list({ label: [filter], signal })).map(({ id }) => id);
        if (left.length === 0) return [];
      } catch (error) {
        left = [`unknown: ${toError(error).message}`];
      }
    }
    return left;
  }
}

/** The stop line of all tiers: a command has run in the guest. */
export async function answer(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
  const { exit_code, error } = await sandbox.exec(['true'], { signal }).result();
  if (exit_code !== 0) throw new Error(error ?? `true ended with ${exit_code}`);
}

// Idle copies of one snapshot: what each takes, and how many fit on the host.

const COPIES = 8;
/** After its first command a guest has some work left, such as closing what the command used. */
const SETTLE_MS = 3000;

export async function measureIdleCopies(
  lab: Lab,
  signal: AbortSignal,
  settleMs = SETTLE_MS,
): Promise<BenchResult['idle_copies']> {
  try {
    await lab.clearCopies(signal);
    const copies = await lab.copies(COPIES, signal);
    for (const copy of copies) await answer(copy, signal);
    await new Promise((resolve) => setTimeout(resolve, settleMs));
    const stats = await Promise.all(copies.map((copy) => copy.stats({ signal })));
    return {
      copies: stats.length,
      private_bytes: toSpread(stats.map(({ private_bytes }) => private_bytes)),
      resident_bytes: toSpread(stats.map(({ resident_bytes }) => resident_bytes)),
      layer_bytes: toSpread(stats.map(({ layer_bytes }) => layer_bytes)),
    };
  } catch (error) {
    if (error instanceof NotMeasured) return { not_measured: error.message };
    if (signal.aborted) return { not_measured: 'the time was up' };
    return { not_measured: firstLine(error) };
  }
}

/** One after another until the daemon refuses one, at most `limit`. All of them answer at the end. */
export async function fillHost(
  lab: Lab,
  limit: number,
  signal: AbortSignal,
): Promise<NonNullable<BenchResult['until_full']>> {
  await lab.clearCopies(signal);
  const made: Sandbox[] = [];
  try {
    while (made.length < limit) {
      const fork = await lab.fork(signal);
      made.push(fork);
      await answer(fork, signal);
    }
    return { sandboxes: made.length, ended_by: 'limit' };
  } catch (error) {
    if (signal.aborted) return { sandboxes: made.length, ended_by: 'time' };
    return { sandboxes: made.length, ended_by: codeOf(error), message: firstLine(error).slice(0, 300) };
  } finally {
    await Promise.all(made.map((each) => each.delete().catch(() => undefined)));
  }
}
