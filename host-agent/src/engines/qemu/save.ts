// Saves a guest: memory and device state of one moment. As much memory as possible is copied while the guest runs.
import { open, readdir, readlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import process from 'node:process';
import { copySparse } from '@sandboxd/rootfs-builder';
import { readSmall } from '../../lib/untrusted-path.ts';
import { everyOne } from '../../lib/wait.ts';
import type { FileVersion, SaveOptions, VmmIdentity, WrittenVm } from '../engine.ts';
import { takeBack } from '../jail/jail.ts';
import {
  checkSize,
  copyMappedFile,
  copyOwnPages,
  copyProcessFile,
  type FinishCopy,
  mapsFile,
  readMapping,
  versionKey,
} from '../mapping.ts';
import { beginSharedLog, logOwnPages } from '../page-log.ts';
import { qemuFiles } from './files.ts';
import type { QmpClient } from './qmp.ts';

/** For writing some 200 KiB; only an overloaded disk takes longer. */
const STATE_TIMEOUT_MS = 30_000;

/** The real size is some 200 KiB. */
const MAX_STATE_BYTES = 64 * 2 ** 20;

type SaveContext = {
  readonly identity: VmmIdentity;
  readonly control: Pick<QmpClient, 'execute'>;
  /** Resumes the guest, or ends a VM that cannot be resumed. */
  readonly resume: () => Promise<void>;
};

export async function saveQemu(
  { identity, control, resume }: SaveContext,
  options: SaveOptions,
): Promise<WrittenVm> {
  const own = qemuFiles(identity.paths).statePath;
  const memory = await beginMemory(identity, options);
  const write = async (pausedAt: number): Promise<WrittenVm> => {
    const statePath = join(options.dir, 'state');
    const state = await readSmall(own, MAX_STATE_BYTES);
    if (state.length === 0) throw new Error('the VMM has saved no state of its devices');
    await writeFile(statePath, state, { mode: 0o600 });
    if (identity.jail !== undefined && memory.changesPath === undefined) await takeBack(memory.memoryPath);
    const { memoryPath, changesPath } = memory;
    const pausedMs = performance.now() - pausedAt;
    return { memoryPath, statePath, pausedMs, ...(changesPath !== undefined && { changesPath }) };
  };
  let pausedAt = 0;
  let written: WrittenVm | undefined;
  try {
    await options.beforePause?.();
    pausedAt = performance.now();
    // A `stop` that timed out may still take effect, so the guest is resumed then, too.
    try {
      await control.execute('stop');
      await everyOne([
        // Despite its name this is not specific to Xen: it saves all device state, no memory, no disks. `live: false`
        // keeps the disks active, because the guest resumes.
        control.execute('xen-save-devices-state', { filename: own, live: false }, STATE_TIMEOUT_MS),
        memory.finish(),
        options.whilePaused(),
      ]);
      if (options.staysPaused) {
        // The kernel takes the pages of a VMM that it kills for its memory while they are read as absent. An answer
        // says that it was not killed before; one that goes on answers to `cont`.
        await control.execute('query-status');
        written = await write(pausedAt);
        await options.commit?.(written);
      }
    } catch (error) {
      await resume().catch(() => undefined);
      throw error;
    }
    if (!options.staysPaused) await resume();
  } finally {
    options.afterPause?.();
  }
  return written ?? (await write(pausedAt));
}

type Memory = Pick<WrittenVm, 'memoryPath' | 'changesPath'> & { readonly finish: FinishCopy };

/** Only the changes since an earlier copy, or where the guest maps a memory file of its own; else all of it. */
async function beginMemory(identity: VmmIdentity, options: SaveOptions): Promise<Memory> {
  const { dir, memoryBytes, base, since } = options;
  const { pid, memory } = identity;
  const target = join(dir, 'changes');
  if (since !== undefined && memory.kind === 'anonymous') {
    const log = await beginSharedLog({ memoryBytes, base: since, target });
    const finish = async () => log(await memoryDescriptor(pid));
    return { memoryPath: since, changesPath: target, finish };
  }
  const known = since ?? ((await mapsFile(memory, base ?? '')) ? base : undefined);
  if (known !== undefined && memory.kind === 'copy-on-write') {
    const mapping = await readMapping(pid, memory.path);
    checkSize(mapping.sizeBytes, memoryBytes);
    const isCached = since !== undefined;
    const log = { pid, mappings: [mapping], memoryBytes, base: known, target, isCached };
    const finish = () => logOwnPages(log);
    return { memoryPath: known, changesPath: target, finish };
  }
  const memoryPath = join(dir, 'memory');
  return { memoryPath, finish: await beginMemoryCopy(identity, memoryBytes, memoryPath) };
}

/**
 * Starts a copy of the guest's memory to the new file `target`; not needed if the guest keeps its memory in that file.
 * A compromised VMM may present another object: it must be a file of exactly the guest's memory size.
 */
export async function beginMemoryCopy(
  { pid, memory }: Pick<VmmIdentity, 'pid' | 'memory'>,
  memoryBytes: number,
  target: string,
): Promise<FinishCopy> {
  if (memory.kind === 'anonymous')
    return async () => copyProcessFile(await memoryDescriptor(pid), memoryBytes, target);
  if (memory.kind === 'file') {
    return memory.path === target ? async () => undefined : () => copySparse(memory.path, target);
  }
  // The file of a private mapping never changes: only the guest's own pages must be copied during the pause.
  const mapping = await readMapping(pid, memory.path);
  checkSize(mapping.sizeBytes, memoryBytes);
  const isCopied = memory.origin !== undefined && (await copyOrigin(memory.origin, target));
  if (!isCopied) await copyMappedFile(pid, mapping, memoryBytes, target);
  return () => copyOwnPages(pid, [mapping], target);
}

/** Shares the file's extents if the file system supports it. False if the file was replaced. */
async function copyOrigin({ path, key }: FileVersion, target: string): Promise<boolean> {
  const file = await open(path, 'r').catch(() => undefined);
  if (file === undefined) return false;
  await using _file = file;
  if (versionKey(await file.stat()) !== key) return false;
  await copySparse(`/proc/${process.pid}/fd/${file.fd}`, target);
  return true;
}

async function memoryDescriptor(pid: number): Promise<string> {
  for (const fd of await readdir(`/proc/${pid}/fd`)) {
    const path = `/proc/${pid}/fd/${fd}`;
    if ((await readlink(path).catch(() => '')).startsWith('/memfd:memory-backend-memfd')) return path;
  }
  throw new Error(`process ${pid} has no memory descriptor`);
}
