// What one tenant may take in the bucket, counted over all hosts.
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { Owner, Quota } from '../../host-agent/src/keys/index.ts';
import { newId } from '../../host-agent/src/lib/ids.ts';
import { openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { eventually, prepareHosts } from './store-hosts.ts';

t.setTimeout(scaled(120_000));

const MIB = 2 ** 20;
const ACME: Owner = { key: 'k', tenant: 'acme' };
const { signal } = new AbortController();

t.test('one host never exceeds it, and another one sees what was sent', async (t) => {
  const { settings, s3 } = await prepareHosts(t);
  const dir = mkdtempSync(join(tmpdir(), 'store-quota-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const upload = async (store: ReturnType<typeof openTestStore>['store'], sizeMib: number, max?: number) => {
    const path = join(dir, newId('snap'));
    writeFileSync(path, randomBytes(sizeMib * MIB));
    const limit = max === undefined ? undefined : { max, whose: 'tenant "acme"' };
    const files = [{ part: 'memory', path }];
    await store.upload({ id: newId('snap'), tenant: 'acme', description: {}, files, limit }, signal);
  };
  const sent = (): number =>
    [...s3.objects].reduce((sum, [key, { body }]) => sum + (/chunks\//.test(key) ? body.length : 0), 0);
  const [one, two] = [openTestStore(t, settings).store, openTestStore(t, settings).store];
  await upload(one, 2, 5 * MIB);
  const both = await Promise.allSettled([upload(one, 2, 5 * MIB), upload(one, 2, 5 * MIB)]);
  t.ok(
    both.some(({ status }) => status === 'rejected'),
    'at the same time as well as in turn',
  );
  t.ok(sent() <= 5 * MIB, `${sent()} bytes`);
  await t.rejects(upload(two, 3, 5 * MIB), {
    code: 'forbidden',
    message: /^the quota of tenant "acme" forbids it: stored bytes \d+ is over 5242880; /,
  });
  t.ok(sent() <= 5 * MIB, `${sent()} bytes`);
  t.ok(one.usedBytes('acme') >= sent());
  await upload(two, 1);
  t.ok(sent() > 5 * MIB - MIB / 2, 'what has no limit counts, and is sent');
  t.equal(two.usedBytes('other'), 0);
});

t.test('a snapshot over it stays on its host, and the next one is refused', async (t) => {
  const { start } = await prepareHosts(t);
  let quota: Quota = { max_stored_bytes: 1 };
  const a = await start({ quotaOf: (tenant) => (tenant === 'acme' ? quota : undefined) });
  const { id } = await a.take(ACME);
  const errorOf = async () => (await a.ask('GET', `/snapshots/${id}`)).body.storage_error ?? '';
  await eventually(async () => /quota of tenant "acme" forbids it/.test(await errorOf()));
  t.equal(await a.storageOf(id), 'local');
  t.same(await a.ask('GET', '/snapshots').then(({ status }) => status), 200);
  const other = await a.take({ key: 'k', tenant: 'other' });
  await a.reached(other.id, 'stored');
  quota = { max_stored_bytes: 100 * MIB };
  await a.reached(id, 'stored');
  quota = { max_stored_bytes: 1 };
  await until(() => a.bucketStore.usedBytes('acme') > 1, 'what it takes is known');
  await t.rejects(a.take(ACME), {
    code: 'forbidden',
    message: /stored bytes of tenant acme \d+ is over max_stored_bytes 1/,
  });
});
