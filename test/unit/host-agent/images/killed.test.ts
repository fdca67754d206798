// Pulls that are killed with their daemon, at each step: the next one finds nothing half done, and can do it again.
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { FAULT_POINTS } from '../../../../host-agent/src/lib/faults.ts';
import { stored, World } from './world.ts';

const world = new World(t);
const registry = await world.startRegistry();
const name = `${registry}/app:v1`;
world.push(name, {
  layers: [[{ name: 'a', content: 'x' }], [{ name: 'b', content: Buffer.alloc(1 << 20, 7) }]],
});
const POINTS = [
  'pulling',
  'fetching layer',
  'converting',
  ...FAULT_POINTS.filter((point) => point.startsWith('image.')),
];

for (const point of POINTS) {
  t.test(`killed at ${point}`, async (t) => {
    const dataDir = world.path('data');
    mkdirSync(dataDir);
    const program = join(import.meta.dirname, 'killed-pull.ts');
    const { signal } = spawnSync(process.execPath, [program, dataDir, name, point], { stdio: 'inherit' });
    t.equal(signal, 'SIGKILL');
    const images = await world.openImages(dataDir);
    const isKept = point === 'image.committed';
    t.equal(images.list().length, isKept ? 1 : 0);
    t.same(stored(dataDir), isKept ? { blobs: 4, rootfs: 1, work: 0 } : { blobs: 0, rootfs: 0, work: 0 });
    t.equal((await images.pull(name, 'missing')).entries, 2);
    t.same(stored(dataDir), { blobs: 4, rootfs: 1, work: 0 });
    await images.close();
  });
}
