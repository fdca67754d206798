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

t.test(
  'a name that has a later key: the one before has ended, also where its end was not heard of',
  async (t) => {
    const { registry } = await open(t);
    const [first, second] = [mint('a'), mint('a', { createdAtMs: 2 })];
    await registry.setShared([first.key]);
    await registry.setShared([second.key]);
    t.match(registry.find(first.text), { state: 'revoked' });
    t.match(registry.find(second.text), { state: 'valid' });
    t.same(await takeChanges(registry), ['fleet created a', 'fleet created a', 'fleet revoked a']);
    await registry.setShared([first.key]);
    t.match(registry.find(first.text), { state: 'revoked' }, 'its object is put back');
    t.match(registry.find(second.text), { state: 'unknown' });
    await registry.setShared([second.key]);
    t.match(registry.find(second.text), { state: 'valid' }, 'an earlier object does not end a later key');
  },
);

t.test('an end counts also while the registry cannot be written', async (t) => {
  const { store, registry } = await open(t);
  const [gone, revoked, kept] = [mint('gone'), mint('revoked'), mint('kept')];
  const own = await registry.create({ name: 'own' });
  await registry.setShared([gone.key, revoked.key, kept.key]);
  const ids = [gone, revoked, kept].map(({ key }) => key.hash.slice(0, 16));
  const write = store.atomically;
  store.atomically = () => Promise.reject(new Error('MDB_MAP_FULL'));
  await t.rejects(registry.setShared([{ ...revoked.key, revokedAtMs: 5 }, kept.key]), { message: /FULL/ });
  store.atomically = write;
  t.match(registry.find(gone.text), { state: 'unknown' });
  t.match(registry.find(revoked.text), { state: 'revoked', atMs: 5 });
  t.match(registry.find(kept.text), { state: 'valid' });
  t.match(registry.find(own.text), { state: 'valid' });
  t.same(
    ids.map((id) => registry.isStillValid({ kind: 'key', id, key: '' })),
    [false, false, true],
    'for streams and links, too',
  );
  t.same(
    ids.map((id) => registry.holder(id)?.key),
    [undefined, undefined, 'kept'],
  );
});

t.test('of two keys of one name, the policy of the host’s own one counts for what both made', async (t) => {
  const { registry } = await open(t);
  for (let n = 0; n < 12; n++) {
    const name = `k${n}`;
    await registry.create({ name, tenant: 'acme', policy: { max_sandboxes: 1 } });
  }
  await registry.setShared(Array.from({ length: 12 }, (_, n) => mint(`k${n}`, { tenant: 'acme' }).key));
  for (let n = 0; n < 12; n++)
    t.same(registry.policyOfOwner({ key: `k${n}`, tenant: 'acme' }), { max_sandboxes: 1 });
});
