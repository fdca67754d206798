// Reaps zombies as PID 1 must: the agent's own children and orphans. The usage of each process is added to its command.
import { addon, NO_DIRECTORY } from '../native/addon.ts';
import { POLL, type Poller } from '../native/poller.ts';

/** Processes reaped before control returns to the event loop. */
const BATCH = 256;

export type Exit = {
  /** 0–255, or -1 when a signal ended it. */
  readonly exitCode: number;
  /** Number of that signal, or 0. */
  readonly signal: number;
};

/** The kernel's counters for a process and those of its children that it waited for. */
export type ProcessUsage = {
  readonly cpuUserUs: number;
  readonly cpuSystemUs: number;
  readonly majorFaults: number;
  readonly involuntarySwitches: number;
  readonly readBytes: number;
  readonly writtenBytes: number;
};

const BLOCK_BYTES = 512;

type ReaperOptions = {
  readonly poller: Poller;
  /** An orphan of this cgroup ended (the path of /proc/<pid>/cgroup, below the root). */
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

  /** Calls `onExit` once when the child `pid` has ended. To be called in the same event-loop turn as spawn. */
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
    // The kernel reports an orphan's cgroup only while the process is a zombie.
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

/** The path of the `0::` line, without its leading slash; "" when there is no such line. */
export function parseUnifiedPath(text: string): string {
  const line = text.split('\n').find((candidate) => candidate.startsWith('0::/'));
  return line?.slice(4).replace(/ \(deleted\)$/, '') ?? '';
}
