// Keys in the registry, also changed by other processes; checks of policies; backoff of wrong keys.
import { execFile } from 'node:child_process';
import crypto from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import {
  Attempts,
  clampTimeout,
  type KeyChange,
  KeyRegistry,
  type RequestedResources,
} from '../../../../host-agent/src/keys/index.ts';
import { findExceeded } from '../../../../host-agent/src/keys/policy.ts';
import { areSameHash, hashKey, isKeyText, mintKey } from '../../../../host-agent/src/keys/record.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

const ROOT = resolve(import.meta.dirname, '../../../..');

async function open(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'keys-'));
  const path = join(dir, 'state.lmdb');
  const store = await Store.open(path);
  t.teardown(async () => {
    await store.close();
    await rm(dir, { recursive: true });
  });
  return { dir, path, registry: new KeyRegistry(store), store };
}

t.test('a key has 32 random characters that are valid in a URL and a WebSocket protocol', (t) => {
  const texts = Array.from({ length: 100 }, mintKey);
  t.ok(texts.every((text) => /^sbk_[A-Za-z0-9_-]{32}$/.test(text) && isKeyText(text)));
  t.equal(new Set(texts).size, 100);
  t.end();
});

t.test('the registry contains neither the key nor another valid one', async (t) => {
  const { registry } = await open(t);
  const { text, key } = await registry.create({ name: 'a' });
  t.notMatch(JSON.stringify(registry.list()), new RegExp(text.slice(4)));
  t.same(registry.find(key.hash), { state: 'unknown' });
  t.same(registry.find(key.id), { state: 'unknown' });
  t.match(registry.find(text), { state: 'valid', principal: { key: 'a', id: key.id } });
});

t.test('a name belongs to one valid key at a time', async (t) => {
  const { registry } = await open(t);
  const made = await Promise.allSettled(Array.from({ length: 5 }, () => registry.create({ name: 'a' })));
  t.equal(made.filter(({ status }) => status === 'fulfilled').length, 1);
  t.equal((await registry.revoke('a')).length, 1);
  await t.rejects(registry.revoke('a'), { code: 'not_found' });
  const { key } = await registry.create({ name: 'a' });
  t.equal(registry.list().length, 2, 'the old one is still known');
  t.equal((await registry.revoke(key.id))[0]?.id, key.id, 'by its id');
});

t.test('another process creates and revokes keys while this one reads them', async (t) => {
  const { dir, registry } = await open(t);
  const run = async (...words: string[]) => {
    const program = join(ROOT, 'host-agent/src/main.ts');
    const { stdout } = await promisify(execFile)(process.execPath, [program, ...words, '--data-dir', dir]);
    return stdout.trim();
  };
  t.notOk(registry.isClosed);
  const text = await run('keys', 'create', 'ci', '--tenant', 'acme', '--max-vcpus', '2');
  t.ok(registry.isClosed);
  t.match(registry.find(text), { state: 'valid', principal: { tenant: 'acme', policy: { max_vcpus: 2 } } });
  await run('tenants', 'set', 'acme', '--max-sandboxes', '3');
  t.same(registry.quotaOf('acme'), { max_sandboxes: 3 });
  const found = registry.find(text);
  const principal = found.state === 'valid' ? found.principal : undefined;
  if (principal === undefined) throw new Error('it was valid');
  await registry.noteUse(principal, '192.0.2.1');
  t.match(JSON.parse(await run('keys', 'show', 'ci')), { last_use: { address: '192.0.2.1' } });
  await run('keys', 'revoke', 'ci');
  t.match(registry.find(text), { state: 'revoked' });
  t.notOk(registry.isStillValid(principal));
  t.ok(registry.isClosed, 'that was the last one');
  const changes: KeyChange[] = [];
  await registry.takeChanges((change) => changes.push(change));
  t.match(changes, [
    { change: 'created', key: 'ci', keyId: principal.id, tenant: 'acme', by: String },
    { change: 'quota set', tenant: 'acme' },
    { change: 'revoked', key: 'ci' },
  ]);
  await registry.takeChanges(() => t.fail('they are told once'));
});

t.test('hashes are compared whole, by the function that takes constant time', (t) => {
  const { timingSafeEqual } = crypto;
  const compared: [string, string][] = [];
  crypto.timingSafeEqual = (one, other) => {
    compared.push([Buffer.from(one as Buffer).toString('hex'), Buffer.from(other as Buffer).toString('hex')]);
    return timingSafeEqual(one, other);
  };
  syncBuiltinESMExports();
  t.teardown(() => {
    crypto.timingSafeEqual = timingSafeEqual;
    syncBuiltinESMExports();
  });
  const hash = hashKey('x');
  const flip = (at: number): string =>
    hash.slice(0, at) + (hash[at] === '0' ? '1' : '0') + hash.slice(at + 1);
  const [early, late] = [flip(0), flip(63)];
  t.notOk(areSameHash(hash, early) || areSameHash(hash, late));
  t.ok(areSameHash(hash, hash));
  t.same(
    compared,
    [early, late, hash].map((other) => [hash, other]),
  );
  t.end();
});

const WANTED: RequestedResources = {
  count: 1,
  areForks: false,
  vcpus: 1,
  memoryMib: 128,
  diskBytes: 1,
  timeoutS: 0,
  idleTimeoutS: 0,
  savesItself: false,
  rootfs: { kind: 'profile', name: 'base' },
  startsService: false,
};

t.test('hosts within net_allow_max', (t) => {
  const passed = (most: string[], allowlist?: string[]) =>
    findExceeded({ net_allow_max: most }, { ...WANTED, ...(allowlist && { allowlist }) }).length > 0;
  t.notOk(passed([]), 'no network at all');
  t.ok(passed([], ['a.example']));
  t.ok(passed([], []), 'published ports alone are a network');
  t.notOk(passed(['a.example'], []));
  t.notOk(passed(['a.example'], ['a.example']));
  t.ok(passed(['a.example'], ['b.example']));
  t.ok(passed(['a.example'], ['*.a.example']));
  t.notOk(passed(['*.a.example'], ['x.a.example', '*.a.example']));
  t.ok(passed(['*.a.example'], ['a.example']));
  t.ok(passed(['*.a.example'], ['x.y.a.example']), 'exactly one more label');
  t.ok(passed(['*.a.example'], ['*.y.a.example']));
  t.notOk(findExceeded({}, { ...WANTED, allowlist: ['a.example'] }).length > 0, 'absent is any');
  t.end();
});

t.test('an image is never among allow_profiles, whatever its name', (t) => {
  const image = { kind: 'image', name: 'base' } as const;
  t.equal(findExceeded({ allow_profiles: ['base'] }, { ...WANTED, rootfs: image }).length, 1);
  t.same(findExceeded({}, { ...WANTED, rootfs: image }), []);
  t.same([clampTimeout(0, {}), clampTimeout(9, { max_timeout_s: 3 })], [0, 3]);
  t.end();
});

t.test('an address with wrong keys waits longer each time, and others do not', (t) => {
  const clock = new FakeClock(t);
  const attempts = new Attempts();
  const fail = (address: string): number => {
    const { delayMs, done } = attempts.failed(address);
    done();
    return delayMs;
  };
  t.same(
    Array.from({ length: 6 }, () => fail('192.0.2.1')),
    [0, 0, 0, 100, 200, 400],
  );
  for (let n = 0; n < 2000; n++) fail('192.0.2.1');
  t.equal(fail('192.0.2.1'), 10_000, 'there is a maximum');
  t.equal(fail('::ffff:192.0.2.1'), 10_000, 'the same address on a socket of IPv6');
  t.equal(fail('192.0.2.2'), 0);
  for (let n = 0; n < 3; n++) fail('2001:db8:0:1::5');
  t.equal(fail('2001:db8::1:aaaa:bbbb:cccc:dddd'), 100, 'a client with one IPv6 address has many');
  t.equal(fail('2001:db8:0:2::5'), 0);
  clock.nowMs += 10 * 60_000 + 1;
  t.equal(fail('192.0.2.1'), 0, 'it is forgotten');
  const held = Array.from({ length: 30 }, () => attempts.failed('192.0.2.9'));
  t.equal(held.filter(({ delayMs }) => delayMs > 0).length, 8, 'it does not hold connections without end');
  for (let n = 0; n < 20_000; n++) fail(`10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`);
  t.equal(attempts.size, 10_000, 'the table is bounded');
  t.end();
});
