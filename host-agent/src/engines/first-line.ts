// Whether guests really run: a throw-away one is booted to the first line of its console.
import { randomBytes } from 'node:crypto';
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { toError } from '../lib/errors.ts';
import { tailFile } from '../lib/tail.ts';
import { deadline, poll } from '../lib/wait.ts';
import type { BootOptions, EngineContext, Vm, VmPaths } from './engine.ts';

const PROBE_MEMORY_MIB = 256;

export type FirstLineOptions = {
  readonly context: EngineContext;
  /** When the daemon's configuration sets none. */
  readonly timeoutMs: number;
  readonly boot: (options: BootOptions) => Promise<Vm>;
  readonly consolePath: (paths: VmPaths) => string;
  /** Runs while the guest is there. */
  readonly learn?: (paths: VmPaths, limit: AbortSignal) => Promise<void>;
  readonly signal?: AbortSignal | undefined;
};

/** Undefined when a guest printed its first line, else why not. Rejects with the signal's reason only. */
export async function tryFirstLine(options: FirstLineOptions): Promise<string | undefined> {
  const { context, boot, consolePath, learn, signal: outer } = options;
  const dir = join(context.scratchDir, `probe-${randomBytes(4).toString('hex')}`);
  await mkdir(dir, { mode: 0o700 });
  const paths = { dir, socketDir: dir };
  const spec = {
    vcpus: 1,
    memoryMib: PROBE_MEMORY_MIB,
    kernelPath: context.kernelPath,
    initramfsPath: context.initramfsPath,
    bootArgs: 'earlyprintk=ttyS0,115200 loglevel=7',
    disks: [],
  };
  const timeoutMs = context.probeTimeoutMs ?? options.timeoutMs;
  using limit = deadline(timeoutMs, () => new Error(`no console line within ${timeoutMs} ms`), outer);
  try {
    const vm = await boot({ spec, paths, log: context.log, signal: limit.signal });
    try {
      await poll(
        async () => {
          if ((await tailFile(consolePath(paths), 1)) !== '') return true;
          if (vm.exit !== undefined) throw new Error(`${vm.exit.reason}\n${await vm.diagnose()}`);
          return undefined;
        },
        10,
        limit.signal,
      );
      await learn?.(paths, limit.signal);
      return undefined;
    } finally {
      await vm.kill();
    }
  } catch (error) {
    outer?.throwIfAborted();
    return toError(error).message;
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
