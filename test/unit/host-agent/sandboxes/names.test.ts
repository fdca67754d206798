// Names, labels and environments of sandboxes: who gets a name, what a create of a taken one answers, what forks have.
import type { ServiceSpec } from '@sandboxd/api';
import t from 'tap';
import { type KeyHolder, OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import type { CreateSandboxOptions, SandboxInfo } from '../../../../host-agent/src/sandboxes/types.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { type MemoryDaemon, makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

const SERVICE: Omit<ServiceSpec, 'cmd'> = {
  ...{ env: {}, env_exact: false, stop_signal: 'SIGTERM', stop_grace_s: 10, log_buffer_bytes: 65_536 },
  restart: { policy: 'never', max_retries: 0 },
};

function as({ manager }: Pick<MemoryDaemon, 'manager'>, tenant?: string, more: Partial<KeyHolder> = {}) {
  const key = `key of ${tenant}`;
  return manager.as({ kind: 'key', id: key, key, ...(tenant !== undefined && { tenant }), ...more });
}

t.test(
  'of fifty creates of one name at a time, one has it, and the others are told whose it is',
  async (t) => {
    const daemon = await startMemoryDaemon(t);
    const { manager } = daemon;
    const all = await Promise.allSettled(Array.from({ length: 50 }, () => manager.create({ name: 'web' })));
    const made = all.filter((each) => each.status === 'fulfilled');
    t.equal(made.length, 1);
    const refusal = /^the name web is that of a sandbox that is being created or renamed$/;
    for (const each of all)
      if (each.status === 'rejected') t.match(each.reason, { code: 'conflict', message: refusal });
    const [{ id }] = manager.list() as [SandboxInfo];
    await t.rejects(manager.create({ name: 'web' }), {
      code: 'conflict',
      message: `the name web is that of sandbox ${id}; use another name, or delete it`,
    });
    await manager.delete(id);
    t.match(await manager.create({ name: 'web' }), { name: 'web' }, 'free after the delete');
  },
);

t.test('fifty creates that take an existing one get the same sandbox', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const create = () => manager.create({ name: 'web', ifExists: 'return', labels: { a: '1' } });
  const all = await Promise.all(Array.from({ length: 50 }, create));
  t.equal(new Set(all.map(({ id }) => id)).size, 1);
  t.equal(all.filter(({ isExisting }) => !isExisting).length, 1);
  t.equal(manager.list().length, 1);
});

t.test('a name is free again after a failed create, and a waiting one gets it', async (t) => {
  let failures = 1;
  const { host, manager } = await startMemoryDaemon(t, {
    templateBudgetBytes: 0,
    changeRecords: (records) => {
      const putAll = records.putAll.bind(records);
      return Object.assign(records, {
        putAll: (...call: Parameters<typeof putAll>) =>
          failures-- > 0 ? Promise.reject(new Error('the registry is full')) : putAll(...call),
      });
    },
  });
  const first = manager.create({ name: 'web' });
  const isRefused = t.rejects(first, { message: /the registry is full/ });
  await until(() => host.counts.boots > 0);
  const second = manager.create({ name: 'web', ifExists: 'return' });
  await isRefused;
  t.match(await second, { name: 'web' });
  t.notOk((await second).isExisting);
});

t.test('a create that waits for another one ends with its client', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  const over = new AbortController();
  const first = manager.create({ name: 'web', ifExists: 'return' });
  const second = manager.create({ name: 'web', ifExists: 'return' }, over.signal);
  over.abort(new Error('the client left'));
  await t.rejects(second, { message: 'the client left' });
  await first;
  t.equal(manager.list().length, 1);
  t.ok(host.running.length >= 1);
});

t.test('each difference is named, and no value of a variable', async (t) => {
  const { manager } = await startMemoryDaemon(t);
  const service = { ...SERVICE, cmd: ['serve'] };
  const same: CreateSandboxOptions = {
    ...{ name: 'web', ifExists: 'return', labels: { a: '1' }, env: { SECRET: 'hunter2' }, timeoutS: 600 },
    service,
  };
  const { id } = await manager.create(same);
  t.match(await manager.create(same), { id, isExisting: true });
  t.match(
    await manager.create({ ...same, service: { ...SERVICE, cmd: ['serve'], env_exact: false } }),
    { id },
    'the order of fields is no difference',
  );
  for (const [change, message] of [
    [{ memoryMib: 256 }, /memory_mib is 128, not 256$/],
    [{ timeoutS: 0 }, /timeout_s is 600, not 0$/],
    [{ timeoutAction: 'pause' }, /timeout_action is "delete", not "pause"$/],
    [{ autoResume: false }, /auto_resume is true, not false$/],
    [{ vcpus: 2, labels: {} }, /vcpus is 1, not 2; labels differs$/],
    [{ env: { SECRET: 'other' } }, /: env differs$/],
    [{ service: { ...service, cmd: ['other'] } }, /: service differs$/],
    [{ rootfs: { kind: 'profile', name: 'other' } }, /root is "profile base", not "profile other"$/],
    [{ idle: { timeoutS: 5, action: 'snapshot' } }, /idle_timeout_s is 0, not 5; idle_action is "delete"/],
    [{ network: { allowlist: [] } }, /: network differs$/],
    [{ bootArgs: 'quiet' }, /: boot_args differs$/],
    [{ publish: [{ hostPort: 9, guestPort: 9 }] }, /: network differs; publish differs$/],
  ] as const) {
    const refused = manager.create({ ...same, ...change });
    await t.rejects(refused, { code: 'conflict', message });
    t.notMatch(String(await refused.catch(String)), /hunter2/);
  }
});

t.test('tenants have names of their own', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const [red, blue, none] = [as(daemon, 'red'), as(daemon, 'blue'), as(daemon)];
  const mine = await red.create({ name: 'web' });
  for (const caller of [blue, none]) t.not((await caller.create({ name: 'web' })).id, mine.id);
  await t.rejects(as(daemon, 'red', { key: 'second' }).create({ name: 'web' }), { code: 'conflict' });
  const request = { name: 'web', ifExists: 'return' } as const;
  const other = as(daemon, 'red', { key: 'second' });
  t.match(await other.create(request), { id: mine.id, isExisting: true });
  const blind = as(daemon, 'red', { key: 'third', policy: { operations: ['create'] } });
  await t.rejects(blind.create(request), {
    code: 'forbidden',
    message: /operation view is not among create/,
  });
});

t.test('an existing sandbox is returned whatever the quota is', async (t) => {
  const daemon = await startMemoryDaemon(t, { quotaOf: () => ({ max_sandboxes: 1 }) });
  const red = as(daemon, 'red');
  const request = { name: 'web', ifExists: 'return' } as const;
  const { id } = await red.create(request);
  t.match(await red.create(request), { id, isExisting: true });
  await t.rejects(red.create({ name: 'other' }), { code: 'forbidden' });
});

t.test('every command and the service have the environment; the request overrides it', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  const env = { A: '1', PATH: '/mine', ['__proto__']: 'own' };
  const { id } = await manager.create({ env, service: { ...SERVICE, cmd: ['serve'], env: { A: '2' } } });
  await execText(manager, id, ['true']);
  await manager
    .get(id)
    .commands()
    .start({ cmd: ['true'], env: { A: '3' }, timeout_s: 0 })
    .catch(() => {});
  const { agent } = host.of(id);
  t.same(agent.execs.at(0)?.exec.env.toSorted(), ['A=1', 'PATH=/mine', '__proto__=own']);
  t.match(agent.services[0], { baseEnv: ['PATH=/mine', 'A=1', '__proto__=own'], env: ['A=2'] });
  const { envNames } = manager.get(id).info;
  t.same(envNames, ['A', 'PATH', '__proto__']);
  t.notMatch(JSON.stringify(manager.list()), /mine|own"/);
});

t.test('forks inherit labels and environment, not the name', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const { manager, host } = daemon;
  const env = { A: '1', ['__proto__']: 'own' };
  const { id } = await manager.create({ name: 'web', labels: { a: '1', b: '2' }, env, timeoutS: 600 });
  const saved = await manager.get(id).snapshot();
  const [plain, second] = await manager.fork(saved.id, 2);
  t.match(plain, { labels: { a: '1', b: '2' }, envNames: ['A', '__proto__'], name: undefined });
  t.match(second, { labels: { a: '1', b: '2' } });
  const options = { name: 'copy', labels: { b: null, c: '3' }, env: { A: 'new' } };
  const [named] = await manager.fork(saved.id, 1, undefined, undefined, options);
  t.match(named, { name: 'copy', labels: { a: '1', b: undefined, c: '3' } });
  await execText(manager, named?.id ?? '', ['true']);
  t.same(
    host
      .of(named?.id ?? '')
      .agent.execs.at(-1)
      ?.exec.env.toSorted(),
    ['A=new', 'PATH=/bin', '__proto__=own'],
  );
  await t.rejects(manager.fork(saved.id, 1, undefined, undefined, options), {
    code: 'conflict',
    message: `the name copy is that of sandbox ${named?.id}; use another name, or delete it`,
  });
  await t.rejects(manager.fork(saved.id, 2, undefined, undefined, { name: 'pair' }), {
    code: 'invalid_argument',
    message: 'name needs count 1, because names are unique, got 2',
  });
  const many = Object.fromEntries(Array.from({ length: 63 }, (_, at) => [`k${at}`, 'v']));
  await t.rejects(manager.fork(saved.id, 1, undefined, undefined, { labels: many }), {
    message: 'labels must be at most 64, those that exist included, got 65',
  });
  await t.rejects(manager.fork(saved.id, 1, undefined, undefined, { env: { B: 'x'.repeat(65_530) } }), {
    message: /^env must have at most 65536 characters/,
  });
});

t.test('the next daemon knows names and labels; a half-made sandbox has none', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({ name: 'web', labels: { a: '1' }, env: { A: '1' } });
  await first.store.table<object>('sandboxes').put('sbx_0000000000000', {
    ...first.manager.get(id).record,
    metadata: { name: 'half', labels: {}, env: [] },
    isReady: false,
    vmm: null,
  });
  await first.crash();
  const { manager } = await startMemoryDaemon(t, { home });
  t.match(manager.list(), [{ id, name: 'web', labels: { a: '1' }, envNames: ['A'] }]);
  await t.rejects(manager.create({ name: 'web' }), { code: 'conflict' });
  await manager.create({ name: 'half' });
});

t.test('a record of an earlier daemon has no name, no labels and no environment', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const { id } = await first.manager.create({ timeoutS: 600 });
  const { metadata: _, ...old } = first.manager.get(id).record;
  await first.store.table<object>('sandboxes').put(id, old);
  await first.crash();
  const { manager } = await startMemoryDaemon(t, { home });
  t.match(manager.as(OPERATOR).list(), [{ id, labels: {}, envNames: [], timeoutS: 600, state: 'running' }]);
  const [{ createdAt, expiresAt }] = manager.list() as [SandboxInfo];
  t.equal((expiresAt?.getTime() ?? 0) - createdAt.getTime(), 600_000);
});

t.test('names that JavaScript has a use for are names like any other, also over a restart', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const named = (value: string) => ({ ['__proto__']: value, constructor: value, toString: value });
  const options: CreateSandboxOptions = {
    name: 'web',
    labels: { constructor: 'a', toString: 'b' },
    env: named('own'),
    service: { ...SERVICE, cmd: ['serve'], env: named('of the service') },
  };
  const { id } = await first.manager.create(options);
  await first.manager.get(id).snapshot();
  await first.crash();
  const second = await startMemoryDaemon(t, { home });
  const { manager, host } = second;
  const [info] = manager.list() as [SandboxInfo];
  t.strictSame(info.envNames, ['__proto__', 'constructor', 'toString']);
  t.strictSame(Object.entries(info.labels), Object.entries(options.labels ?? {}));
  const { service } = manager.get(id).record.options;
  t.strictSame(Object.entries(service?.env ?? {}), Object.entries(options.service?.env ?? {}));
  await execText(manager, id, ['true']);
  t.strictSame(
    host
      .of(id)
      .agent.execs.at(-1)
      ?.exec.env.filter((each) => each.endsWith('=own'))
      .toSorted(),
    ['__proto__=own', 'constructor=own', 'toString=own'],
  );
  const again = await manager.create({ ...options, ifExists: 'return' });
  t.match(again, { id, isExisting: true }, 'the same parameters');
  const other = { ...options, ifExists: 'return', env: { ...options.env, ['__proto__']: 'other' } } as const;
  await t.rejects(manager.create(other), { code: 'conflict', message: /: env differs$/ });
  const [snapshot] = manager.as(OPERATOR).listSnapshots();
  const [fork] = await manager.fork(snapshot?.id ?? '', 1);
  t.strictSame(fork?.envNames, info.envNames);
});

t.test('a name of a URL leads to the sandbox without a tenant that has it now', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const { manager } = daemon;
  t.equal(manager.findNamed('web'), undefined);
  await as(daemon, 'acme').create({ name: 'web' });
  t.equal(manager.findNamed('web'), undefined, 'names of tenants may be alike');
  const first = await manager.create({ name: 'web' });
  for (let at = 0; at < 2; at++) t.equal(manager.findNamed('web'), first.id);
  await manager.as(OPERATOR).update(first.id, { name: 'old' });
  t.same([manager.findNamed('web'), manager.findNamed('old')], [undefined, first.id]);
  const second = await manager.create({ name: 'web' });
  t.equal(manager.findNamed('web'), second.id);
  await manager.delete(second.id);
  t.equal(manager.findNamed('web'), undefined);
});
