// What is counted of a tenant's chunks, where uploads end meanwhile and the bucket fails.
import t from 'tap';
import { ImageShares } from '../../../../host-agent/src/snapshot-store/image-shares.ts';
import { ImageUse } from '../../../../host-agent/src/snapshot-store/image-use.ts';
import type { Bucket } from '../../../../host-agent/src/snapshot-store/s3/bucket.ts';
import { StoreKeys } from '../../../../host-agent/src/snapshot-store/store-keys.ts';
import { StoredUse } from '../../../../host-agent/src/snapshot-store/stored-use.ts';

const limit = { max: 10, whose: 'tenant "acme"' };

function prepare(list: (signal?: AbortSignal) => Promise<readonly { readonly sizeBytes: number }[]>) {
  let lists = 0;
  const bucket = {
    async *list(_: string, signal?: AbortSignal) {
      lists += 1;
      yield await list(signal);
    },
  } as unknown as Bucket;
  return { use: new StoredUse(bucket), lists: () => lists };
}

t.test('an upload that ends while it waits for the count ends no other one', async (t) => {
  const gate = Promise.withResolvers<void>();
  const { use } = prepare(async (signal) => {
    const aborted = new Promise<never>((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
    await Promise.race([gate.promise, aborted]);
    return [{ sizeBytes: 5 }];
  });
  const first = new AbortController();
  const one = use.admit('tag', 1, limit, first.signal);
  const two = use.admit('tag', 2, limit, new AbortController().signal);
  first.abort(new Error('its snapshot was deleted'));
  await t.rejects(one, { message: 'its snapshot was deleted' });
  gate.resolve();
  await t.resolves(two);
  t.equal(use.last('tag'), 7);
});

t.test('a bucket that fails is not asked again for each look', async (t) => {
  const { use, lists } = prepare(() => Promise.reject(new Error('refused')));
  for (let n = 0; n < 20; n++) {
    t.equal(use.last('tag'), 0);
    await new Promise(setImmediate);
  }
  t.equal(lists(), 1);
  await t.rejects(use.admit('tag', 1, limit, new AbortController().signal), { message: 'refused' });
});

t.test('images and their names have a number, and bytes of each kind count', async (t) => {
  const { signal } = new AbortController();
  const counts: Record<string, number> = { 'images/': 2, 'names/': 3, 'chunks/': 4 };
  const bucket = {
    async *list(path: string) {
      const objects = counts[`${path.split('/')[0]}/`] ?? 0;
      for (let n = 0; n < objects; n += 1000)
        yield Array.from({ length: Math.min(1000, objects - n) }, () => ({ sizeBytes: 10 }));
    },
  } as unknown as Bucket;
  const open = () => {
    const [use, keys] = [new StoredUse(bucket), new StoreKeys(Buffer.alloc(32, 1))];
    return new ImageUse(use, keys, new ImageShares(bucket, keys, use));
  };
  const image = (sizeBytes: number) => ({ id: '', sizeBytes, owner: undefined });
  t.match(await open().admitImage(image(40), 100, signal), { max: 80 });
  await t.rejects(open().admitImage(image(41), 100, signal), {
    code: 'forbidden',
    message: /take 101 bytes, and may take 100/,
  });
  t.equal(await open().admitImage(image(41), 0, signal), undefined, 'no limit');
  await open().admitName('', undefined, signal);
  // What this host adds counts before the next list.
  const use = open();
  await use.admitImage(image(40), 100, signal);
  use.addImage('x'.repeat(10));
  await t.rejects(use.admitImage(image(40), 100, signal), { code: 'forbidden' });
  counts['images/'] = 20_000;
  await t.rejects(open().admitImage(image(1), 0, signal), {
    code: 'forbidden',
    message: /20000 images or more/,
  });
  counts['names/'] = 49_999;
  const last = open();
  await last.admitName('', undefined, signal);
  last.addName();
  await t.rejects(last.admitName('', undefined, signal), {
    code: 'forbidden',
    message: /50000 names of images or more/,
  });
});
