// Detects hanging tests of a mutant. A loaded host makes tests slow but not hang, so this counts the CPU time that
// they used, and the time in which none of their processes ran or waited for a CPU.
import { globSync, readFileSync } from 'node:fs';

const SAMPLE_MS = 1000;
/** Share of CPU time between two samples below which a process counts as waiting, although it polls. */
const BUSY_SHARE = 0.25;
const NS_PER_MS = 1e6;

export class StallWatch {
  /** The reason, if the watch ended the tests. */
  stall: string | undefined;
  private cpuMs = 0;
  private idleMs = 0;
  private readonly limits: { readonly idleMs: number; readonly cpuMs: number };

  constructor(limits: { readonly idleMs: number; readonly cpuMs: number }) {
    this.limits = limits;
  }

  /** A test has finished. */
  progress(): void {
    this.idleMs = 0;
  }

  /** Samples process `root` and its descendants until the returned function is called. */
  start(root: number, onStall: () => void): () => void {
    const seen = new Map<number, { ranMs: number; waitedMs: number }>();
    let sampledAt = performance.now();
    const timer = setInterval(() => {
      const sinceMs = performance.now() - sampledAt;
      sampledAt += sinceMs;
      let activeMs = 0;
      for (const pid of processTree(root)) {
        const now = readTimes(pid);
        const before = seen.get(pid) ?? { ranMs: 0, waitedMs: 0 };
        if (now === undefined) continue;
        seen.set(pid, now);
        this.cpuMs += now.ranMs - before.ranMs;
        activeMs += now.ranMs - before.ranMs + now.waitedMs - before.waitedMs;
      }
      this.idleMs = activeMs < BUSY_SHARE * sinceMs ? this.idleMs + sinceMs : 0;
      if (this.idleMs > this.limits.idleMs) this.stall = 'hangs: it used no CPU time';
      if (this.cpuMs > this.limits.cpuMs) this.stall = 'exceeded its CPU time';
      if (this.stall !== undefined) onStall();
    }, SAMPLE_MS);
    return () => clearInterval(timer);
  }
}

function processTree(root: number): number[] {
  const below = globSync(`/proc/${root}/task/*/children`).flatMap((path) => readWords(path) ?? []);
  return [root, ...below.flatMap((pid) => processTree(pid))];
}

/** Times of a process's main thread, which runs the tests. */
function readTimes(pid: number): { ranMs: number; waitedMs: number } | undefined {
  const [ran, waited] = readWords(`/proc/${pid}/schedstat`) ?? [];
  return ran === undefined || waited === undefined
    ? undefined
    : { ranMs: ran / NS_PER_MS, waitedMs: waited / NS_PER_MS };
}

function readWords(path: string): number[] | undefined {
  try {
    return readFileSync(path, 'utf8')
      .split(' ')
      .filter((word) => word.trim() !== '')
      .map(Number);
  } catch {
    return undefined; // The process has exited.
  }
}
