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
const PIDS_SHARE = 3 / 4;
const COMMAND_PIDS_SHARE = 1 / 4;

/** `pids`: maximum of one command; 0: by the guest's size. */
export function toLimits({ memoryBytes, threadsMax, pidMax }: GuestSize, pids: number): Limits {
  const keptBytes = Math.min(memoryBytes * KEPT_SHARE, AGENT_BYTES + memoryBytes * KERNEL_SHARE);
  const togetherBytes = memoryBytes - keptBytes;
  const kernelPids = Math.min(threadsMax, pidMax);
  return {
    together: { pids: Math.floor(kernelPids * PIDS_SHARE), memoryBytes: Math.floor(togetherBytes) },
    command: {
      pids: pids > 0 ? pids : Math.floor(kernelPids * COMMAND_PIDS_SHARE),
      memoryBytes: Math.floor(togetherBytes * COMMAND_MEMORY_SHARE),
    },
  };
}
