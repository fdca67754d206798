// `make test-package`: the package in a booted Debian with systemd, in an emulated machine (docs/lab.md has what that is).
// usage: node test/package/run.ts --old deb --new deb [--data-dir path] [--suite bookworm]
import { chmod, copyFile, mkdir, mkdtemp, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { createWritableLayer, makeRootImage, resolveKernel } from '@sandboxd/rootfs-builder';
import { ProgressLine } from '../../host-agent/src/commands/progress.ts';
import { readHostSources } from '../../rootfs-builder/src/debian/sources.ts';
import { runCommand } from '../../rootfs-builder/src/lib/command.ts';
import { digestFile, digestValue, shortDigest } from '../../rootfs-builder/src/lib/digest.ts';
import { addModules, readKernelDeb } from '../lab/image.ts';
import { runMachine } from '../lab/machine.ts';
import { ensureHostTree, unpackTree } from './host.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const MEMORY_MIB = 4096;
const LAYER_BYTES = 8 * 2 ** 30;
/** A booted Debian has them, and a minimal tree has not. */
const HOST_PACKAGES = ['systemd', 'systemd-sysv', 'dbus', 'udev', 'kmod', 'procps', 'iproute2'];
const EXIT_NO_STATUS = 3;

const { values } = parseArgs({
  options: {
    old: { type: 'string' },
    new: { type: 'string' },
    suite: { type: 'string', default: 'bookworm' },
    'data-dir': { type: 'string', default: join(ROOT, '.data') },
    'machine-program': { type: 'string', default: process.env.LAB_QEMU || 'qemu-system-x86_64' },
  },
});
const dataDir = resolve(values['data-dir']);
const labDir = join(dataDir, 'lab');
await mkdir(labDir, { recursive: true });
const dir = await mkdtemp(join(labDir, 'package-'));
const stopping = new AbortController();
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stopping.abort());
try {
  process.exitCode = await run();
} finally {
  await rm(dir, { recursive: true, force: true });
}

async function run(): Promise<number> {
  const imagePath = await ensureHostImage();
  const kernel = await resolveKernel(dataDir, {});
  const [layer, job] = [join(dir, 'layer'), join(dir, 'job')];
  await createWritableLayer(labDir, layer, LAYER_BYTES);
  await makeJob(job);
  const { status, end } = await runMachine({
    ...{ dir, program: values['machine-program'], cpus: 1, memoryMib: MEMORY_MIB },
    ...{ kernelPath: kernel.vmlinuxPath, initramfsPath: kernel.initramfsPath },
    disks: [
      { path: imagePath, isReadOnly: true },
      { path: layer, isReadOnly: false },
      { path: job, isReadOnly: true },
    ],
    devices: await makeNetwork(),
    onOutput: (chunk) => process.stdout.write(chunk),
    signal: stopping.signal,
  });
  if (status === undefined) {
    const log = await readFile(join(dir, 'console.log'), 'utf8').catch(() => '');
    console.log(
      `the machine ended by ${end} without a status; the end of its console:\n${log.split('\n').slice(-60).join('\n')}`,
    );
  }
  return status ?? EXIT_NO_STATUS;
}

async function ensureHostImage(): Promise<string> {
  const { suite, old: deb } = values;
  if (deb === undefined) throw new Error('--old is missing');
  const progress = new ProgressLine().show;
  const tree = await ensureHostTree({ deb, suite, packages: HOST_PACKAGES, cacheDir: labDir, progress });
  const kernelDeb = await readKernelDeb(dataDir, progress);
  const init = join(import.meta.dirname, 'init.sh');
  const digest = digestValue({ tree: tree.digest, kernelDeb, init: await digestFile(init) });
  const imagePath = join(labDir, 'images', `package-${shortDigest(digest)}.ext4`);
  if ((await stat(imagePath).catch(() => undefined)) !== undefined) return imagePath;
  const root = join(dir, 'root');
  await mkdir(dirname(imagePath), { recursive: true });
  await unpackTree(tree.archivePath, root);
  await addModules(root, kernelDeb, join(dir, 'kernel'));
  await mkdir(join(root, 'lab'));
  await copyFile(init, join(root, 'lab/init'));
  await chmod(join(root, 'lab/init'), 0o755);
  await makeRootImage(root, join(dir, 'image'));
  await rename(join(dir, 'image'), imagePath);
  await rm(root, { recursive: true });
  return imagePath;
}

/** The packages, their versions, the steps, and where mirrors are. */
async function makeJob(path: string): Promise<void> {
  const tree = `${path}.tree`;
  await mkdir(tree);
  for (const name of ['old', 'new'] as const) {
    const deb = values[name];
    if (deb === undefined) throw new Error(`--${name} is missing`);
    await copyFile(deb, join(tree, `${name}.deb`));
    await writeFile(
      join(tree, name),
      `${(await runCommand('dpkg-deb', ['--field', deb, 'Version'])).trim()}\n`,
    );
  }
  await copyFile(join(import.meta.dirname, 'steps.sh'), join(tree, 'steps.sh'));
  await writeFile(
    join(tree, 'hosts'),
    (await findMirrors()).map(({ host, at }) => `${at} ${host}\n`).join(''),
  );
  await makeRootImage(tree, path);
  await rm(tree, { recursive: true });
}

/** Those that this machine takes packages from, and which address each has in the machine. */
async function findMirrors(): Promise<{ readonly host: string; readonly at: string }[]> {
  const sources = await readHostSources(values.suite);
  const hosts = new Set(sources.map(({ uri }) => new URL(uri).host));
  return [...hosts].map((host, index) => ({ host, at: `10.0.2.${100 + index}` }));
}

/** A network in which nothing but mirrors can be reached. */
async function makeNetwork(): Promise<string[]> {
  const forwards = (await findMirrors()).flatMap(({ host, at }) =>
    [80, 443].map((port) => `guestfwd=tcp:${at}:${port}-cmd:socat - TCP:${host}:${port}`),
  );
  const network = ['user', 'id=net', 'restrict=on', ...forwards].join(',');
  return ['-netdev', network, '-device', 'virtio-net-pci,netdev=net'];
}
