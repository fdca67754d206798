// Limits of policies and quotas, on the request as it will be carried out: real sandboxes' manager, registry and files over an
// engine in memory.
import { type Policy, policy, ROUTES, type Route } from '@sandboxd/api';
import t from 'tap';
import { QUOTA_KEYS, type Quota } from '../../host-agent/src/keys/index.ts';
import type { QuotaLimit } from '../../host-agent/src/keys/record.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { startKeyed as start } from './keyed-daemon.ts';

// Daemon after daemon, on a host that may be busy.
t.setTimeout(scaled(120_000));

/** Those that have tests of their own: most, as copies do not inherit them. */
const OTHERS = [
  'operations',
  'max_sandboxes',
  'max_snapshots',
  'max_paused',
  ...(['net_allow_max', 'net_presets', 'net_require_inspect', 'allow_secrets'] as const),
  'max_fork',
  'publish_ports',
  'publish_addresses',
  'max_published_ports',
] as const;

/** For each limit of a policy a create and a fork that just keep it, and ones that just pass it. */
const CASES: Readonly<
  Record<
    Exclude<keyof Policy, (typeof OTHERS)[number]>,
    { readonly policy: Policy; readonly within: object; readonly beyond: object; readonly reason: RegExp }
  >
> = {
  max_vcpus: {
    policy: { max_vcpus: 2 },
    within: { vcpus: 2 },
    beyond: { vcpus: 3 },
    reason: /vcpus 3 is over max_vcpus 2/,
  },
  max_memory_mib: {
    policy: { max_memory_mib: 256 },
    within: { memory_mib: 256 },
    beyond: { memory_mib: 257 },
    reason: /memory_mib 257 is over max_memory_mib 256/,
  },
  max_timeout_s: {
    policy: { max_timeout_s: 600 },
    within: { timeout_s: 600 },
    beyond: { timeout_s: 601 },
    reason: /timeout_s 601 is over max_timeout_s 600/,
  },
  max_idle_timeout_s: {
    policy: { max_idle_timeout_s: 60 },
    within: { idle_timeout_s: 60 },
    beyond: { idle_timeout_s: 61 },
    reason: /idle_timeout_s 61 is over max_idle_timeout_s 60/,
  },
  allow_profiles: {
    policy: { allow_profiles: ['other'] },
    within: { profile: 'other' },
    beyond: { profile: 'third' },
    reason: /profile "third" is not among allow_profiles \["other"\]/,
  },
};

t.test(
  'each limit of a policy, just kept and just passed, by a create and by a fork that inherits',
  async (t) => {
    t.same(
      [...Object.keys(CASES), ...OTHERS].sort(),
      Object.keys(policy.shape).sort(),
      'there is a case for each',
    );
    const { as, snapshotOf } = await start(t);
    for (const [name, { policy: limits, within, beyond, reason }] of Object.entries(CASES)) {
      const ask = await as({ policy: limits });
      t.equal((await ask('POST', '/sandboxes', within)).status, 201, name);
      t.match(await ask('POST', '/sandboxes', beyond), { status: 403, error: reason }, name);
      const [good, bad] = [await snapshotOf(within), await snapshotOf(beyond)];
      t.equal((await ask('POST', `/snapshots/${good}/fork`)).status, 201, `${name}, fork`);
      t.match(await ask('POST', `/snapshots/${bad}/fork`), { status: 403, error: reason }, `${name}, fork`);
    }
  },
);

t.test('defaults count, and every limit that is passed is named at once', async (t) => {
  const { as, daemon } = await start(t);
  const ask = await as({
    policy: {
      operations: ['create'],
      max_timeout_s: 60,
      allow_profiles: [],
      max_vcpus: 1,
      max_memory_mib: 128,
      max_sandboxes: 0,
    },
  });
  const before = daemon.manager.list().length;
  t.match(await ask('POST', '/sandboxes', { vcpus: 2, memory_mib: 129, service: { cmd: ['x'] } }), {
    status: 403,
    error:
      /vcpus 2 .*memory_mib 129 .*timeout_s 0, which means no end, .*profile "base" .*a service needs exec: operation exec is not among create; sandboxes of this key 1 is over max_sandboxes 0/,
  });
  t.match(await ask('POST', '/sandboxes'), {
    status: 403,
    error: /^(?!.*vcpus).*timeout_s 0.*profile "base"/,
  });
  t.match(
    await ask('POST', '/sandboxes', { vcpus: 'x' }),
    { status: 400 },
    'what makes no sense passes no limit',
  );
  t.match(await ask('POST', '/sandboxes', { profile: 'nowhere' }), { status: 400 });
  t.equal(daemon.manager.list().length, before);
});

t.test('a service needs exec, with a create only', async (t) => {
  const { as } = await start(t);
  const service = { cmd: ['serve'] };
  const creator = await as({ policy: { operations: ['create'] } });
  t.match(await creator('POST', '/sandboxes', { service }), { status: 403, error: /needs exec/ });
  t.equal((await creator('POST', '/sandboxes', {})).status, 201);
  const both = await as({ policy: { operations: ['create', 'exec'] } });
  t.equal((await both('POST', '/sandboxes', { service })).status, 201);
});

t.test('max_fork counts the copies of one request', async (t) => {
  const { as, snapshotOf } = await start(t);
  const id = await snapshotOf({});
  const ask = await as({ policy: { max_fork: 2 } });
  t.equal((await ask('POST', `/snapshots/${id}/fork?count=2`)).status, 201);
  t.match(await ask('POST', `/snapshots/${id}/fork?count=3`), {
    status: 403,
    error: /count 3 is over max_fork 2/,
  });
  t.match(
    await ask('POST', `/snapshots/${id}/fork?count=1`, { count: 3 }),
    { status: 403 },
    'that of the body counts',
  );
  t.equal((await ask('POST', '/snapshots/snap_0123456789abc/fork?count=3')).status, 404);
});

t.test('max_sandboxes counts what the key has, at once as well as in turn', async (t) => {
  const { as, root } = await start(t);
  const ask = await as({ policy: { max_sandboxes: 3 } });
  const created = await Promise.all(Array.from({ length: 12 }, () => ask('POST', '/sandboxes')));
  t.equal(created.filter(({ status }) => status === 201).length, 3);
  t.equal(created.filter(({ status }) => status === 403).length, 9);
  const [first] = created.filter(({ status }) => status === 201);
  await ask('DELETE', `/sandboxes/${first?.id}`);
  t.equal((await ask('POST', '/sandboxes')).status, 201, 'one that is gone makes room');
  t.equal((await root('POST', '/sandboxes')).status, 201, 'another key has nothing to do with that');
  const snapshot = await root(
    'POST',
    `/sandboxes/${created.find(({ id }) => id && id !== first?.id)?.id}/snapshot`,
  );
  t.match(await ask('POST', `/snapshots/${snapshot.id}/fork`), {
    status: 403,
    error: /sandboxes of this key 4/,
  });
});

t.test('max_snapshots counts existing snapshots and those that idle timeouts will take', async (t) => {
  const { as } = await start(t);
  const ask = await as({ policy: { max_snapshots: 2 } });
  const { id } = await ask('POST', '/sandboxes');
  const save = () => ask('POST', `/sandboxes/${id}/snapshot`);
  const beyond = { status: 403, error: /snapshots of this key 3 is over max_snapshots 2/ };
  const made = await Promise.all([save(), save(), save()]);
  t.same(made.map(({ status }) => status).sort(), [201, 201, 403]);
  const idle = { idle_timeout_s: 60, idle_action: 'snapshot' };
  t.match(await ask('POST', '/sandboxes', idle), beyond);
  await ask('DELETE', `/snapshots/${made.find(({ status }) => status === 201)?.id}`);
  t.match(await ask('POST', '/sandboxes', idle), { status: 201 });
  t.match(await save(), beyond, 'its room is held');
});

t.test('saving itself needs the operation, of a create and of a fork that inherits it', async (t) => {
  const { as, snapshotOf } = await start(t);
  const ask = await as({ policy: { operations: ['create', 'fork'] } });
  const idle = { idle_timeout_s: 60, idle_action: 'snapshot' };
  const refusal = {
    status: 403,
    error: /idle_action snapshot needs snapshot: operation snapshot is not among/,
  };
  t.match(await ask('POST', '/sandboxes', idle), refusal);
  t.match(await ask('POST', `/snapshots/${await snapshotOf(idle)}/fork`), refusal);
  t.match(await ask('POST', '/sandboxes', { idle_timeout_s: 60 }), { status: 201 });
  for (const bad of [
    { idle_timeout_s: -1 },
    { idle_timeout_s: 1.5 },
    { idle_timeout_s: 1, idle_action: 'stop' },
  ])
    t.match(await ask('POST', '/sandboxes', bad), { status: 400, error: /idle_/ });
});

t.test('a time limit of commands is bounded, not refused', async (t) => {
  const { as, daemon } = await start(t);
  const ask = await as({ policy: { max_timeout_s: 5 } });
  const { id } = await ask('POST', '/sandboxes', { timeout_s: 5 });
  const limit = async (timeout_s?: number) => {
    await ask('POST', `/sandboxes/${id}/exec`, {
      cmd: ['true'],
      ...(timeout_s !== undefined && { timeout_s }),
    });
    return Number(daemon.host.of(id).agent.execs.at(-1)?.exec.timeoutMs);
  };
  t.same(
    [await limit(), await limit(0), await limit(-1), await limit(4), await limit(5), await limit(6)],
    [5000, 5000, 5000, 4000, 5000, 5000],
  );
});

t.test('tenants have nothing of each other', async (t) => {
  const { as, root } = await start(t);
  const [a, b, a2] = [await as({ tenant: 'a' }), await as({ tenant: 'b' }), await as({ tenant: 'a' })];
  const sandbox = await a('POST', '/sandboxes');
  const snapshot = await a('POST', `/sandboxes/${sandbox.id}/snapshot`);
  const free = await root('POST', '/sandboxes');
  t.same((await b('GET', '/sandboxes')).sandboxes, []);
  t.same((await b('GET', '/snapshots')).snapshots, []);
  const ids = { sandboxes: sandbox.id, snapshots: snapshot.id };
  const foreign = [
    ['GET', `/sandboxes/${free.id}`] as const,
    ...Object.entries<Route>(ROUTES).flatMap(([name, { method, path, transport, example, body }]) => {
      const [, kind] = /^\/(sandboxes|snapshots)\/:id/.exec(path) ?? [];
      if (kind === undefined || transport === 'websocket') return [];
      t.ok(example, `${name} has an example`);
      const params: Record<string, string> = {
        ...example?.params,
        id: ids[kind as keyof typeof ids],
        cid: 'cmd_0123456789abc',
      };
      const target = path.replace(/:(\w+)/g, (_, name: string) => params[name] ?? '');
      const sent = body?.kind === 'json' ? (example?.body ?? {}) : undefined;
      return [[method, `${target}?${new URLSearchParams(example?.query)}`, sent] as const];
    }),
  ];
  const unknown = { sbx: 'sbx_0123456789abc', snap: 'snap_0123456789abc' };
  for (const [method, path, body] of foreign) {
    const seen = await b(method, path, body);
    t.equal(seen.status, 404, `${method} ${path}`);
    const id = /(sbx|snap)_[^/?]+/.exec(path)?.[0] ?? '';
    const none = unknown[id.startsWith('sbx') ? 'sbx' : 'snap'];
    const absent = await b(method, path.replace(id, none), body);
    t.equal(seen.error, absent.error.replaceAll(none, id), `as if there were none: ${method} ${path}`);
  }
  t.equal((await a2('GET', '/sandboxes')).sandboxes.length, 1, 'keys of one tenant share');
  const fork = await a2('POST', `/snapshots/${snapshot.id}/fork`);
  t.equal(fork.status, 201);
  t.equal((await b('GET', `/sandboxes/${fork.sandboxes[0].id}`)).status, 404);
  t.equal((await root('GET', '/sandboxes')).sandboxes.length, 3, 'a key without a tenant sees all');
  await a('POST', `/sandboxes/${sandbox.id}/exec`, { cmd: ['true'] });
  await a('DELETE', `/sandboxes/${sandbox.id}`);
  t.equal((await a('GET', `/sandboxes/${sandbox.id}/logs`)).status, 200, 'its log outlives it');
  t.equal((await b('GET', `/sandboxes/${sandbox.id}/logs`)).status, 404, 'and stays theirs');
  t.equal((await root('GET', `/sandboxes/${sandbox.id}/logs`)).status, 200);
});

t.test('a tenant brings no image that others would boot, and takes none away', async (t) => {
  const { as, root } = await start(t);
  const ask = await as({ tenant: 'acme' });
  for (const [method, path] of [
    ['POST', '/images/import?tag=nginx'],
    ['DELETE', '/images/nginx'],
  ] as const) {
    t.match(await ask(method, path), { status: 403, error: /all tenants share the images/ });
    t.equal((await root(method, path)).status, 501, 'this daemon has none');
  }
  t.equal((await ask('GET', '/images')).status, 501);
});

const PORT = { publish: [{ host_port: 8080, guest_port: 80 }] };

const ELSEWHERE = ['max_paused', 'max_changes_per_minute', 'max_stored_bytes', 'net_require_inspect'];

/**
 * For each quota what to make twice, of which the second is one too many. Of max_paused: paused-limits.test.ts, of
 * max_stored_bytes: store-quota.test.ts.
 */
const QUOTAS: Readonly<
  Record<
    Exclude<QuotaLimit, 'max_paused' | 'max_changes_per_minute' | 'max_stored_bytes'>,
    { readonly quota: Quota; readonly path: string; readonly options: object }
  >
> = {
  max_sandboxes: { quota: { max_sandboxes: 1 }, path: '/sandboxes', options: {} },
  max_vcpus: { quota: { max_vcpus: 5 }, path: '/sandboxes', options: { vcpus: 3 } },
  max_memory_mib: { quota: { max_memory_mib: 511 }, path: '/sandboxes', options: { memory_mib: 256 } },
  max_disk_bytes: {
    quota: { max_disk_bytes: 2 ** 28 - 1 },
    path: '/sandboxes',
    options: { disk_bytes: 2 ** 27 },
  },
  max_snapshots: { quota: { max_snapshots: 1 }, path: '/snapshot', options: {} },
  max_published_ports: { quota: { max_published_ports: 1 }, path: '/sandboxes', options: PORT },
  max_creates_per_minute: { quota: { max_creates_per_minute: 1 }, path: '/sandboxes', options: {} },
};

t.test('each quota of a tenant holds for all its keys together, at once as well as in turn', async (t) => {
  t.same([...Object.keys(QUOTAS), ...ELSEWHERE].sort(), [...QUOTA_KEYS].sort(), 'there is a case for each');
  for (const [name, { quota, path, options }] of Object.entries(QUOTAS)) {
    const { as, keyring } = await start(t);
    const [one, two] = [await as({ tenant: 'acme' }), await as({ tenant: 'acme' })];
    const other = await as({ tenant: 'other' });
    const { id } = path === '/snapshot' ? await one('POST', '/sandboxes') : { id: '' };
    const target = path === '/snapshot' ? `/sandboxes/${id}/snapshot` : path;
    await keyring.registry.setQuota('acme', quota);
    const made = await Promise.all([one, two, one, two].map((ask) => ask('POST', target, options)));
    t.same(made.map(({ status }) => status).sort(), [201, 403, 403, 403], name);
    t.match(
      made.find(({ status }) => status === 403)?.error,
      new RegExp(`^the quota of tenant "acme" forbids it: .*of tenant acme \\d+ is over ${name} `),
    );
    const [{ id: first }] = made.filter(({ status }) => status === 201);
    if (path === '/sandboxes')
      t.equal((await other('POST', target, options)).status, 201, 'another tenant is free');
    if (name === 'max_creates_per_minute') continue;
    await one('DELETE', path === '/snapshot' ? `/snapshots/${first}` : `/sandboxes/${first}`);
    t.equal((await two('POST', target, options)).status, 201, `${name}: what is gone makes room`);
    await keyring.registry.removeQuota('acme');
    t.equal((await two('POST', target, options)).status, 201, `${name}: a quota that is gone binds nobody`);
  }
});

t.test('what fails to be made counts no more', async (t) => {
  const { as, keyring, daemon } = await start(t);
  const ask = await as({ tenant: 'acme' });
  await keyring.registry.setQuota('acme', { max_sandboxes: 1 });
  daemon.host.agentFaults = { refuses: 'identity' };
  t.equal((await ask('POST', '/sandboxes')).status, 500);
  daemon.host.agentFaults = {};
  t.equal((await ask('POST', '/sandboxes')).status, 201);
});

t.test('owners are known after a restart', async (t) => {
  const { as, daemon, keyring } = await start(t);
  const ask = await as({ tenant: 'acme' });
  const { id } = await ask('POST', '/sandboxes');
  const snapshot = await ask('POST', `/sandboxes/${id}/snapshot`);
  await daemon.crash();
  const next = await startMemoryDaemon(t, { home: daemon.home });
  const ofTenant = (tenant: string) => next.manager.as({ kind: 'key', key: 'x', id: 'x', tenant });
  t.match(ofTenant('acme').list(), [{ id }]);
  t.same(ofTenant('other').list(), []);
  t.match(ofTenant('acme').listSnapshots(), [{ id: snapshot.id }]);
  t.throws(() => ofTenant('other').getSnapshot(snapshot.id), /does not exist/);
  t.ok(keyring);
});
