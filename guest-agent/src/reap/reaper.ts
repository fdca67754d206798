// The first process's duty: every process that ended and has no other parent is reaped here, the agent's own children
// and orphans alike. Each one's usage goes to whom it belongs.
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { POLL, type Poller } from '../native/poller.ts';

/** Reaped in one go before the event loop gets its turn. */
const BATCH = 256;

export type Exit = {
  /** 0–255, or -1 when a signal ended it. */
  readonly exitCode: number;
  /** Number of that signal, or 0. */
  readonly signal: number;
};

/** What the kernel counted for a process and those of its children that it waited for. */
export type ProcessUsage = {
  readonly cpuUserUs: number;
  readonly cpuSystemUs: number;
  readonly majorFaults: number;
  readonly involuntarySwitches: number;
  readonly readBytes: number;
  readonly writtenBytes: number;
};

const BLOCK_BYTES = 512;

export type ReaperOptions = {
  readonly poller: Poller;
  /** An orphan ended that lived in the cgroup of this path (as /proc/<pid>/cgroup has it, below the root). */
  readonly onOrphan: (cgroupPath: string, usage: ProcessUsage) => void;
};

export class Reaper {
  readonly #options: ReaperOptions;
  readonly #children = new Map<number, (exit: Exit, usage: ProcessUsage) => void>();
  readonly #numbers = new Float64Array(8);

  constructor(options: ReaperOptions) {
    this.#options = options;
  }

  start(): void {
    this.#options.poller.watch(addon.childEvents(), POLL.in | POLL.edge, () => this.#reapAll());
  }

  /** Calls `onExit` once when the child `pid` has ended. To be called in the same turn as spawn. */
  expect(pid: number, onExit: (exit: Exit, usage: ProcessUsage) => void): void {
    this.#children.set(pid, onExit);
  }

  #reapAll(): void {
    for (let count = 0; count < BATCH; count++) {
      const pid = addon.peekEnded();
      if (pid === 0) return;
      this.#reap(pid);
    }
    setImmediate(() => this.#reapAll());
  }

  #reap(pid: number): void {
    const onExit = this.#children.get(pid);
    // Only while it is a zombie does the kernel still say where an orphan belonged.
    const cgroup = onExit === undefined ? addon.readText(NO_DIRECTORY, `/proc/${pid}/cgroup`) : '';
    if (!addon.reap(pid, this.#numbers)) return;
    const [exitCode = -1, signal = 0, user = 0, system = 0, faults = 0, switches = 0, read = 0, written = 0] =
      this.#numbers;
    const usage: ProcessUsage = {
      cpuUserUs: user,
      cpuSystemUs: system,
      majorFaults: faults,
      involuntarySwitches: switches,
      readBytes: read * BLOCK_BYTES,
      writtenBytes: written * BLOCK_BYTES,
    };
    if (onExit === undefined) {
      this.#options.onOrphan(parseUnifiedPath(cgroup), usage);
      return;
    }
    this.#children.delete(pid);
    onExit({ exitCode, signal }, usage);
  }
}

/** The path of the `0::` line, without its leading slash; "" when there is none. */
export function parseUnifiedPath(text: string): string {
  const line = text.split('\n').find((candidate) => candidate.startsWith('0::/'));
  return line?.slice(4).replace(/ \(deleted\)$/, '') ?? '';
}
