// Whether the host has room: memory, disk and slots are promised before anything is made, and given back when it is not.
import { AppError, causesOf, errnoOf, isAppError } from '../lib/errors.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import type { HostCapacity } from './host-capacity.ts';

const MIB = 2 ** 20;
/** Kept free for logs, the registry and what running guests write. */
const DISK_RESERVE_BYTES = 256 * MIB;
/** Of a VMM process beside its guest's memory: code and heap, and translated code under emulation. */
export const VMM_OVERHEAD_MIB = 96;
/** What a new guest has touched once its agent answers: a booted one; a copy shares the rest with its origin. */
const BOOT_TOUCHED_MIB = 256;
const COPY_TOUCHED_MIB = 64;
const RETRY_AFTER_S = 5;
/** What was deleted has this long to be gone for one who needs its room. */
const FREEING_MS = 5000;

export type AdmissionOptions = {
  /** Sandboxes that may exist at once. */
  readonly maxSandboxes: number;
  /** Never given to sandboxes. */
  readonly memoryReserveBytes: number;
  /** How often the rest may be promised; 1 is never more than there is. */
  readonly memoryOvercommit: number;
  readonly readCapacity: () => Promise<HostCapacity>;
  /**
   * Memory of every VM that runs, those of deleted sandboxes included, how many sandboxes there are, and what engines hold for
   * copies together.
   */
  readonly inUse: () => {
    readonly sandboxes: number;
    readonly memoryMib: readonly number[];
    readonly sharedBytes: number;
  };
  /** Resolves when more of what was deleted may be gone; undefined when nothing is about to go. */
  readonly freeing?: () => Promise<void> | undefined;
};

export type Need = {
  /** Guest memory of each sandbox to make. */
  readonly memoryMib: readonly number[];
  /** Whether they are copies of a saved guest. */
  readonly areCopies: boolean;
  /** Memory that all copies of one saved guest, `of`, share and that is not there yet; absent: none. */
  readonly shared?: { readonly of: string; readonly bytes: number };
  /** Disk that is written at once. */
  readonly diskBytes: number;
};

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #pending = new Set<Need>();
  /** How often there was no room, by what was short. */
  readonly refusals = new Map<string, number>();

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /**
   * Holds what is needed until disposed, when it shows in the host's own numbers. Room that deletes are about to give back
   * is waited for. AppError exhausted.
   */
  async reserve(need: Need): Promise<Disposable> {
    using limit = deadline(FREEING_MS, () => new Error('deletes take too long'));
    for (;;) {
      const freeing = this.#options.freeing?.();
      const capacity = await this.#options.readCapacity();
      try {
        return this.#take(need, capacity);
      } catch (error) {
        if (freeing === undefined || limit.signal.aborted) throw this.#counted(error);
        await raceSignal(freeing, limit.signal).catch(() => undefined);
      }
    }
  }

  #counted(error: unknown): unknown {
    const what = isAppError(error) ? String(error.details.stage) : 'unknown';
    this.refusals.set(what, (this.refusals.get(what) ?? 0) + 1);
    return error;
  }

  /** Nothing is waited for here: two at once cannot both have the last room. */
  #take(need: Need, capacity: HostCapacity): Disposable {
    const pending = [...this.#pending, need];
    if (need.memoryMib.length > 0 || need.shared !== undefined) {
      this.#checkSlots(pending);
      this.#checkPromises(pending, capacity);
      this.#checkAvailable(pending, capacity);
    }
    checkDisk(pending, capacity);
    this.#pending.add(need);
    return { [Symbol.dispose]: () => void this.#pending.delete(need) };
  }

  #checkSlots(pending: readonly Need[]): void {
    const wanted = this.#options.inUse().sandboxes + sum(pending, ({ memoryMib }) => memoryMib.length);
    const max = this.#options.maxSandboxes;
    if (wanted <= max) return;
    throw exhausted(`this daemon takes ${max} sandboxes, ${wanted} would exist; delete some first`, 'slots');
  }

  /** All of it may be touched by its guests at any time. */
  #checkPromises(pending: readonly Need[], { memoryTotalBytes }: HostCapacity): void {
    const { memoryReserveBytes, memoryOvercommit, inUse } = this.#options;
    const used = inUse();
    const all = [...used.memoryMib, ...pending.flatMap(({ memoryMib }) => memoryMib)];
    const sharedMib = toMib(used.sharedBytes + sumShared(pending));
    const promisedMib = sharedMib + sum(all, (memoryMib) => memoryMib + VMM_OVERHEAD_MIB);
    const budgetMib = Math.floor(
      (Math.max(0, memoryTotalBytes - memoryReserveBytes) * memoryOvercommit) / MIB,
    );
    if (promisedMib <= budgetMib) return;
    throw exhausted(
      `no memory: sandboxes may be promised ${budgetMib} MiB on this host, ${promisedMib} MiB would be; delete some, or ask for less`,
      'memory',
    );
  }

  /** What is being started has not shown in the host's numbers yet. */
  #checkAvailable(pending: readonly Need[], { memoryAvailableBytes }: HostCapacity): void {
    const soonMib = sum(pending, ({ memoryMib, areCopies }) =>
      sum(
        memoryMib,
        (mib) => Math.min(mib, areCopies ? COPY_TOUCHED_MIB : BOOT_TOUCHED_MIB) + VMM_OVERHEAD_MIB,
      ),
    );
    const wantedMib = soonMib + toMib(sumShared(pending)) + toMib(this.#options.memoryReserveBytes);
    const availableMib = Math.floor(memoryAvailableBytes / MIB);
    if (wantedMib <= availableMib) return;
    throw exhausted(
      `no memory: ${availableMib} MiB are available on this host, ${wantedMib} MiB must be; delete some sandboxes, or try later`,
      'memory',
    );
  }
}

function checkDisk(pending: readonly Need[], { diskFreeBytes }: HostCapacity): void {
  const wantedBytes = DISK_RESERVE_BYTES + sum(pending, ({ diskBytes }) => diskBytes);
  if (wantedBytes <= diskFreeBytes) return;
  throw exhausted(
    `no disk space: ${Math.floor(diskFreeBytes / MIB)} MiB are free in the data directory, ${Math.ceil(wantedBytes / MIB)} MiB must be; free some, or delete sandboxes or snapshots`,
    'disk',
  );
}

/** Whoever wants the same counts it, as nobody knows who will be first; it is made once. */
function sumShared(pending: readonly Need[]): number {
  const bytesOf = new Map(pending.map(({ shared }) => [shared?.of, shared?.bytes ?? 0]));
  return sum([...bytesOf.values()], (bytes) => bytes);
}

function toMib(bytes: number): number {
  return Math.ceil(bytes / MIB);
}

function exhausted(message: string, stage: string): AppError {
  return new AppError('exhausted', message, { stage, retryAfterS: RETRY_AFTER_S });
}

function sum<T>(items: readonly T[], count: (item: T) => number): number {
  return items.reduce((total, item) => total + count(item), 0);
}

/** Codes of a full disk of the host: of its kernel, and of the programs that the rootfs builder runs. */
const NO_SPACE: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'host_disk_full']);

/**
 * The error as AppError exhausted when it, or what caused it, is a full disk of the host, else undefined. Texts do not count:
 * a guest may have written them.
 */
export function asNoSpace(error: unknown, doing: string, stage: string): AppError | undefined {
  if (!causesOf(error).some((cause) => NO_SPACE.has(errnoOf(cause)))) return undefined;
  return new AppError('exhausted', `cannot ${doing} (stage ${stage}): no space left on the host's disk`, {
    stage,
    retryAfterS: RETRY_AFTER_S,
    cause: error,
  });
}
