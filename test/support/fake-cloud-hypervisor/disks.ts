// Disk locks between fakes, as the real VMM has them between processes: one writer or many readers.
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { apiError, osError } from './refusal.ts';
import type { DiskStates, FakeConfig } from './snapshot.ts';

export type FakeDisk = { readonly id?: string; readonly path: string; readonly readonly?: boolean };

/** Locks all disks or none. */
export function lockDisks(locksDir: string, disks: readonly FakeDisk[]): () => void {
  const held: string[] = [];
  const release = (): void => {
    for (const path of held) rmSync(path, { force: true });
  };
  try {
    for (const disk of disks) held.push(lockDisk(locksDir, disk));
    return release;
  } catch (error) {
    release();
    throw error;
  }
}

function lockDisk(locksDir: string, disk: FakeDisk): string {
  const file = statDisk(disk.path);
  const dir = join(locksDir, `${file.dev}-${file.ino}`);
  mkdirSync(dir, { recursive: true });
  const kind = disk.readonly === true ? 'read' : 'write';
  for (const name of readdirSync(dir)) {
    const [otherKind, pid] = name.split('-');
    if (!isAlive(Number(pid))) rmSync(join(dir, name), { force: true });
    else if (kind === 'write' || otherKind === 'write') {
      throw apiError(
        'The VM could not boot',
        'Error locking disk images: Another instance likely holds a lock',
        `Failed to lock disk image ${disk.path}`,
        'Resource temporarily unavailable (os error 11)',
      );
    }
  }
  const path = join(dir, `${kind}-${process.pid}`);
  writeFileSync(path, '');
  return path;
}

function statDisk(path: string): { readonly dev: number; readonly ino: number } {
  try {
    return statSync(path);
  } catch (error) {
    throw apiError(
      'The VM could not boot',
      'Error from device manager',
      `Cannot open disk path ${path}`,
      osError(error),
    );
  }
}

function isAlive(pid: number): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return false;
  }
}

export const SECTOR_BYTES = 512;
/** With this kernel parameter, a guest keeps only the disk with its agent. */
const BARE = /\bsandbox\.bare\b/;

export function sectorsOf(path: string): number {
  return Math.floor(statSync(path).size / SECTOR_BYTES);
}

/** The disks of a VM that boots, and whether the guest's driver is bound to them. */
export function findDisks({ disks = [], payload }: FakeConfig): DiskStates {
  const isBare = BARE.test(payload?.cmdline ?? '');
  return new Map(
    disks.map(({ id = '', path }, index) => [
      id,
      { sectors: sectorsOf(path), isTaken: !isBare || index >= 2 },
    ]),
  );
}
