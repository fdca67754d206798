// An installation's kernel is copied to a data directory without one.
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { resolveKernel, seedKernel } from '../../../rootfs-builder/src/index.ts';

async function makeKernel(t: Test, digest: string, vmlinux: string) {
  const dir = await mkdtemp(join(tmpdir(), 'kernel-'));
  t.teardown(() => rm(dir, { recursive: true }));
  const manifest = {
    ...{ formatVersion: 1, digest, package: 'linux-image', version: '6.1', initDigest: 'i' },
    ...{ vmlinuxSizeBytes: vmlinux.length, initramfsSizeBytes: 4, createdAt: '2026-01-01T00:00:00.000Z' },
  };
  await writeFile(join(dir, 'vmlinux'), vmlinux);
  await writeFile(join(dir, 'initramfs'), 'cpio');
  await writeFile(join(dir, 'manifest.json'), JSON.stringify(manifest));
  return dir;
}

async function makeDataDir(t: Test) {
  const dataDir = await mkdtemp(join(tmpdir(), 'seed-'));
  t.teardown(() => rm(dataDir, { recursive: true }));
  return dataDir;
}

t.test('it is copied where no kernel exists, and an existing one is kept', async (t) => {
  const dataDir = await makeDataDir(t);
  await t.rejects(resolveKernel(dataDir, {}), { code: 'kernel_not_prepared' });
  const first = await makeKernel(t, '1'.repeat(64), 'first');
  await seedKernel(dataDir, first);
  const kernel = await resolveKernel(dataDir, {});
  t.match(kernel, { digest: '1'.repeat(64), version: '6.1' });
  t.equal(await readFile(kernel.vmlinuxPath, 'utf8'), 'first');
  t.ok(kernel.vmlinuxPath.startsWith(dataDir), 'an upgrade of the installation does not take it away');
  await seedKernel(dataDir, await makeKernel(t, '2'.repeat(64), 'second'));
  t.equal((await resolveKernel(dataDir, {})).digest, '1'.repeat(64));
});

t.test('its modules come along, and one of an earlier format has none', async (t) => {
  const dataDir = await makeDataDir(t);
  const from = await makeKernel(t, '1'.repeat(64), 'kernel');
  const manifest = JSON.parse(await readFile(join(from, 'manifest.json'), 'utf8'));
  const write = (change: object) =>
    writeFile(join(from, 'manifest.json'), JSON.stringify({ ...manifest, ...change }));
  await write({ formatVersion: 2, modulesSizeBytes: 7 });
  await t.rejects(seedKernel(dataDir, from), { code: 'ENOENT' });
  await writeFile(join(from, 'modules.tar.zst'), 'modules');
  await seedKernel(dataDir, from);
  const { modulesPath = '' } = await resolveKernel(dataDir, {});
  t.equal(await readFile(modulesPath, 'utf8'), 'modules');
  await writeFile(modulesPath, 'cut');
  await t.rejects(resolveKernel(dataDir, {}), { code: 'kernel_not_prepared' });
  const older = await makeDataDir(t);
  await write({});
  await seedKernel(older, from);
  t.equal((await resolveKernel(older, {})).modulesPath, undefined);
});

t.test('a damaged kernel is replaced, and an incomplete one does not count', async (t) => {
  const dataDir = await makeDataDir(t);
  const from = await makeKernel(t, '1'.repeat(64), 'kernel');
  await seedKernel(dataDir, from);
  await writeFile((await resolveKernel(dataDir, {})).vmlinuxPath, 'cut');
  await seedKernel(dataDir, from);
  t.equal(await readFile((await resolveKernel(dataDir, {})).vmlinuxPath, 'utf8'), 'kernel');
  const empty = await makeDataDir(t);
  const half = await makeKernel(t, '3'.repeat(64), 'half');
  await rm(join(half, 'initramfs'));
  await t.rejects(seedKernel(empty, half), { code: 'ENOENT' });
  await mkdir(empty, { recursive: true });
  await t.rejects(resolveKernel(empty, {}), { code: 'kernel_not_prepared' });
});
