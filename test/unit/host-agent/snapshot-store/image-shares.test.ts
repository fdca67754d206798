// Shares of what images may take in the bucket: none leaves nothing for the others.
import { randomBytes } from 'node:crypto';
import t from 'tap';
import { collectShares, ImageShares } from '../../../../host-agent/src/snapshot-store/image-shares.ts';
import type { Bucket } from '../../../../host-agent/src/snapshot-store/s3/bucket.ts';
import { StoreKeys } from '../../../../host-agent/src/snapshot-store/store-keys.ts';
import { StoredUse } from '../../../../host-agent/src/snapshot-store/stored-use.ts';

const { signal } = new AbortController();
const DAY_MS = 24 * 3_600_000;

function memory() {
  const objects = new Map<string, { agoMs: number }>();
  const bucket = {
    put: async (key: string) => void objects.set(key, { agoMs: 0 }),
    remove: async (key: string) => void objects.delete(key),
    async *list(path: string) {
      yield [...objects].flatMap(([key, { agoMs }]) =>
        key.startsWith(path) ? [{ key, agoMs, sizeBytes: 0, etag: '' }] : [],
      );
    },
  };
  return { objects, bucket: bucket as unknown as Bucket };
}

t.test('numbers of images and of names have shares, too, also without a limit of bytes', async (t) => {
  const { bucket } = memory();
  const shares = new ImageShares(bucket, new StoreKeys(randomBytes(32)), new StoredUse(bucket));
  const none = { what: 'bytes', total: 1, max: 0 };
  const admit = (owner: string, n: number, total: number) =>
    shares.admitImage(
      owner,
      { id: `${n}`.repeat(64), sizeBytes: 1 },
      { bytes: none, images: { what: 'shared images', total, max: 6 } },
      signal,
    );
  for (const n of [1, 2, 3]) await admit('evil', n, n);
  await admit('evil', 3, 3);
  await t.rejects(admit('evil', 4, 4), { code: 'forbidden', message: /4 shared images, .* 2 of 6/ });
  await admit('acme', 5, 4);
  const name = (owner: string, n: number, total: number) =>
    shares.admitName(owner, `names/${`${n}`.repeat(64)}`, { what: 'names', total, max: 4 }, signal);
  for (const n of [1, 2]) await name('evil', n, n);
  await t.rejects(name('evil', 3, 3), { code: 'forbidden', message: /3 names, .* 1 of 4/ });
  await name('acme', 3, 3);
});

t.test('however many there are, the next one has some', async (t) => {
  const { bucket } = memory();
  const shares = new ImageShares(bucket, new StoreKeys(randomBytes(32)), new StoredUse(bucket));
  const max = 256;
  let total = 0;
  const images = { what: 'images', total: 1, max: 10_000 };
  const sent: number[] = [];
  for (let owner = 0; owner < 8; owner++) {
    let own = 0;
    for (; own < max; own++) {
      const id = `${owner}a${own}`.padStart(64, '0');
      const bytes = { what: 'bytes', total: total + 1, max };
      const isIn = await shares.admitImage(`t${owner}`, { id, sizeBytes: 1 }, { bytes, images }, signal).then(
        () => true,
        () => false,
      );
      if (!isIn) break;
      total += 1;
    }
    sent.push(own);
  }
  t.same(sent, [128, 64, 32, 16, 8, 4, 2, 1]);
});

t.test('a collection removes those of what is gone, and nothing else', async (t) => {
  const { bucket, objects } = memory();
  const owner = 'a'.repeat(32);
  const [gone, there] = ['b'.repeat(64), 'c'.repeat(64)];
  const keys = [gone, there].flatMap((id) => [
    `shares/${owner}/images/${id}-12`,
    `shares/${owner}/names/${id}`,
  ]);
  for (const key of [...keys, 'shares/odd', `shares/${owner}/images/${gone}`, `shares/x/names/${gone}`])
    objects.set(key, { agoMs: 2 * DAY_MS });
  const young = `shares/${owner}/images/${gone}-13`;
  objects.set(young, { agoMs: DAY_MS / 2 });
  await collectShares(bucket, (path) => path.endsWith(there), signal);
  t.same(
    [...objects.keys()].filter((key) => key.includes(owner)),
    [keys[2], keys[3], `shares/${owner}/images/${gone}`, young],
  );
});
