// What is counted of a tenant's chunks, where uploads end meanwhile and the bucket fails.
import t from 'tap';
import type { Bucket } from '../../../../host-agent/src/snapshot-store/s3/bucket.ts';
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
