// What becomes of images while sandboxes live: another agent comes, room runs out, several run from one.
import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join, resolve } from 'node:path';
import t from 'tap';
import {
  BAKED_DATA_DIR,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { compileProgram } from '../support/image-program.ts';
import { leftovers } from '../support/leftovers.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { vmmPids } from '../support/vmms.ts';
import { type MadeImage, makeLayout, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const world = new World(t);
const program = compileProgram('gcc', '-static');
const MIB = 2 ** 20;

const makeImage = (bytes: number): MadeImage => ({
  layers: [
    [
      { name: 'it', mode: 0o755, content: program },
      { name: 'large', content: randomBytes(bytes) },
    ],
  ],
  config: { Entrypoint: ['/it'], Env: ['PATH=/'] },
});

/** Of the mapping of a VMM that has most in memory. */
function guestMemory(pid: number): { readonly rssMib: number; readonly sharedMib: number } {
  const maps = readFileSync(`/proc/${pid}/smaps`, 'utf8').split(/^(?=[\da-f]+-[\da-f]+ )/m);
  const mib = (map: string, name: string) =>
    Number(new RegExp(`^${name}: +(\\d+) kB`, 'm').exec(map)?.[1]) / 1024;
  const [largest = ''] = maps.sort((a, b) => mib(b, 'Rss') - mib(a, 'Rss'));
  return {
    rssMib: mib(largest, 'Rss'),
    sharedMib: mib(largest, 'Shared_Clean') + mib(largest, 'Shared_Dirty'),
  };
}

t.test('another build of the agent needs no new pull', async (t) => {
  const directories = await makeDirectories();
  // Images of agents that nobody uses go, and others run from those of the tests.
  rmSync(join(directories.dataDir, 'agents'));
  mkdirSync(join(directories.dataDir, 'agents'));
  const dist = resolve(import.meta.dirname, '../../dist');
  const other = join(mkdtempSync(join(BAKED_DATA_DIR, 'test/dist-')), 'dist');
  t.teardown(async () => {
    rmSync(join(other, '..'), { recursive: true });
    await removeDirectories(directories);
  });
  execFileSync('cp', ['-al', dist, other]);
  rmSync(join(other, 'agent'), { recursive: true });
  cpSync(join(dist, 'agent'), join(other, 'agent'), { recursive: true });
  writeFileSync(join(other, 'agent/lib/another-build'), 'another build\n');

  const flags = ['--image-path-allow', world.dir];
  const first = await spawnDaemon(directories, { flags, onExit: 'keep' });
  const path = makeLayout(world.path('layout'), makeImage(1000));
  const { id } = await first.api.ask('createSandbox', { body: { image: { path } } });
  await first.api.ask('deleteSandbox', { params: { id } });
  const digest = (await first.api.ask('listImages')).images?.[0]?.digest ?? '';
  const body = { image: { oci: digest }, pull: 'never' as const };
  const look = ['it', 'mode', '/.sandbox/lib/another-build'];
  const old = await first.api.ask('createSandbox', { body });
  t.match((await first.api.exec(old.id, look)).stdout, /missing/);
  const snapshot = await first.api.ask('takeSnapshot', { params: { id: old.id } });
  await first.end();
  // Neither the registry nor the archive is there any more.
  rmSync(path, { recursive: true });

  const second = await spawnDaemon(directories, { flags, program: join(other, 'sandboxd') });
  const made = await second.api.ask('createSandbox', { body });
  t.match((await second.api.exec(made.id, look)).stdout, /another-build 100644 /, 'the new agent');
  t.equal((await second.api.exec(made.id, ['it', 'x'])).stdout, 'x uid=0 A=- cwd=/\n');
  t.match((await second.api.exec(old.id, look)).stdout, /missing/, 'what ran goes on with its own');
  const { sandboxes } = await second.api.ask('forkSnapshot', { params: { id: snapshot.id } });
  t.match(
    (await second.api.exec(sandboxes?.[0]?.id ?? '', look)).stdout,
    /missing/,
    'and so does what was saved',
  );
  t.equal((await second.api.ask('listImages')).images?.[0]?.digest, digest);
  t.same(
    second.log.filter(({ msg }) => msg === 'image converted'),
    [],
  );
  t.equal(readdirSync(join(directories.dataDir, 'agents')).length, 2, 'both are needed');
  await second.api.ask('deleteSnapshot', { params: { id: snapshot.id } });
  for (const { id } of await second.api.list()) await second.api.delete(id);
  t.equal(await second.end(), 0);
  t.same(await leftovers(directories), []);
});

t.test('eviction of images keeps those of sandboxes and snapshots', async (t) => {
  const { api, directories } = await startDaemon(t, {
    flags: ['--template-disk-bytes', '0', '--image-disk-bytes', String(8 * MIB)],
  });
  const registry = await world.startRegistry();
  const pull = async (name: string): Promise<void> => {
    world.push(`${registry}/${name}`, makeImage(MIB));
    await api.ask('pullImage', { body: { ref: `${registry}/${name}` } });
  };
  const names = async () =>
    ((await api.ask('listImages')).images ?? []).map(
      ({ source_ref }) => source_ref?.split('/')[1]?.split(':')[0],
    );
  await pull('a');
  const { id } = await api.ask('createSandbox', { body: { image: { oci: `${registry}/a` }, pull: 'never' } });
  await pull('b');
  await pull('c');
  t.same(await names(), ['a', 'c'], 'b went, which was used later');
  const snapshot = await api.ask('takeSnapshot', { params: { id } });
  await api.ask('deleteSandbox', { params: { id } });
  await pull('d');
  t.same(await names(), ['a', 'd'], 'a snapshot is of it');
  const { sandboxes } = await api.ask('forkSnapshot', { params: { id: snapshot.id } });
  const copy = sandboxes?.[0]?.id ?? '';
  await api.ask('deleteSnapshot', { params: { id: snapshot.id } });
  await pull('e');
  t.same(await names(), ['a', 'e'], 'a copy runs from it');
  t.equal((await api.exec(copy, ['it', 'x'])).stdout, 'x uid=0 A=- cwd=/\n');
  await api.ask('deleteSandbox', { params: { id: copy } });
  // What it was made of goes behind the answer.
  await until(() => !existsSync(join(directories.dataDir, 'sandboxes', copy)), 'the end of the copy');
  await pull('f');
  t.same(await names(), ['e', 'f'], 'nothing is left of it');
});

t.test(
  'sandboxes of one image share its file, and the memory of the guest that they are copies of',
  async (t) => {
    const daemon = await startDaemon(t, { flags: ['--image-path-allow', world.dir] });
    const { api } = daemon;
    const path = makeLayout(world.path('layout'), makeImage(32 * MIB));
    const create = async () => (await api.ask('createSandbox', { body: { image: { path } } })).id;
    const hasOwn = () =>
      daemon.log.some(
        ({ msg, rootfs, isFirst }) => msg === 'template made' && rootfs === path && isFirst !== true,
      );
    // The first one may have booted.
    for (let round = 0; round < 3; round++) await api.delete(await create());
    await until(hasOwn, 'a template of the image', 120_000);
    const vmms: number[] = [];
    for (let count = 0; count < 2; count++) {
      const id = await create();
      await api.exec(id, ['it', 'x']);
      vmms.push(...(await vmmPids(id)));
    }
    const rootfsDir = join(daemon.directories.dataDir, 'images/rootfs');
    const { ino } = statSync(join(rootfsDir, readdirSync(rootfsDir)[0] ?? ''));
    for (const pid of vmms) {
      const inodes = readdirSync(`/proc/${pid}/fd`).map((fd) => statSync(`/proc/${pid}/fd/${fd}`).ino);
      t.ok(inodes.includes(ino), 'the host reads one file, once');
      const { rssMib, sharedMib } = guestMemory(pid);
      t.comment(`${rssMib.toFixed(1)} MiB of its guest's memory are there, ${sharedMib.toFixed(1)} shared`);
      t.ok(sharedMib > rssMib / 2, `${sharedMib} of ${rssMib} MiB`);
    }
    for (const { id } of await api.list()) await api.delete(id);
  },
);
