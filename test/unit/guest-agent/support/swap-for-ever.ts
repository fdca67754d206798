// A thread that makes `d` of a destination a directory and a link to the outside in turn, until it is ended.
import { mkdirSync, renameSync, symlinkSync, unlinkSync } from 'node:fs';
import { join } from 'node:path';
import { parentPort, workerData } from 'node:worker_threads';

const { to, outside } = workerData as { readonly to: string; readonly outside: string };
const d = join(to, 'd');

function attempt(step: () => void): void {
  try {
    step();
  } catch {
    // The extraction was there first.
  }
}

parentPort?.postMessage('ready');
for (let n = 0; ; n++) {
  attempt(() => renameSync(d, join(to, `was-${n}`)));
  attempt(() => symlinkSync(outside, d));
  attempt(() => unlinkSync(d));
  attempt(() => mkdirSync(join(d, 'e'), { recursive: true }));
}
