// Pulls, imports and what makes room, killed with their daemon at each step: the next one finds nothing half done, and can do it again.
import { spawnSync } from 'node:child_process';
import { createReadStream, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { FAULT_POINTS } from '../../../../host-agent/src/lib/faults.ts';
import { scaled } from '../../../support/time-scale.ts';
import { makeLayout, type OpenedImages, skopeo, stored, World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);
const registry = await world.startRegistry();
const name = `${registry}/app:v1`;
const APP = { layers: [[{ name: 'a', content: 'x' }], [{ name: 'b', content: Buffer.alloc(1 << 20, 7) }]] };
const OTHER = { layers: [[{ name: 'c', content: 'y' }]] };
const other = `${registry}/other:v1`;
world.push(name, APP);
world.push(other, OTHER);
const archivePath = world.path('app.tar');
skopeo('copy', `oci:${makeLayout(world.path('layout'), APP)}:latest`, `docker-archive:${archivePath}:app:v1`);
const POINTS = ['fetching layer', 'converting', 'image.fetched', 'image.converted', 'image.committed'];

/** What an image of two layers or one has on disk, and nothing else. */
const NOTHING = { blobs: 0, rootfs: 0, work: 0 };
const TWO_LAYERS = { blobs: 4, rootfs: 1, work: 0 };
const ONE_LAYER = { blobs: 3, rootfs: 1, work: 0 };

function killAt(t: Test, point: string, ...words: readonly string[]): void {
  const program = join(import.meta.dirname, 'killed-pull.ts');
  const { signal } = spawnSync(process.execPath, [program, ...words, point], { stdio: 'inherit' });
  t.equal(signal, 'SIGKILL');
}

t.test('there is a case for each point', async (t) => {
  t.same(
    FAULT_POINTS.filter((point) => point.startsWith('image.') && !POINTS.includes(point)),
    ['image.forgotten'],
  );
});

const MAKE: Readonly<
  Record<string, readonly [source: string, make: (images: OpenedImages) => Promise<{ entries: number }>]>
> = {
  pull: [name, (images) => images.pull(name, 'missing')],
  import: [archivePath, (images) => images.import(createReadStream(archivePath), undefined)],
};

for (const [what, [source, make]] of Object.entries(MAKE)) {
  for (const point of what === 'pull' ? ['pulling', ...POINTS] : POINTS) {
    t.test(`${what}, killed at ${point}`, async (t) => {
      const dataDir = world.path('data');
      mkdirSync(dataDir);
      killAt(t, point, what, dataDir, source);
      const images = await world.openImages(dataDir);
      const isKept = point === 'image.committed';
      t.equal(images.list().length, isKept ? 1 : 0);
      t.same(stored(dataDir), isKept ? TWO_LAYERS : NOTHING);
      t.equal((await make(images)).entries, 2);
      t.same(stored(dataDir), TWO_LAYERS);
      await images.close();
    });
  }
}

for (const what of ['evict', 'delete', 'prune']) {
  t.test(`${what}, killed when the image is forgotten and its files are there`, async (t) => {
    const dataDir = world.path('data');
    const before = await world.openImages(dataDir);
    await before.pull(other, 'missing');
    await before.close();
    killAt(t, 'image.forgotten', what, dataDir, what === 'evict' ? name : other);
    const images = await world.openImages(dataDir);
    t.same(
      images.list().flatMap(({ refs }) => refs),
      what === 'evict' ? [name] : [],
    );
    t.same(stored(dataDir), what === 'evict' ? TWO_LAYERS : NOTHING);
    await images.delete(name).catch(() => undefined);
    t.equal((await images.pull(other, 'missing')).entries, 1);
    t.same(stored(dataDir), ONE_LAYER);
    await images.close();
  });
}

t.test('the converter, killed by itself', async (t) => {
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir);
  const children = () => readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8').trim().split(' ');
  const before = children();
  const killed: string[] = [];
  const onProgress = (line: string) => {
    if (!line.startsWith('converting')) return;
    // It is started in the same turn.
    setImmediate(function look() {
      const born = children().filter(
        (pid) =>
          !before.includes(pid) && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('convert-image'),
      );
      if (born.length === 0) return void setImmediate(look);
      for (const pid of born) process.kill(Number(pid), 'SIGKILL');
      killed.push(...born);
    });
  };
  await t.rejects(images.pull(name, 'missing', { onProgress }), {
    code: 'internal',
    message: /the converter failed; the log of the daemon says why/,
  });
  t.equal(killed.length, 1);
  t.same(stored(dataDir), NOTHING);
  t.equal((await images.pull(name, 'missing')).entries, 2);
  t.same(stored(dataDir), TWO_LAYERS);
  t.same(readdirSync(join(dataDir, 'images/held')), []);
  await images.close();
});
