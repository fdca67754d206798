// Whether tests of a mutant hang. A busy host makes them slow, but does not make them hang: so it counts the time that they
// computed, and the time in which none of their processes computed or waited for a CPU.
import { globSync, readFileSync } from 'node:fs';

const LOOK_MS = 1000;
/** Of the time between two looks: what polls is still waiting. */
const BUSY_SHARE = 0.25;
const NS_PER_MS = 1e6;

export class StallWatch {
  /** What ended the tests, if this did. */
  stall: string | undefined;
  private cpuMs = 0;
  private idleMs = 0;
  private readonly limits: { readonly idleMs: number; readonly cpuMs: number };

  constructor(limits: { readonly idleMs: number; readonly cpuMs: number }) {
    this.limits = limits;
  }

  /** A test is done. */
  progress(): void {
    this.idleMs = 0;
  }

  /** Looks at process `root` and all below it until the returned function is called. */
  start(root: number, onStall: () => void): () => void {
    const seen = new Map<number, { ranMs: number; waitedMs: number }>();
    let lookedAt = performance.now();
    const timer = setInterval(() => {
      const sinceMs = performance.now() - lookedAt;
      lookedAt += sinceMs;
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
      if (this.idleMs > this.limits.idleMs) this.stall = 'waits for what does not come';
      if (this.cpuMs > this.limits.cpuMs) this.stall = 'computes without end';
      if (this.stall !== undefined) onStall();
    }, LOOK_MS);
    return () => clearInterval(timer);
  }
}

function processTree(root: number): number[] {
  const below = globSync(`/proc/${root}/task/*/children`).flatMap((path) => readWords(path) ?? []);
  return [root, ...below.flatMap((pid) => processTree(pid))];
}

/** Of a process's first thread, which is where tests run. */
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
    return undefined; // It has ended.
  }
}
