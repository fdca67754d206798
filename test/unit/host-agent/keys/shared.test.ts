// Keys of a fleet in the registry of one of its hosts.
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { type KeyChange, type KeyRecord, KeyRegistry } from '../../../../host-agent/src/keys/index.ts';
import { hashKey, mintKey } from '../../../../host-agent/src/keys/record.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';

async function open(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'shared-keys-'));
  const store = await Store.open(join(dir, 'state.lmdb'));
  t.teardown(async () => {
    await store.close();
    await rm(dir, { recursive: true });
  });
  return { dir, store, registry: new KeyRegistry(store) };
}

function mint(name: string, more: Partial<KeyRecord> = {}) {
  const text = mintKey();
  return { text, key: { name, hash: hashKey(text), createdAtMs: 1, ...more } };
}

async function takeChanges(registry: KeyRegistry): Promise<string[]> {
  const taken: KeyChange[] = [];
  await registry.takeChanges((change) => taken.push(change));
  return taken.map(({ change, key, by }) => `${by} ${change} ${key}`).sort();
}

t.test('they are valid while the cluster has them', async (t) => {
  const { dir, store, registry } = await open(t);
  await registry.setShared([]);
  t.notOk(registry.isClosed, 'a fleet without keys closes no host');
  t.notOk(existsSync(join(dir, 'keys-required')));
  const [a, b] = [mint('a', { tenant: 'acme', policy: { max_vcpus: 1 } }), mint('b')];
  await registry.setShared([a.key, b.key]);
  t.ok(registry.isClosed);
  t.ok(existsSync(join(dir, 'keys-required')));
  t.match(registry.find(a.text), {
    state: 'valid',
    principal: { key: 'a', tenant: 'acme', policy: { max_vcpus: 1 } },
  });
  t.match(registry.list(), [{ isShared: true }, { isShared: true }]);
  t.same(await takeChanges(registry), ['fleet created a', 'fleet created b']);
  await registry.setShared([a.key, b.key]);
  t.same(await takeChanges(registry), [], 'the same again is no change');
  t.match(new KeyRegistry(store).find(b.text), { state: 'valid' }, 'also for the next daemon');
  await registry.setShared([b.key]);
  t.match(registry.find(a.text), { state: 'unknown' });
  t.match(registry.find(b.text), { state: 'valid' });
  await registry.setShared([]);
  t.match(registry.find(b.text), { state: 'unknown' });
  t.ok(registry.isClosed, 'it stays closed');
  t.same(await takeChanges(registry), ['fleet revoked a', 'fleet revoked b']);
  await registry.setShared([a.key]);
  t.match(registry.find(a.text), { state: 'valid' }, 'its object is there again');
});

t.test('what was revoked stays revoked', async (t) => {
  const { registry } = await open(t);
  const { text, key } = mint('a');
  await registry.setShared([key]);
  await registry.setShared([{ ...key, revokedAtMs: 5 }]);
  t.match(registry.find(text), { state: 'revoked', atMs: 5 });
  for (const keys of [[key], [], [key], [{ ...key, revokedAtMs: 9 }]]) {
    await registry.setShared(keys);
    t.match(registry.find(text), { state: 'revoked', atMs: 5 }, 'as an older object says otherwise');
  }
  t.same(await takeChanges(registry), ['fleet created a', 'fleet revoked a']);
  const own = mint('b');
  await registry.setShared([own.key]);
  await registry.revoke('b');
  await registry.setShared([own.key]);
  t.match(registry.find(own.text), { state: 'revoked' }, 'also by this host alone');
});

t.test('a change of a policy or a time comes', async (t) => {
  const { registry } = await open(t);
  const { text, key } = mint('a');
  await registry.setShared([key]);
  await registry.setShared([{ ...key, policy: { operations: ['read'] }, seesAllTenants: true }]);
  t.match(registry.find(text), { state: 'valid', principal: { policy: { operations: ['read'] } } });
  await registry.setShared([{ ...key, expiresAtMs: 2 }]);
  t.match(registry.find(text), { state: 'expired', atMs: 2 });
});

t.test('keys of this host are its own', async (t) => {
  const { registry } = await open(t);
  const own = await registry.create({ name: 'a' });
  const { id: _, ...record } = own.key;
  const shared = mint('a');
  await registry.setShared([shared.key, { ...record, revokedAtMs: 3 }]);
  t.match(registry.find(own.text), { state: 'valid' }, 'a fleet does not revoke it');
  t.match(registry.find(shared.text), { state: 'valid' }, 'one of the same name is another');
  await registry.setShared([]);
  t.match(registry.find(own.text), { state: 'valid' });
  t.equal(registry.list().length, 1);
  await registry.setShared([mint('b').key]);
  await t.rejects(registry.create({ name: 'b' }), { code: 'conflict' }, 'its name is taken here, too');
});
