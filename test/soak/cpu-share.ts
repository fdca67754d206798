// How much of this machine's CPU time a program gets that wants all of it. Under a small share guests hang, and what a
// soak then finds is not about the daemon.
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { median } from '../bench/stats.ts';

const SPIN_MS = 1000;
const SPIN = `const endMs = performance.now() + ${SPIN_MS}; while (performance.now() < endMs);`;
/** With less, guests under emulation do not answer for half a minute. */
export const MIN_SHARE = 0.5;

/** From 0 to 1; 1: there is no other work. */
export async function measureShare(cores = availableParallelism()): Promise<number> {
  const before = process.cpuUsage();
  const startedAt = performance.now();
  const spins = Array.from({ length: cores }, () => {
    const worker = new Worker(SPIN, { eval: true });
    return new Promise((resolve, reject) => worker.once('exit', resolve).once('error', reject));
  });
  await Promise.all(spins);
  const { user, system } = process.cpuUsage(before);
  return Math.min(1, (user + system) / 1000 / ((performance.now() - startedAt) * cores));
}

/** As many clients as the machine has time for. */
export function workersFor(share: number, most: number): number {
  return Math.max(1, Math.min(most, Math.round(most * share)));
}

/** Why a run says nothing about the daemon; undefined: it does. */
export function findInvalid(shares: readonly number[], cores = availableParallelism()): string | undefined {
  const share = shares.length === 0 ? 0 : median(shares);
  if (share >= MIN_SHARE) return undefined;
  const percent = Math.round(share * 100);
  const least = `a run needs ${MIN_SHARE * 100} %`;
  return `this machine gave ${percent} % of its ${cores} cores, and ${least}: what hangs or grows is not the daemon's`;
}
