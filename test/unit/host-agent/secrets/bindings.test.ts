// Bindings: placeholders that stay, values that are sealed, references that have neither.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type SecretBinding, secretBindings } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { Sealer } from '../../../../host-agent/src/lib/seal.ts';
import { readReferences } from '../../../../host-agent/src/sandboxes/secrets.ts';
import {
  changeBindings,
  openBindings,
  placeholdersOf,
  type StoredBinding,
  toReferences,
} from '../../../../host-agent/src/secrets/index.ts';

const VALUE = 'an-example-of-a-value';

function makeDeps(t: Test, stored: Readonly<Record<string, { hosts: string[]; value: string }>> = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'secrets-bindings-'));
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }));
  const find = (scope: string, name: string) => stored[`${scope}/${name}`];
  const failed: string[] = [];
  return {
    sealer: new Sealer({ dataDir }),
    failed,
    onFailed: (name: string) => void failed.push(name),
    secrets: {
      hostsOf: (scope: string, name: string) => find(scope, name)?.hosts,
      bytesOf: (scope: string, name: string) => find(scope, name)?.value.length ?? 0,
      contentNow: (scope: string, name: string) => {
        const found = find(scope, name);
        return found && { hosts: found.hosts, value: Buffer.from(found.value) };
      },
    },
  };
}

/** As the interface has checked them. */
function wishes(map: object): Record<string, SecretBinding> {
  return secretBindings.parse(map) as Record<string, SecretBinding>;
}

const values = async (bindings: readonly StoredBinding[], deps: ReturnType<typeof makeDeps>) =>
  (await openBindings(bindings, deps)).map(({ name, hosts, value }) => [name, hosts, value?.toString()]);

t.test('a value of its own is sealed, and the placeholder says only the name', async (t) => {
  const deps = makeDeps(t);
  const [binding] = changeBindings([], wishes({ GH: { value: VALUE, hosts: ['A.Example.'] } }), '', deps);
  t.match(binding, { name: 'GH', env: 'GH', hosts: ['a.example'], placeholder: /^sbxs_gh_[a-z2-7]{26}$/ });
  t.notMatch(JSON.stringify(binding), VALUE);
  t.strictSame(placeholdersOf(binding && [binding]), { GH: binding?.placeholder });
  t.strictSame(await values([binding as StoredBinding], deps), [['GH', ['a.example'], VALUE]]);
  const sealed = Buffer.from(binding?.sealed ?? '', 'base64').toString('latin1');
  t.notMatch(sealed, VALUE);
});

t.test('a new value keeps the placeholder; null removes one; others stay', async (t) => {
  const deps = makeDeps(t);
  const first = changeBindings(
    [],
    wishes({ A: { value: VALUE, hosts: ['a.b'] }, B: { value: VALUE, hosts: ['a.b'] } }),
    '',
    deps,
  );
  const next = changeBindings(
    first,
    { ...wishes({ A: { value: `${VALUE}2`, hosts: ['c.d'] } }), B: null },
    '',
    deps,
  );
  t.equal(next.length, 1);
  t.equal(next[0]?.placeholder, first[0]?.placeholder);
  t.strictSame(await values(next, deps), [['A', ['c.d'], `${VALUE}2`]]);
});

t.test('prefix, env, body and injection', async (t) => {
  const deps = makeDeps(t);
  const [a, b, c, d] = changeBindings(
    [],
    wishes({
      A: { value: VALUE, hosts: ['a.b'], prefix: 'ghp_', env: 'OTHER' },
      B: { value: 'v'.repeat(100), hosts: ['a.b'], in: ['body'], env: null },
      C: { value: VALUE, hosts: ['a.b'], inject: { header: 'X-Key' } },
      D: { value: VALUE, hosts: ['c.d'], inject: { header: 'x-key', format: 'Basic {base64:u:{}}' } },
    }),
    '',
    deps,
  );
  t.match(a, { placeholder: /^ghp_[a-z2-7]{26}$/, env: 'OTHER' });
  t.equal(b?.placeholder?.length, 100, 'as long as the value, so that bodies keep their length');
  t.notOk(b?.env);
  t.match(c, { placeholder: null, inject: { header: 'X-Key', format: '{}' }, forms: [] });
  t.match(d, { placeholder: null });
  t.strictSame(Object.keys(placeholdersOf([a, b, c, d] as StoredBinding[])), ['OTHER']);
});

t.test('a stored secret is used within its hosts, also after its owner narrowed them', async (t) => {
  const stored = { 'acme/gh': { hosts: ['**.example.com', 'b.test'], value: VALUE } };
  const deps = makeDeps(t, stored);
  const all = changeBindings([], wishes({ X: { use: 'gh' } }), 'acme', deps);
  t.match(all, [{ hosts: ['**.example.com', 'b.test'], use: { scope: 'acme', name: 'gh' } }]);
  const some = changeBindings([], wishes({ X: { use: 'gh', hosts: ['*.example.com'] } }), 'acme', deps);
  t.strictSame(await values(some, deps), [['X', ['*.example.com'], VALUE]]);
  stored['acme/gh'].hosts = ['a.example.com'];
  t.strictSame(await values(some, deps), [['X', ['a.example.com'], VALUE]]);
  t.strictSame(await values(some, makeDeps(t)), [['X', ['*.example.com'], undefined]], 'deleted: no value');
  const bind = (scope: string, wish: object) => () => changeBindings([], wishes({ X: wish }), scope, deps);
  t.throws(bind('other', { use: 'gh' }), { code: 'invalid_argument', message: /does not exist/ });
  t.throws(bind('', { use: 'gh' }), { code: 'invalid_argument' });
  t.throws(bind('acme', { use: 'gh', hosts: ['evil.test'] }), {
    message: 'secrets.X.hosts[0] is not among the hosts of the stored secret gh',
  });
});

t.test('two secrets have no variable, and no injected header of one host, together', async (t) => {
  const bind = (map: object) => () => changeBindings([], wishes(map), '', makeDeps(t));
  const own = { value: VALUE, hosts: ['a.b'] };
  t.throws(bind({ A: own, B: { ...own, env: 'A' } }), /secrets A and B have the same variable/);
  const inject = { header: 'X-Key' };
  const other = { header: 'x-KEY' };
  t.throws(bind({ A: { ...own, inject }, B: { ...own, inject: other } }), /inject the same header/);
  t.throws(bind({ A: { ...own, inject }, B: { value: VALUE, hosts: ['**.b'], inject } }), /hosts|inject/);
});

t.test('a reference has no value, and comes back from an archive without one', async (t) => {
  const deps = makeDeps(t, { '/gh': { hosts: ['a.b'], value: VALUE } });
  const bindings = changeBindings(
    [],
    wishes({
      A: { value: VALUE, hosts: ['a.b'], in: ['bearer', { header: 'x-a' }, { query: 'k' }], ports: [443] },
      B: { use: 'gh', prefix: 'ghp_', env: null, plain_http: true },
      C: { value: VALUE, hosts: ['a.b'], inject: { header: 'X-Key', format: 'k={}' } },
    }),
    '',
    deps,
  );
  const references = JSON.parse(JSON.stringify(toReferences(bindings)));
  t.notMatch(JSON.stringify(references), /sealed|"use"|digest/);
  const back = readReferences(references);
  t.strictSame(JSON.parse(JSON.stringify(back)), references);
  t.strictSame(
    (await values(back ?? [], deps)).map(([, , value]) => value),
    [undefined, undefined, undefined],
  );
});

t.test('references that no create could have made are refused', async (t) => {
  const [good] = toReferences(
    changeBindings([], wishes({ A: { value: VALUE, hosts: ['a.b'] } }), '', makeDeps(t)),
  );
  if (good === undefined) throw new Error('there is one');
  t.ok(readReferences([good]));
  for (const change of [
    { name: 'not a name' },
    { id: '../x' },
    { hosts: ['*'] },
    { hosts: [] },
    { forms: [{ header: 'Host' }] },
    { forms: [] },
    { placeholder: 'short' },
    { placeholder: 'other_prefix_aaaaaaaaaaaaaaaaaaaaaaaaaa' },
    { env: 'A=B' },
    { ports: [0] },
    { inject: { header: 'Host', format: '{}' } },
  ])
    t.equal(readReferences([{ ...good, ...change } as typeof good]), undefined, JSON.stringify(change));
  t.equal(readReferences([good, good]), undefined, 'twice');
});

t.test('one that is sealed with another key has no value, and the others have theirs', async (t) => {
  const [deps, other] = [makeDeps(t), makeDeps(t)];
  const wished = wishes({ A: { value: VALUE, hosts: ['a.b'] } });
  const bindings = [...changeBindings([], wished, '', other)];
  const after = changeBindings(bindings, wishes({ B: { value: VALUE, hosts: ['a.b'] } }), '', deps);
  t.strictSame(await values(after, deps), [
    ['A', ['a.b'], undefined],
    ['B', ['a.b'], VALUE],
  ]);
  t.strictSame(deps.failed, ['A']);
});

t.test('the values of a sandbox have a limit, also where a stored one grows later', async (t) => {
  const stored = { '/big': { hosts: ['a.b'], value: 'v'.repeat(60_000) } };
  const deps = makeDeps(t, stored);
  const big = wishes({ A: { use: 'big' }, B: { value: VALUE, hosts: ['a.b'] } });
  const more = wishes({ C: { value: 'w'.repeat(6000), hosts: ['a.b'] } });
  const bindings = changeBindings([], big, '', deps);
  t.throws(() => changeBindings(bindings, more, '', deps), { message: /at most 65536 bytes/ });
  t.equal(changeBindings(bindings, { B: null }, '', deps).length, 1);
  stored['/big'].value = 'v'.repeat(65_530);
  t.match(await values(bindings, deps), [
    ['A', ['a.b'], /^v+$/],
    ['B', ['a.b'], undefined],
  ]);
  t.strictSame(deps.failed, ['B']);
  t.strictSame(changeBindings(bindings, { B: null }, '', deps).length, 1, 'one can be removed still');
});
