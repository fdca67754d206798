// Admission control: memory, disk and slots of the host are read and reserved before anything is created.

import { readFile, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { AppError, causesOf, errnoOf, isAppError } from '../lib/errors.ts';
import { deadline, raceSignal } from '../lib/wait.ts';

const MIB = 2 ** 20;
/** Reserved for logs, the registry and what running guests write. */
const DISK_RESERVE_BYTES = 256 * MIB;
/**
 * Memory of a VMM process besides its guest's memory: code and heap, and translated code under emulation. An engine may
 * need more for a booted guest (`bootedOverheadMib`).
 */
export const VMM_OVERHEAD_MIB = 96;
/**
 * Memory that a new guest has touched when its agent answers: a cold-booted guest, and a copy, which shares the rest
 * copy-on-write.
 */
const BOOT_TOUCHED_MIB = 256;
const COPY_TOUCHED_MIB = 64;
const RETRY_AFTER_S = 5;
/** A request that needs space waits at most this long for deletes in progress. */
const MAX_FREEING_WAIT_MS = 5000;

/**
 * Current use: memory of every running VM (also of deleted sandboxes), number of sandboxes, memory that engines share
 * between copies.
 */
type InUse = {
  readonly sandboxes: number;
  readonly memoryMib: readonly number[];
  readonly sharedBytes: number;
  /** What booted guests take besides that. */
  readonly bootedMib: number;
};

export type AdmissionOptions = {
  /** Maximum number of sandboxes. */
  readonly maxSandboxes: number;
  /** Never given to sandboxes. */
  readonly memoryReserveBytes: number;
  /** Overcommit factor for the rest; 1 means no overcommit. */
  readonly memoryOvercommit: number;
  readonly readCapacity: () => Promise<HostCapacity>;
  readonly inUse: () => InUse;
  /**
   * Resolves when a clean-up in progress has ended and may have freed resources; undefined when there are no clean-
   * ups.
   */
  readonly freeing?: () => Promise<void> | undefined;
  /** Cancels the template guests that are being made; resolves when they are gone. Undefined when there are none. */
  readonly giveWay?: () => Promise<void> | undefined;
};

export type Need = {
  /** Guest memory of each sandbox to create. */
  readonly memoryMib: readonly number[];
  /** Whether they are copies of a saved guest. */
  readonly areCopies: boolean;
  /** Memory that all copies of the saved guest `of` share and that is not allocated yet; absent: none. */
  readonly shared?: { readonly of: string; readonly bytes: number };
  /** Disk that is written immediately. */
  readonly diskBytes: number;
  /** The guest of a template: it is not a sandbox, and gives way to those. */
  readonly isTemplate?: boolean;
};

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #pending = new Set<Need>();
  /** Number of refusals, by the resource that was short. */
  readonly refusals = new Map<string, number>();

  constructor(options: AdmissionOptions) {
    this.#options = options;
  }

  /**
   * Reserves what is needed until disposed; by then the host's own numbers include it. Waits for space that deletes
   * in progress will free. AppError exhausted.
   */
  async reserve(need: Need): Promise<Disposable> {
    using limit = deadline(MAX_FREEING_WAIT_MS, () => new Error('deletes take too long'));
    for (;;) {
      const freeing = this.#options.freeing?.();
      const capacity = await this.#options.readCapacity();
      try {
        return this.#tryReserve(need, capacity);
      } catch (error) {
        const freed = freeing ?? (this.#fitsWithoutTemplates(need, capacity) && this.#options.giveWay?.());
        if (!freed || limit.signal.aborted) throw this.#countRefusal(error);
        await raceSignal(freed, limit.signal).catch(() => undefined);
      }
    }
  }

  #countRefusal(error: unknown): unknown {
    const resource = isAppError(error) ? String(error.details.stage) : 'unknown';
    this.refusals.set(resource, (this.refusals.get(resource) ?? 0) + 1);
    return error;
  }

  /** Synchronous: two concurrent requests cannot both get the last space. */
  #tryReserve(need: Need, capacity: HostCapacity): Disposable {
    this.#check(need, this.#pending, capacity);
    this.#pending.add(need);
    return { [Symbol.dispose]: () => void this.#pending.delete(need) };
  }

  #check(need: Need, others: Iterable<Need>, capacity: HostCapacity): void {
    const pending = [...others, need];
    if (need.memoryMib.length > 0 || need.shared !== undefined) {
      // Read once: it is a walk over all sandboxes.
      const used = this.#options.inUse();
      this.#checkSlots(pending, used);
      this.#checkPromises(pending, used, capacity);
      this.#checkAvailable(pending, capacity);
    }
    checkDisk(pending, capacity);
  }

  #fitsWithoutTemplates(need: Need, capacity: HostCapacity): boolean {
    const others = [...this.#pending].filter(({ isTemplate }) => isTemplate !== true);
    if (need.isTemplate === true || others.length === this.#pending.size) return false;
    try {
      this.#check(need, others, capacity);
      return true;
    } catch {
      return false;
    }
  }

  #checkSlots(pending: readonly Need[], used: InUse): void {
    const starting = pending.filter(({ isTemplate }) => isTemplate !== true);
    const total = used.sandboxes + sum(starting, ({ memoryMib }) => memoryMib.length);
    const max = this.#options.maxSandboxes;
    if (total <= max) return;
    throw exhausted(`this daemon takes ${max} sandboxes, ${total} would exist; delete some first`, 'slots');
  }

  /** Guests may touch all of their memory at any time. */
  #checkPromises(pending: readonly Need[], used: InUse, { memoryTotalBytes }: HostCapacity): void {
    const { memoryReserveBytes, memoryOvercommit } = this.#options;
    const withOverhead = (memoryMib: readonly number[]) => sum(memoryMib, (mib) => mib + VMM_OVERHEAD_MIB);
    const pendingMib = sum(pending, ({ memoryMib }) => withOverhead(memoryMib));
    const sharedMib = toMib(used.sharedBytes + sumShared(pending));
    const promisedMib = sharedMib + used.bootedMib + withOverhead(used.memoryMib) + pendingMib;
    const budgetMib = Math.floor(
      (Math.max(0, memoryTotalBytes - memoryReserveBytes) * memoryOvercommit) / MIB,
    );
    if (promisedMib <= budgetMib) return;
    throw exhausted(
      `no memory: sandboxes may be promised ${budgetMib} MiB on this host, ${promisedMib} MiB would be; ` +
        'delete some, or ask for less',
      'memory',
    );
  }

  /** The host's numbers do not yet include guests that are being started. */
  #checkAvailable(pending: readonly Need[], { memoryAvailableBytes }: HostCapacity): void {
    const startingMib = sum(pending, ({ memoryMib, areCopies }) =>
      sum(
        memoryMib,
        (mib) => Math.min(mib, areCopies ? COPY_TOUCHED_MIB : BOOT_TOUCHED_MIB) + VMM_OVERHEAD_MIB,
      ),
    );
    const neededMib = startingMib + toMib(sumShared(pending)) + toMib(this.#options.memoryReserveBytes);
    const availableMib = Math.floor(memoryAvailableBytes / MIB);
    if (neededMib <= availableMib) return;
    throw exhausted(
      `no memory: ${availableMib} MiB are available on this host, ${neededMib} MiB must be; ` +
        'delete some sandboxes, or try later',
      'memory',
    );
  }
}

function checkDisk(pending: readonly Need[], { diskFreeBytes }: HostCapacity): void {
  const neededBytes = DISK_RESERVE_BYTES + sum(pending, ({ diskBytes }) => diskBytes);
  if (neededBytes <= diskFreeBytes) return;
  const freeMib = Math.floor(diskFreeBytes / MIB);
  throw exhausted(
    `no disk space: ${freeMib} MiB are free in the data directory, ${toMib(neededBytes)} MiB must be; ` +
      'free some, or delete sandboxes or snapshots',
    'disk',
  );
}

/** Each request includes the shared memory, because any of them may be first; it is allocated only once. */
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

/** Error codes of a full host disk: from the kernel, and from programs that the rootfs builder runs. */
const NO_SPACE: ReadonlySet<string | undefined> = new Set(['ENOSPC', 'EDQUOT', 'host_disk_full']);

/**
 * Returns AppError exhausted if the error or one of its causes is a full host disk, else undefined. Message texts do
 * not count, because a guest may have written them.
 */
export function asNoSpace(error: unknown, doing: string, stage: string): AppError | undefined {
  if (!causesOf(error).some((cause) => NO_SPACE.has(errnoOf(cause)))) return undefined;
  return new AppError('exhausted', `cannot ${doing} (stage ${stage}): no space left on the host's disk`, {
    stage,
    retryAfterS: RETRY_AFTER_S,
    cause: error,
  });
}

// Memory and disk of the host for sandboxes. A limit on the daemon's own cgroup counts as the host's: VMMs are in
// that cgroup, and beyond the limit the kernel's OOM killer ends one.
export type HostCapacity = {
  readonly memoryTotalBytes: number;
  readonly memoryAvailableBytes: number;
  readonly diskFreeBytes: number;
};

type Memory = { readonly totalBytes: number; readonly availableBytes: number };

/** `procDir` and `cgroupDir`: mount points of those file systems. */
export async function readHostCapacity(
  dataDir: string,
  procDir = '/proc',
  cgroupDir = '/sys/fs/cgroup',
): Promise<HostCapacity> {
  const [{ bavail, bsize }, host, groups] = await Promise.all([
    statfs(dataDir),
    readHostMemory(procDir),
    readGroupLimits(procDir, cgroupDir),
  ]);
  return {
    memoryTotalBytes: Math.min(host.totalBytes, ...groups.map(({ totalBytes }) => totalBytes)),
    memoryAvailableBytes: Math.min(
      host.availableBytes,
      ...groups.map(({ availableBytes }) => Math.max(0, availableBytes)),
    ),
    diskFreeBytes: bavail * bsize,
  };
}

async function readHostMemory(procDir: string): Promise<Memory> {
  const text = await readFile(join(procDir, 'meminfo'), 'latin1');
  const field = (name: string): number =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0) * 1024;
  return { totalBytes: field('MemTotal'), availableBytes: field('MemAvailable') };
}

/** Limits of this process's cgroup and of its ancestors that have one (cgroups v2). */
async function readGroupLimits(procDir: string, cgroupDir: string): Promise<Memory[]> {
  const path = /^0::(\/.*)$/m.exec(await readOptional(join(procDir, 'self/cgroup')))?.[1];
  const found: Memory[] = [];
  for (let at = path; at !== undefined; at = at === '/' ? undefined : dirname(at)) {
    const dir = join(cgroupDir, at);
    const limit = (await readOptional(join(dir, 'memory.max'))).trim();
    if (!/^\d+$/.test(limit)) continue;
    const [current, stat] = await Promise.all(
      ['memory.current', 'memory.stat'].map((name) => readOptional(join(dir, name))),
    );
    // The kernel reclaims inactive file pages before it kills a process.
    const reclaimable = Number(/^inactive_file (\d+)$/m.exec(stat ?? '')?.[1] ?? 0);
    const totalBytes = Number(limit);
    found.push({ totalBytes, availableBytes: totalBytes - Number(current) + reclaimable });
  }
  return found;
}

function readOptional(path: string): Promise<string> {
  return readFile(path, 'latin1').catch(() => '');
}
