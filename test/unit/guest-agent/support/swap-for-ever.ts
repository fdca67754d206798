// A thread that alternates `d` of a destination between a directory and a link to the outside, until it is terminated.
import { mkdirSync, renameSync, symlinkSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';

const { to, outside } = workerData as { readonly to: string; readonly outside: string };
const d = join(to, 'd');

function attempt(step: () => void): void {
  try {
    step();
  } catch {
    // The extraction created it first.
  }
}

parentPort?.postMessage('ready');
for (let n = 0; ; n++) {
  attempt(() => renameSync(d, join(to, `was-${n}`)));
  attempt(() => symlinkSync(outside, d));
  attempt(() => unlinkSync(d));
  attempt(() => mkdirSync(join(d, 'e'), { recursive: true }));
}
