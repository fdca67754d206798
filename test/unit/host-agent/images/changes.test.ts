// Changes of one image's record that happen at the same time: none undoes another.
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { Images, type ImagesOptions } from '../../../../host-agent/src/images/images.ts';
import type { ImageRecord } from '../../../../host-agent/src/images/record.ts';
import { changeLabels } from '../../../../host-agent/src/lib/labels.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';

const ID = 'ab'.repeat(32);
const RECORD: ImageRecord = {
  refs: ['docker.io/library/nginx:alpine', 'docker.io/library/nginx:1'],
  configDigest: 'c',
  config: {
    entrypoint: [],
    cmd: [],
    env: {},
    user: '',
    workdir: '',
    stopSignal: '',
    exposedPorts: [],
    labels: {},
  },
  layers: [],
  blobs: [],
  rootfsDigest: 'r',
  sizeBytes: 1,
  entries: 1,
  contentBytes: 1,
  convertedAtMs: 1,
  usedAtMs: 1,
};

async function openImages(t: Test): Promise<Images> {
  const dir = t.testdir({ rootfs: 'x' });
  const store = await Store.open(join(dir, 'state.lmdb'));
  t.teardown(() => store.close());
  const records = store.table<ImageRecord>('images');
  await records.put(ID, RECORD);
  const files = { rootfsPath: () => join(dir, 'rootfs') };
  return new Images({ records, files } as unknown as ImagesOptions);
}

const COUNT = 50;
const labelOf = (at: number) => ({ [`k${at}`]: String(at) });

t.test('50 changes of different labels, with creates in between', async (t) => {
  const images = await openImages(t);
  const answers = await Promise.all(
    Array.from({ length: COUNT }, async (_, at) => {
      const changed = images.relabel('nginx:alpine', (labels) => changeLabels(labels, labelOf(at)));
      if (at % 5 === 0) await images.obtain('nginx:alpine', 'missing');
      return await changed;
    }),
  );
  const all = Object.assign({}, ...Array.from({ length: COUNT }, (_, at) => labelOf(at)));
  t.same({ ...images.get('nginx:1').labels }, all);
  for (const [at, { labels }] of answers.entries()) t.equal(labels[`k${at}`], String(at), 'each has its own');
});

t.test('a change and the removal of a name', async (t) => {
  const images = await openImages(t);
  await Promise.all([
    images.relabel(`sha256:${ID}`, (labels) => changeLabels(labels, { a: 'b' })),
    images.delete('nginx:1'),
    images.relabel(`sha256:${ID}`, (labels) => changeLabels(labels, { c: 'd' })),
  ]);
  t.match(images.get('nginx:alpine'), { labels: { a: 'b', c: 'd' }, refs: ['nginx:alpine'] });
});

t.test('what is refused changes nothing', async (t) => {
  const images = await openImages(t);
  const many = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`k${at}`, 'v']));
  const more = Object.fromEntries(Array.from({ length: 5 }, (_, at) => [`m${at}`, 'v']));
  await images.relabel('nginx:alpine', (labels) => changeLabels(labels, many));
  const refused = images.relabel('nginx:alpine', (labels) => changeLabels(labels, more));
  await t.rejects(refused, { code: 'invalid_argument' });
  t.equal(Object.keys(images.get('nginx:alpine').labels).length, 60);
  await t.rejects(
    images.relabel('none', (labels) => labels),
    { code: 'not_found' },
  );
});
