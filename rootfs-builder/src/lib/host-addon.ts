// The host's native addon, `native/host.c`: built to `addons/host.node` beside the executable.
import { dirname, join, resolve } from 'node:path';
import { isSea } from 'node:sea';

export type HostAddon = {
  /** Copies a file's data and leaves its holes; the target must not exist. Rejects with the system error. */
  readonly copySparse: (from: string, to: string) => Promise<void>;
  /** SCHED_BATCH or SCHED_OTHER for one thread. Throws the system error. */
  readonly setBatch: (thread: number, isBatch: boolean) => void;
};

let loaded: HostAddon | undefined;

export function hostAddon(): HostAddon {
  if (loaded === undefined) {
    const dist = isSea() ? dirname(process.execPath) : resolve(import.meta.dirname, '../../../dist');
    const module = { exports: {} };
    process.dlopen(module, join(dist, 'addons/host.node'));
    loaded = module.exports as HostAddon;
  }
  return loaded;
}
