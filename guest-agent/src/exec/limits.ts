// Limits for one command, so that the next one can always start, and for all commands together, so that the agent can
// always answer.

export type GuestSize = {
  readonly memoryBytes: number;
  /** The smaller of kernel.threads-max, which depends on the memory size, and kernel.pid_max. */
  readonly threadsMax: number;
  readonly pidMax: number;
};

export type Limits = {
  readonly together: Share;
  readonly command: Share;
};

/** Processes and threads, as the kernel counts them. */
export type Share = { readonly pids: number; readonly memoryBytes: number };

const MIB = 2 ** 20;
/** Memory of the agent and the kernel in an idle guest, with a margin for transfers of clients. */
const AGENT_BYTES = 64 * MIB;
/** Kernel memory that grows with the memory size. */
const KERNEL_SHARE = 1 / 32;
/**
 * Upper bound of the memory reserved from commands; the agent's own memory is locked in any case (native/system.cc).
 */
const KEPT_SHARE = 1 / 2;
const COMMAND_MEMORY_SHARE = 15 / 16;
/**
 * What the agent and the kernel take in a guest of any size, measured. One command is bounded by the rest: otherwise
 * the guest runs out of memory before the command reaches its limit, and the kernel may kill another command for it.
 */
const TAKEN_BYTES = 79 * MIB;
const MIN_COMMAND_BYTES = 12 * MIB;
const PIDS_SHARE = 3 / 4;
const COMMAND_PIDS_SHARE = 1 / 4;
/** /dev/shm and /run together (boot/mounts.ts). */
const MEMORY_FILES_SHARE = 1 / 4 + 1 / 10;
/** System V objects outlive commands, as files in memory do. These limits keep their sum below the commands' memory. */
const SHM_SHARE = 1 / 4;
const SHM_SHARE_OF_REST = 1 / 2;
const MESSAGES_SHARE_OF_REST = 1 / 8;
const SEMAPHORES_SHARE_OF_REST = 1 / 16;
/** A queue of the default 16384 bytes holds as many messages of one byte; the kernel allocates 64 bytes for each. */
const QUEUE_BYTES = MIB;
const MIN_QUEUES = 4;
const PAGE_BYTES = 4096;
const SEMAPHORE_BYTES = 64;
const SEMAPHORE_SET_BYTES = 1024;
const DEFAULT_SEMAPHORE_SETS = 32_000;

/** `pids`: maximum of one command; 0: by the guest's size. */
export function toLimits({ memoryBytes, threadsMax, pidMax }: GuestSize, pids: number): Limits {
  const keptBytes = Math.min(memoryBytes * KEPT_SHARE, AGENT_BYTES + memoryBytes * KERNEL_SHARE);
  const togetherBytes = memoryBytes - keptBytes;
  const freeBytes = Math.max(MIN_COMMAND_BYTES, memoryBytes - TAKEN_BYTES);
  const kernelPids = Math.min(threadsMax, pidMax);
  return {
    together: { pids: Math.floor(kernelPids * PIDS_SHARE), memoryBytes: Math.floor(togetherBytes) },
    command: {
      pids: pids > 0 ? pids : Math.floor(kernelPids * COMMAND_PIDS_SHARE),
      memoryBytes: Math.floor(Math.min(togetherBytes * COMMAND_MEMORY_SHARE, freeBytes)),
    },
  };
}

/** Pages of shared memory, message queues, and kernel.sem, of the guest's own IPC namespace. */
type SystemVLimits = { readonly shmall: number; readonly msgmni: number; readonly sem: string };

/** What is in another IPC namespace is gone with the last process of that. */
export function toSystemVLimits(size: GuestSize): SystemVLimits {
  const { together } = toLimits(size, 0);
  const restBytes = Math.max(0, together.memoryBytes - size.memoryBytes * MEMORY_FILES_SHARE);
  const shmBytes = Math.min(size.memoryBytes * SHM_SHARE, restBytes * SHM_SHARE_OF_REST);
  const semaphoresBytes = restBytes * SEMAPHORES_SHARE_OF_REST;
  const semaphores = Math.floor(semaphoresBytes / SEMAPHORE_BYTES);
  const sets = Math.min(DEFAULT_SEMAPHORE_SETS, Math.floor(semaphoresBytes / SEMAPHORE_SET_BYTES));
  return {
    shmall: Math.floor(shmBytes / PAGE_BYTES),
    msgmni: Math.max(MIN_QUEUES, Math.floor((restBytes * MESSAGES_SHARE_OF_REST) / QUEUE_BYTES)),
    sem: `32000 ${semaphores} 500 ${sets}`,
  };
}
