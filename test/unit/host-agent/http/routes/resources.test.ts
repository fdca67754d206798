import t from 'tap';
import type { AuditEntry } from '../../../../../host-agent/src/audit/index.ts';
import type { HttpServices } from '../../../../../host-agent/src/http/services.ts';
import type { Images } from '../../../../../host-agent/src/images/index.ts';
import type { KeyHolder } from '../../../../../host-agent/src/keys/index.ts';
import type { SandboxService } from '../../../../../host-agent/src/sandboxes/service.ts';
import { outflow } from '../../../../http/fake-sandboxes.ts';
import { ask, ENGINE, HOST_REPORT, makeApp, UNKNOWN_ID } from '../../../../http/support.ts';
import { authenticatorOf, KEY, CALLER as TENANT } from '../callers.ts';

t.test('a create passes on its body, and nothing else', async (t) => {
  const audited: AuditEntry[] = [];
  const { app, sandboxes, lines } = makeApp({
    images: {} as Images,
    audit: { write: (entry) => void audited.push(entry) },
  });
  t.equal((await ask(app, 'POST', '/sandboxes')).status, 201);
  t.same(sandboxes.created.pop(), {
    vcpus: undefined,
    memoryMib: undefined,
    diskBytes: undefined,
    timeoutS: 0,
    bootArgs: '',
    labels: {},
    env: {},
    ifExists: 'error',
    service: undefined,
  });
  const full = {
    vcpus: 2,
    memory_mib: 256,
    disk_bytes: 2 ** 30,
    timeout_s: 3,
    idle_timeout_s: 4,
    idle_action: 'snapshot',
    boot_args: 'quiet',
    profile: 'base',
    network: { enabled: true, allowlist: ['example.org'] },
    publish: [
      { guest_port: 80, host_port: 8080, host_ip: '127.0.0.1' },
      { guest_port: 81, host_port: 82 },
    ],
  };
  const made = await ask(app, 'POST', '/sandboxes', JSON.stringify(full));
  t.equal(made.status, 201, made.error);
  t.same(sandboxes.created.pop(), {
    rootfs: { kind: 'profile', name: 'base' },
    vcpus: 2,
    memoryMib: 256,
    diskBytes: 2 ** 30,
    timeoutS: 3,
    idle: { timeoutS: 4, action: 'snapshot' },
    bootArgs: 'quiet',
    labels: {},
    env: {},
    ifExists: 'error',
    network: { allowlist: ['example.org'] },
    publish: [
      { hostIp: '127.0.0.1', hostPort: 8080, guestPort: 80 },
      { hostPort: 82, guestPort: 81 },
    ],
    service: undefined,
  });
  const { id } = made.body as { id: string };
  t.match(audited.at(-1), { made: [id] });
  t.match(lines.at(-1), { status: 201 });
  for (const [body, expected] of [
    [{ image: { oci: 'nginx' } }, { rootfs: { kind: 'image', name: 'nginx' } }],
    [
      { image: { oci: 'nginx' }, pull: 'missing' },
      { rootfs: { kind: 'image', name: 'nginx' }, pull: 'missing' },
    ],
    [{ image: { path: '/a.tar' } }, { rootfs: { kind: 'image', name: '/a.tar', isPath: true } }],
    [{ network: { enabled: false } }, {}],
  ] as const) {
    const answer = await ask(app, 'POST', '/sandboxes', JSON.stringify(body));
    t.equal(answer.status, 201, answer.error);
    const options = sandboxes.created.pop() ?? {};
    t.match(options, expected);
    if (!('image' in body)) t.notOk('rootfs' in options || 'network' in options);
    if ('path' in (body.image ?? {})) t.notOk('pull' in options);
  }
  t.equal((await ask(makeApp().app, 'POST', '/sandboxes', '{"image":{"oci":"x"}}')).status, 501);
});

t.test('the trail has the requested resources, and the first fifty hosts', async (t) => {
  const audited: AuditEntry[] = [];
  const { app, sandboxes } = makeApp({ audit: { write: (entry) => void audited.push(entry) } });
  const { as } = sandboxes;
  let wanted: object = { vcpus: 2, rootfs: { kind: 'profile', name: 'base' } };
  sandboxes.as = (principal, note?: (effective: never) => void) => {
    note?.(wanted as never);
    return as.call(sandboxes, principal);
  };
  await ask(app, 'POST', '/sandboxes');
  t.same(Reflect.get(audited.at(-1) ?? {}, 'effective'), { vcpus: 2, profile: 'base' });
  const hosts = Array.from({ length: 51 }, (_, at) => `h${at}`);
  wanted = { rootfs: { kind: 'image', name: 'nginx' }, allowlist: hosts };
  await ask(app, 'POST', '/sandboxes');
  t.same(Reflect.get(audited.at(-1) ?? {}, 'effective'), {
    image: 'nginx',
    hosts: 51,
    allowlist: hosts.slice(0, 50),
  });
});

t.test('a sandbox as it is shown', async (t) => {
  const { app, sandboxes } = makeApp();
  const info = sandboxes.add();
  const plain = {
    id: info.id,
    created_at: '2024-05-06T07:08:09.010Z',
    labels: {},
    state: 'running',
    last_used_at: '2024-05-06T07:08:09.010Z',
    timeout_s: 0,
    idle_timeout_s: 0,
    idle_action: 'delete',
    timeout_action: 'delete',
    auto_resume: true,
    disk_bytes: 2 ** 32,
    memory_mib: 512,
    vcpus: 1,
    profile: 'base',
    workdir: info.workdir,
  };
  t.same((await ask(app, 'GET', `/sandboxes/${info.id}`)).body, plain);
  Object.assign(info, {
    name: 'web',
    labels: { team: 'a' },
    envNames: ['SECRET'],
    state: 'failed',
    reason: { code: 'vm_exited', message: 'it ended' },
    expiresAt: new Date('2024-05-06T08:08:09.010Z'),
    timeoutS: 3600,
    idle: { timeoutS: 60, action: 'snapshot' },
    rootfs: { kind: 'image', name: 'nginx', imageDigest: 'sha256:ab' },
    sourceSnapshotId: 'snap_0123456789abc',
    network: { allowlist: ['a'], gateway: '10.0.0.1', guestIp: '10.0.0.2' },
    published: [
      { hostIp: '127.0.0.1', hostPort: 1, guestPort: 2 },
      { hostPort: 3, guestPort: 4 },
    ],
  });
  const { profile: _, ...rest } = plain;
  const listed = {
    ...rest,
    name: 'web',
    labels: { team: 'a' },
    state: 'failed',
    reason: { code: 'vm_exited', message: 'it ended' },
    expires_at: '2024-05-06T08:08:09.010Z',
    timeout_s: 3600,
    idle_timeout_s: 60,
    idle_action: 'snapshot',
    image: { reference: 'nginx', digest: 'sha256:ab' },
    source_snapshot_id: 'snap_0123456789abc',
    network: { enabled: true, allowlist: ['a'], gateway: '10.0.0.1', guest_ip: '10.0.0.2' },
    published: [
      { host_ip: '127.0.0.1', host_port: 1, guest_port: 2, protocol: 'tcp' },
      { host_port: 3, guest_port: 4, protocol: 'tcp' },
    ],
  };
  t.same((await ask(app, 'GET', '/sandboxes')).body, { sandboxes: [listed] });
  t.same((await ask(app, 'GET', `/sandboxes/${info.id}`)).body, { ...listed, env_names: ['SECRET'] });
});

t.test('stats: once, as lines, as messages, or only what kind they are', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.stats = { ...sandboxes.stats, cpuMs: 3 };
  const once = (await ask(app, 'GET', `/sandboxes/${id}/stats`)).body as Record<string, unknown>;
  t.match(once, {
    id,
    vcpus: 1,
    cpu_us: 3000,
    memory_limit_bytes: 2 ** 29,
    resident_bytes: 2,
    private_bytes: 1,
    disk_limit_bytes: 2 ** 32,
  });
  t.notOk('network' in once);
  sandboxes.stats = {
    ...sandboxes.stats,
    network: { receivedBytes: 1, receivedPackets: 2, sentBytes: 3, sentPackets: 4 },
  };
  for (const [accept, type, form] of [
    [
      'APPLICATION/X-NDJSON',
      'application/x-ndjson',
      /^\{"id".*"network":\{"received_bytes":1,"received_packets":2,"sent_bytes":3,"sent_packets":4\}.*\}\n$/,
    ],
    ['text/html, text/event-stream', 'text/event-stream', /^data: \{"id".*\}\n\n$/],
  ] as const) {
    const headers = { accept };
    const response = await app.request(`/sandboxes/${id}/stats`, { headers });
    t.match(
      [response.headers.get('content-type'), response.headers.get('cache-control')],
      [type, 'no-store'],
    );
    const reader = response.body!.getReader();
    t.match(Buffer.from((await reader.read()).value ?? []).toString(), form);
    await reader.cancel();
    const head = await app.request(`/sandboxes/${id}/stats`, { method: 'HEAD', headers });
    t.match([head.status, head.headers.get('content-type'), head.body], [200, type, null]);
  }
  t.equal((await ask(app, 'GET', `/sandboxes/${UNKNOWN_ID}/stats`)).status, 404);
});

t.test('a pull has its length if known, and HEAD reads nothing', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const path = `/sandboxes/${id}/files?path=/a`;
  let cancels = 0;
  const headersOf = async (known: object, method = 'GET', query = '') => {
    sandboxes.onPull = async () => ({
      body: { ...outflow('12345'), cancel: () => void cancels++ },
      ...known,
    });
    const { headers } = await app.request(`${path}${query}`, { method });
    return ['content-type', 'x-file-size', 'content-length', 'x-truncated'].map((name) => headers.get(name));
  };
  const octets = 'application/octet-stream';
  t.same(await headersOf({}), [octets, null, null, null]);
  t.same(await headersOf({ sizeBytes: 5, contentBytes: 5 }), [octets, '5', '5', null]);
  t.same(await headersOf({ sizeBytes: 9, contentBytes: 5 }), [octets, '9', '5', 'true']);
  t.same(await headersOf({ sizeBytes: 9 }), [octets, '9', null, null]);
  t.same(await headersOf({ contentBytes: 5 }), [octets, null, '5', null]);
  t.same(await headersOf({}, 'GET', '&format=tar'), ['application/x-tar', null, null, null]);
  t.equal(cancels, 0);
  t.same(await headersOf({ sizeBytes: 5, contentBytes: 5 }, 'HEAD'), [octets, '5', '5', null]);
  t.equal(cancels, 1);
});

t.test('an upload of nothing is an archive of nothing, and only that', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const got: number[] = [];
  sandboxes.onPush = async (_, read) => {
    for (let part = await read(); part !== undefined; part = await read()) got.push(part.length);
    return { files: 1, bytes: 2 };
  };
  const push = (body?: string) => ask(app, 'POST', `/sandboxes/${id}/files?path=/a`, body);
  t.match(await push(), { body: { files: 1, bytes: 2 } });
  await push('abc');
  t.same(got, [1024, 3]);
});

t.test('profiles, those that are yet to be baked, and the engine', async (t) => {
  const { app } = makeApp({
    listUnbakedProfiles: async () => [{ name: 'alpine', isDefault: false }],
    engine: () => ({ state: 'chosen', name: 'x', accelerator: 'kvm', version: '1', reason: 'r', tried: [] }),
  });
  t.same((await ask(app, 'GET', '/profiles')).body, {
    profiles: ['alpine', 'base'],
    default: 'base',
    details: {
      base: {
        digest: 'ab12',
        size_bytes: 1024,
        workdir: '/',
        env: { LANG: 'C.UTF-8' },
        packages: { bash: '5.2' },
      },
    },
    engine: { state: 'chosen', name: 'x', accelerator: 'kvm', version: '1', reason: 'r', tried: [] },
  });
  t.match((await ask(makeApp({ listProfiles: async () => [] }).app, 'GET', '/profiles')).body, {
    profiles: [],
    details: {},
    engine: ENGINE,
  });
});

t.test('the checks of the host', async (t) => {
  t.same((await ask(makeApp().app, 'GET', '/host/checks')).body, HOST_REPORT);
});

t.test('whoami says whether anything narrows the caller', async (t) => {
  const who = async (principal?: KeyHolder) => {
    const { app } = makeApp(principal === undefined ? {} : { authenticator: authenticatorOf(principal) });
    return (await app.request('/whoami', KEY)).json();
  };
  const policy = { operations: ['read' as const] };
  t.same(await who(), { scoped: false });
  t.match(await who({ kind: 'key', id: 'k', key: 'k' }), { scoped: false, key: { name: 'k' } });
  t.match(await who(TENANT), { scoped: true, policy: {}, tenant: TENANT.tenant });
  t.match(await who({ kind: 'key', id: 'k', key: 'k', policy }), { scoped: true, policy });
});

t.test('the durable log is read as it was asked for', async (t) => {
  const asked: unknown[] = [];
  let page: { nextOffset: number; records: never[] } | undefined = { nextOffset: 9, records: [] };
  const logs: HttpServices['logs'] = {
    read: async (...args) => {
      asked.push(args);
      return page;
    },
  };
  const { app, sandboxes } = makeApp({ logs });
  const { id } = sandboxes.add();
  t.same((await ask(app, 'GET', `/sandboxes/${id}/logs`)).body, { next_offset: 9, records: [] });
  await ask(app, 'GET', `/sandboxes/${id}/logs?since=0&source=exec`);
  t.same(asked, [
    [id, {}],
    [id, { since: 0, source: 'exec' }],
  ]);
  page = undefined;
  t.same((await ask(app, 'GET', `/sandboxes/${id}/logs`)).body, { next_offset: 0, records: [] });
  t.equal((await ask(app, 'GET', `/sandboxes/${UNKNOWN_ID}/logs`)).status, 404);
  const theirs = makeApp({ logs, authenticator: authenticatorOf(TENANT) });
  await theirs.app.request(`/sandboxes/${id}/logs`, KEY);
  t.same(asked.at(-1), [id, { tenant: 'acme' }]);
});

t.test('services get the parameters of the request', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const calls: unknown[][] = [];
  const call =
    (name: string) =>
    async (...args: unknown[]) => {
      calls.push([name, ...args.filter((arg) => !(arg instanceof AbortSignal))]);
      return { state: 'running' };
    };
  sandboxes.serviceCalls = {
    stop: call('stop'),
    restart: call('restart'),
  } as unknown as Partial<SandboxService>;
  await ask(app, 'POST', `/sandboxes/${id}/service/stop`, '{"grace_s":1.5}');
  await ask(app, 'POST', `/sandboxes/${id}/service/stop`, '{"grace_s":2}');
  await ask(app, 'POST', `/sandboxes/${id}/service/stop`);
  await ask(app, 'POST', `/sandboxes/${id}/service/restart`);
  t.same(calls.slice(-3), [['stop', 2000], ['stop', undefined], ['restart']]);
});
