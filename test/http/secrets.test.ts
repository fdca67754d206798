// Secrets over HTTP: who may store, bind and see them, what inherits them, and that no answer or file has a value.
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { environmentOf } from '../../host-agent/src/sandboxes/metadata.ts';
import type { SandboxRecord } from '../../host-agent/src/sandboxes/record.ts';
import { scaled } from '../support/time-scale.ts';
import { startKeyed } from './keyed-daemon.ts';
import { UNKNOWN_ID } from './support.ts';

t.setTimeout(scaled(120_000));

const VALUE = 'ghp_a/value+that is=odd&0123456789';
const NETWORK = { enabled: true, allowlist: ['api.test', 'b.test'] };
const GH = { value: VALUE, hosts: ['api.test'] };

const start = async (...call: Parameters<typeof startKeyed>) => {
  const started = await startKeyed(...call);
  const { daemon } = started;
  const records = daemon.store.table<SandboxRecord>('sandboxes');
  const envOf = (id: string) => environmentOf(records.get(id) as SandboxRecord);
  const secretOf = async (id: string, name: string) => {
    const bindings = records.get(id)?.metadata?.secrets ?? [];
    const opened = await daemon.secrets.sandboxSecrets.open(bindings);
    return opened.find((each) => each.name === name)?.value?.toString();
  };
  return { ...started, envOf, secretOf };
};

/** In the files of a daemon, in any of these forms. */
function findIn(dir: string, value: string): string[] {
  const bytes = Buffer.from(value);
  const shifted = [0, 1, 2].map((n) =>
    Buffer.concat([Buffer.alloc(n), bytes])
      .toString('base64')
      .slice(4, -4),
  );
  const forms = [
    bytes,
    ...shifted,
    bytes.toString('hex'),
    encodeURIComponent(value),
    JSON.stringify(value).slice(1, -1),
  ];
  const utf16 = Buffer.from(value, 'utf16le');
  const all = [...forms.map((form) => Buffer.from(form)), utf16, Buffer.from(bytes).reverse()];
  const files = readdirSync(dir, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
  return files
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => all.some((form) => readFileSync(path).includes(form)));
}

t.test('a stored secret is listed without its value, and is its tenant’s alone', async (t) => {
  const { as, daemon } = await start(t);
  const [acme, other, root] = [await as({ tenant: 'acme' }), await as({ tenant: 'other' }), await as()];
  const put = await acme('PUT', '/secrets/github', GH);
  t.match(put, { status: 200, name: 'github', hosts: ['api.test'], digest: /^[0-9a-f]{12}$/, used_by: [] });
  t.notMatch(put.text, VALUE.slice(0, 8));
  t.match(await acme('GET', '/secrets'), { secrets: [{ name: 'github', uses: 0 }] });
  daemon.secrets.secretStore.noteUse('acme', 'github');
  daemon.secrets.secretStore.noteUse('other', 'github');
  t.match(await acme('GET', '/secrets'), { secrets: [{ uses: 1, last_used_at: /^\d{4}-.*Z$/ }] });
  t.match(await acme('GET', '/secrets/github'), { status: 200, name: 'github' });
  for (const ask of [other, root]) {
    t.match(await ask('GET', '/secrets'), { secrets: [] });
    t.equal((await ask('GET', '/secrets/github')).status, 404);
    t.equal((await ask('DELETE', '/secrets/github')).status, 404);
    const create = await ask('POST', '/sandboxes', { network: NETWORK, secrets: { X: { use: 'github' } } });
    t.match(create, { status: 400, error: /secrets.X.use names a secret that does not exist/ });
  }
  const { id } = await acme('POST', '/sandboxes', { network: NETWORK, secrets: { X: { use: 'github' } } });
  t.match(await acme('GET', '/secrets/github'), { used_by: [id] });
  t.match(await acme('GET', `/sandboxes/${id}/network`), {
    secrets: [{ name: 'X', use: 'github', has_value: true }],
  });
  t.equal((await acme('DELETE', '/secrets/github')).status, 204);
  t.match(await acme('GET', `/sandboxes/${id}/network`), { secrets: [{ name: 'X', has_value: false }] });
});

t.test('pages of secrets have each once', async (t) => {
  const { root } = await start(t);
  for (const name of ['c', 'a-1', 'b.x']) await root('PUT', `/secrets/${name}`, GH);
  const seen: string[] = [];
  for (let path: string | undefined = '/secrets?limit=1'; path; ) {
    const { secrets, next_cursor: next } = await root('GET', path);
    seen.push(...secrets.map(({ name }: { name: string }) => name));
    path = next && `/secrets?limit=1&cursor=${next}`;
  }
  t.strictSame(seen.sort(), ['a-1', 'b.x', 'c']);
});

t.test('policies: operation secrets, allow_secrets, and net_allow_max for hosts', async (t) => {
  const { as, root } = await start(t);
  await root('PUT', '/secrets/one', GH);
  await root('PUT', '/secrets/two', GH);
  const creator = await as({ policy: { operations: ['create', 'network', 'read'], allow_secrets: ['one'] } });
  t.match(await creator('PUT', '/secrets/x', GH), { status: 403, error: /operation secrets is not among/ });
  t.equal((await creator('GET', '/secrets')).status, 403);
  const bind = (ask: typeof creator, secrets: object) =>
    ask('POST', '/sandboxes', { network: NETWORK, secrets });
  const made = await bind(creator, { X: { use: 'one' } });
  t.equal(made.status, 201);
  t.match(await bind(creator, { X: { use: 'two' } }), {
    status: 403,
    error: /secret two is not among allow_secrets one/,
  });
  const change = { secrets: { Y: { use: 'two' } } };
  t.equal((await creator('PATCH', `/sandboxes/${made.id}/network`, change)).status, 403);
  const keeper = await as({ policy: { operations: ['secrets'], allow_secrets: ['one'] } });
  t.match(await keeper('PUT', '/secrets/two', GH), { status: 403, error: /secret two is not among/ });
  t.equal((await keeper('DELETE', '/secrets/two')).status, 403);
  t.equal((await keeper('PUT', '/secrets/one', GH)).status, 200);
  t.equal((await keeper('DELETE', '/secrets/one')).status, 204);
  const narrow = await as({ policy: { net_allow_max: ['api.test', 'b.test'] } });
  const evil = { value: VALUE, hosts: ['evil.test'] };
  for (const answer of [
    await bind(narrow, { X: evil }),
    await narrow('PUT', '/secrets/x', evil),
    await narrow('PATCH', `/sandboxes/${made.id}/network`, { secrets: { X: evil } }),
  ])
    t.match(answer, {
      status: 403,
      error: /a host of secret [Xx] is not within net_allow_max api.test, b.test/,
    });
  t.equal((await bind(narrow, { X: GH })).status, 201);
});

t.test('no error shows what may be a value', async (t) => {
  const { root } = await start(t);
  const bad = `${VALUE}\u00e9`;
  const { id } = await root('POST', '/sandboxes', { network: NETWORK });
  const asks: [string, string, unknown][] = [
    ['PUT', '/secrets/x', { value: bad, hosts: ['a.test'] }],
    ['PUT', '/secrets/x', { value: VALUE }],
    ['PUT', '/secrets/x', { value: [VALUE], hosts: ['a.test'] }],
    ['PUT', '/secrets/x', { values: VALUE, hosts: ['a.test'] }],
    ['PUT', '/secrets/x', { value: VALUE, hosts: ['a.test'], source: { file: VALUE } }],
    ['PUT', '/secrets/x', { source: VALUE, hosts: ['a.test'] }],
    ['PUT', '/secrets/x', { source: { vault: VALUE }, hosts: ['a.test'] }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: { X: { value: VALUE } } }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: { X: { value: bad, hosts: ['a.test'] } } }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: { X: VALUE } }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: VALUE }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: [VALUE] }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: { X: { ...GH, use: VALUE } } }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: { X: { ...GH, in: [VALUE] } } }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: { X: { ...GH, prefix: VALUE } } }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: { X: { ...GH, env: VALUE } } }],
    ['POST', '/sandboxes', { network: NETWORK, secrets: { X: { ...GH, inject: { header: VALUE } } } }],
    [
      'POST',
      '/sandboxes',
      { network: NETWORK, secrets: { X: { ...GH, inject: { header: 'a', format: VALUE } } } },
    ],
    [
      'POST',
      '/sandboxes',
      { network: NETWORK, secrets: { X: { ...GH, inject: { header: 'a' }, in: ['body'] } } },
    ],
    ['POST', '/sandboxes', { secrets: { X: GH } }],
    ['POST', '/sandboxes', { network: NETWORK, env: { X: '1' }, secrets: { X: GH } }],
    ['POST', '/sandboxes', { network: NETWORK, vcpus: 'no', secrets: { X: GH } }],
    ['PATCH', `/sandboxes/${id}/network`, { secrets: { X: { ...GH, plain_http: VALUE } } }],
    ['PUT', `/sandboxes/${id}/network`, { secrets: { X: null } }],
  ];
  for (const [method, path, body] of asks) {
    const { status, text } = await root(method, path, body);
    t.equal(status, 400, JSON.stringify(body));
    t.notMatch(text, 'ghp_', text);
  }
});

t.test('a value in the field of a name is in no answer and not in the audit trail', async (t) => {
  const { root, daemon } = await start(t);
  const token = 'ghp_0123456789abcdefghijklmnopqrstuvwxyz';
  const { id } = await root('POST', '/sandboxes', { network: NETWORK });
  const wrong = { X: { use: token } };
  for (const [method, path, body, status] of [
    ['POST', '/sandboxes', { network: NETWORK, secrets: wrong }, 400],
    ['PATCH', `/sandboxes/${id}/network`, { secrets: wrong }, 400],
    ['PUT', `/sandboxes/${id}/network`, { allowlist: ['b.test'], secrets: wrong }, 400],
    ['PUT', '/secrets/x', { source: { file: token }, hosts: ['a.test'] }, 403],
  ] as const) {
    const answer = await root(method, path, body);
    t.equal(answer.status, status, answer.text);
    t.notMatch(answer.text, token);
  }
  t.strictSame(findIn(daemon.home.dataDir, token), []);
});

t.test('an operator who changes the sandbox of a tenant gives it secrets of the tenant', async (t) => {
  const { root, as, secretOf } = await start(t);
  const acme = await as({ tenant: 'acme' });
  await root('PUT', '/secrets/own', { ...GH, value: 'of-the-operator' });
  const { id } = await acme('POST', '/sandboxes', { network: NETWORK });
  const change = { secrets: { X: { use: 'own' } } };
  t.equal((await root('PATCH', `/sandboxes/${id}/network`, change)).status, 400);
  await acme('PUT', '/secrets/own', GH);
  t.equal((await root('PATCH', `/sandboxes/${id}/network`, change)).status, 200);
  t.equal(await secretOf(id, 'X'), VALUE);
});

t.test('changes of a running sandbox: bound, rotated, removed, replaced', async (t) => {
  const { root, daemon, envOf, secretOf } = await start(t);
  const { id } = await root('POST', '/sandboxes', { network: NETWORK, secrets: { GH } });
  const placeholder = envOf(id).GH;
  t.match(placeholder, /^sbxs_gh_[a-z2-7]{26}$/);
  t.match(await root('GET', `/sandboxes/${id}`), { env_names: ['GH'] });
  const path = `/sandboxes/${id}/network`;
  t.match(await root('PATCH', path, { secrets: { GH: { ...GH, value: `${VALUE}-2` } } }), {
    status: 200,
    generation: 2,
  });
  t.equal(await secretOf(id, 'GH'), `${VALUE}-2`);
  t.equal(envOf(id).GH, placeholder, 'programs that run go on');
  t.match(daemon.happened.at(-1), { kind: 'secrets-changed', sandbox: id, changed: ['GH'] });
  const more = await root('PATCH', path, { secrets: { MORE: { ...GH, in: [{ query: 'k' }] } } });
  t.match(more.secrets, [{ name: 'GH' }, { name: 'MORE', in: [{ query: 'k' }] }]);
  t.match(await root('PATCH', path, { allowlist: ['b.test'] }), {
    secrets: [{ name: 'GH' }, { name: 'MORE' }],
  });
  t.match((await root('PATCH', path, { secrets: { GH: null } })).secrets, [{ name: 'MORE' }]);
  t.notOk(envOf(id).GH);
  t.match(await root('PATCH', path, { secrets: { X: GH }, if_generation: 1 }), { status: 409 });
  const replaced = await root('PUT', path, { allowlist: ['b.test'], secrets: { NEW: GH } });
  t.match(replaced.secrets, [{ name: 'NEW' }]);
  t.match(
    (await root('PUT', path, { allowlist: ['api.test'] })).secrets,
    [{ name: 'NEW' }],
    'absent: they stay',
  );
  t.strictSame((await root('PUT', path, { allowlist: ['b.test'], secrets: {} })).secrets, []);
});

t.test('snapshots and forks inherit bindings; a fork may change or drop them', async (t) => {
  const { root, envOf, secretOf, as } = await start(t);
  await root('PUT', '/secrets/stored', GH);
  const secrets = { GH, ST: { use: 'stored' } };
  const { id } = await root('POST', '/sandboxes', { network: NETWORK, secrets });
  const { id: snapshot } = await root('POST', `/sandboxes/${id}/snapshot`);
  await root('PATCH', `/sandboxes/${id}/network`, { secrets: { GH: null } });
  for (const path of [`/snapshots/${snapshot}/fork`, `/sandboxes/${id}/fork`]) {
    const {
      sandboxes: [fork],
    } = await root('POST', path);
    t.equal(envOf(fork.id).ST, envOf(id).ST, 'its memory has the placeholder');
    t.equal(await secretOf(fork.id, 'ST'), VALUE);
    t.equal(await secretOf(fork.id, 'GH'), path.startsWith('/snap') ? VALUE : undefined);
  }
  const changed = await root('POST', `/snapshots/${snapshot}/fork`, {
    secrets: { GH: { ...GH, value: 'another-value' }, ST: null },
  });
  const [fork] = changed.sandboxes;
  t.equal(await secretOf(fork.id, 'GH'), 'another-value');
  t.strictSame(
    Object.keys(envOf(fork.id)).filter((name) => name === 'ST'),
    [],
  );
  const limited = await as({ policy: { allow_secrets: [] } });
  t.match(await limited('POST', `/snapshots/${snapshot}/fork`), { status: 403, error: /allow_secrets/ });
  t.equal((await limited('POST', `/snapshots/${snapshot}/fork`, { secrets: { ST: null } })).status, 201);
});

t.test('what is left of a deleted snapshot has no value', async (t) => {
  const { root, daemon } = await start(t);
  const { id } = await root('POST', '/sandboxes', { network: NETWORK, secrets: { GH } });
  const { id: first } = await root('POST', `/sandboxes/${id}/snapshot`);
  await root('POST', `/sandboxes/${id}/snapshot`);
  const records = daemon.store.table<{ secrets?: unknown; deletedAtMs?: number }>('snapshots');
  t.ok(records.get(first)?.secrets);
  t.equal((await root('DELETE', `/snapshots/${first}`)).status, 204);
  t.ok(records.get(first)?.deletedAtMs);
  t.notOk(records.get(first)?.secrets);
});

t.test('a name with other secrets is not the same sandbox', async (t) => {
  const { root } = await start(t);
  const request = { name: 'one', if_exists: 'return', network: NETWORK };
  const { id } = await root('POST', '/sandboxes', { ...request, secrets: { GH } });
  t.match(await root('POST', '/sandboxes', { ...request, secrets: { GH } }), { status: 200, id });
  for (const secrets of [
    undefined,
    {},
    { GH: { ...GH, value: `${VALUE}x` } },
    { GH: { ...GH, hosts: ['b.test'] } },
  ])
    t.match(await root('POST', '/sandboxes', { ...request, secrets }), {
      status: 409,
      error: /secrets differs/,
    });
});

t.test(
  'no file of the daemon has a value: registry, snapshot, logs, audit, answers to retries',
  async (t) => {
    const { root, daemon } = await start(t);
    const key = { 'idempotency-key': 'k1' };
    await root('PUT', '/secrets/stored', GH);
    const made = await root(
      'POST',
      '/sandboxes',
      { network: NETWORK, secrets: { GH, S: { use: 'stored' } } },
      key,
    );
    t.equal(made.status, 201);
    t.match(
      await root('POST', '/sandboxes', { network: NETWORK, secrets: { GH, S: { use: 'stored' } } }, key),
      {
        replayed: 'true',
        id: made.id,
      },
    );
    const other = { GH: { ...GH, value: `${VALUE}x` }, S: { use: 'stored' } };
    t.equal((await root('POST', '/sandboxes', { network: NETWORK, secrets: other }, key)).status, 422);
    const { id } = await root('POST', `/sandboxes/${made.id}/snapshot`);
    t.equal((await root('POST', `/snapshots/${id}/fork`)).status, 201);
    await daemon.store.table('sandboxes').flush();
    t.strictSame(findIn(daemon.home.dataDir, VALUE), []);
    t.strictSame(findIn(daemon.home.runDir, VALUE), []);
    t.notMatch(JSON.stringify(daemon.lines), 'ghp_');
    t.notMatch(JSON.stringify(daemon.happened), 'ghp_');
    t.equal((await root('GET', `/secrets/${UNKNOWN_ID}`)).status, 404);
  },
);
