// A copy of a guest that was made while it ran: a pause writes only what has changed since. The files of the copy get
// second names beside those of the pause, which does not need the first ones any more then.
import { link, mkdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Vm } from '../../engines/engine.ts';

type CopyFiles = {
  readonly memoryPath: string;
  /** Of the memory. */
  readonly checksumsPath: string;
};

/** The files are on disk, and stay as they are until the pause. */
export type EarlierCopy = CopyFiles & {
  /** One that was restored since then has changed pages that no other one knows of. */
  readonly vm: Vm;
};

/** In the new directory `dir`; undefined if the copy is of another VM, or cannot be had there. */
export async function linkCopy(
  copy: EarlierCopy | undefined,
  vm: Vm,
  dir: string,
): Promise<CopyFiles | undefined> {
  if (copy === undefined || copy.vm !== vm) return undefined;
  const linked = {
    memoryPath: join(dir, basename(copy.memoryPath)),
    checksumsPath: join(dir, basename(copy.checksumsPath)),
  };
  await mkdir(dir, { mode: 0o700 });
  try {
    await link(copy.memoryPath, linked.memoryPath);
    await link(copy.checksumsPath, linked.checksumsPath);
    return linked;
  } catch {
    // It was removed for its space, or is on another file system: all is written.
    await rm(dir, { recursive: true });
    return undefined;
  }
}
