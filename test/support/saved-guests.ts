// Snapshots for tests: three small files and their manifest.
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  describeFile,
  type SavedManifest,
  writeManifest,
} from '../../host-agent/src/sandboxes/saved/manifest.ts';
import { SavedGuest } from '../../host-agent/src/sandboxes/saved/saved-guest.ts';

const MIB = 2 ** 20;
export const rootfs = {
  kind: 'profile',
  name: 'base',
  digest: 'p',
  rootfsPath: '/p',
  env: {},
  workdir: '/',
} as const;

export async function scratch(t: { teardown(work: () => Promise<void>): void }): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'saved-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

export async function makeSaved(dir: string, { hasChecksums = true } = {}): Promise<SavedGuest> {
  await mkdir(dir, { recursive: true });
  for (const name of ['memory', 'state', 'disk']) await writeFile(join(dir, name), `content of ${name}`);
  const [memory, state, disk] = await Promise.all(
    ['memory', 'state', 'disk'].map((name) => describeFile(dir, name)),
  );
  const manifest: SavedManifest = {
    formatVersion: 2,
    createdAt: new Date().toISOString(),
    compatibility: { engine: 'x', version: '1' },
    kernelDigest: 'k',
    options: { rootfs, vcpus: 1, memoryMib: 512, diskBytes: MIB, timeoutS: 0, bootArgs: '' },
    needsResync: false,
    files: { memory: memory!, state: state!, disk: disk! },
  };
  await writeManifest(dir, manifest);
  const saved = await SavedGuest.open(dir);
  if (hasChecksums) await saved.addChecksums(new AbortController().signal);
  return saved;
}
