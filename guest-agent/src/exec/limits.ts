// How much of its guest one command may take, so that the next one can always be started, and how much all of them together,
// so that the agent can always answer.

export type GuestSize = {
  readonly memoryBytes: number;
  /** kernel.threads-max, which goes by the memory, and kernel.pid_max. */
  readonly threadsMax: number;
  readonly pidMax: number;
};

export type Limits = {
  readonly together: Share;
  readonly command: Share;
};

/** Processes with their threads, as the kernel counts them. */
export type Share = { readonly pids: number; readonly memoryBytes: number };

const MIB = 2 ** 20;
/** What the agent and the kernel have in a guest at rest, and some more for what clients send and fetch. */
const AGENT_BYTES = 64 * MIB;
/** For what the kernel has by the size of the memory. */
const KERNEL_SHARE = 1 / 32;
/** Never more than that is kept from commands: the agent's memory is held in any case (native/system.cc). */
const KEPT_SHARE = 1 / 2;
const COMMAND_MEMORY_SHARE = 15 / 16;
const PIDS_SHARE = 3 / 4;
const COMMAND_PIDS_SHARE = 1 / 4;

/** `pids`: most of one command, 0: by the guest's size. */
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
