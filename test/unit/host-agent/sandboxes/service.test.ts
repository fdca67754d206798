// The service of an image, overrides of a request, and when the image is looked up.

import { type CreatedService, DEFAULT_LOG_BUFFER_BYTES, type ServiceSpec } from '@sandboxd/api';
import t from 'tap';
import { toServiceSpec } from '../../../../host-agent/src/images/image-service.ts';
import type { RootfsRequest } from '../../../../host-agent/src/images/rootfs-source.ts';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { createReaderLimit } from '../../../../host-agent/src/sandboxes/commands.ts';
import { resolveRootfs, validateCreate } from '../../../../host-agent/src/sandboxes/resolve-create.ts';
import { createSandboxService, resolveService } from '../../../../host-agent/src/sandboxes/service.ts';
import type { CreateSandboxOptions } from '../../../../host-agent/src/sandboxes/types.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { NO_PRESETS } from '../../../support/no-presets.ts';

const CONFIG = {
  entrypoint: ['/entry'],
  cmd: ['serve', '--all'],
  env: { A: '1', PATH: '/opt/bin' },
  user: 'web',
  workdir: 'srv',
  stopSignal: 'SIGQUIT',
  exposedPorts: [],
  labels: {},
};
const EMPTY = { ...CONFIG, entrypoint: [], cmd: [], user: '', workdir: '', stopSignal: '' };
/** A request’s service, with the defaults of its schema. */
const requests = (change: Partial<CreatedService> = {}): CreatedService => ({
  env: {},
  env_exact: false,
  log_buffer_bytes: DEFAULT_LOG_BUFFER_BYTES,
  restart: { policy: 'never', max_retries: 0 },
  stop_grace_s: 10,
  stop_signal: 'SIGTERM',
  ...change,
});

t.test('entrypoint and cmd, with all fields of the image', async (t) => {
  t.match(resolveService(undefined, toServiceSpec(CONFIG)), {
    cmd: ['/entry', 'serve', '--all'],
    env: { A: '1', PATH: '/opt/bin' },
    env_exact: true,
    user: 'web',
    cwd: '/srv',
    stop_signal: 'SIGQUIT',
  });
});

t.test('an image without a command has no service, and a request for one needs a command', async (t) => {
  const image = toServiceSpec(EMPTY);
  t.equal(resolveService(undefined, image), undefined);
  t.throws(() => resolveService(requests(), image), {
    code: 'invalid_argument',
    message: /service.cmd is missing/,
  });
  const spec = resolveService(requests({ cmd: ['/x'] }), image);
  t.match(spec, { cmd: ['/x'], env_exact: true });
  t.notOk(spec && ('user' in spec || 'cwd' in spec));
});

t.test('a request replaces the command and the other fields it names', async (t) => {
  const image = toServiceSpec(CONFIG);
  t.match(resolveService(requests({ cmd: ['/other'] }), image), {
    cmd: ['/other'],
    user: 'web',
    cwd: '/srv',
    stop_signal: 'SIGQUIT',
  });
  t.match(
    resolveService(
      requests({ env: { A: '2', B: '3' }, user: '0', cwd: '/', stop_signal: 'SIGINT', stop_grace_s: 3 }),
      image,
    ),
    {
      cmd: ['/entry', 'serve', '--all'],
      env: { A: '2', B: '3', PATH: '/opt/bin' },
      user: '0',
      cwd: '/',
      stop_signal: 'SIGINT',
      stop_grace_s: 3,
    },
  );
});

t.test('without an image the service is that of the request', async (t) => {
  t.equal(resolveService(undefined, undefined), undefined);
  const spec = requests({ cmd: ['/x'] });
  t.same(resolveService(spec, undefined), spec);
});

t.test('stop signals in every form of Docker, and SIGTERM for others', async (t) => {
  const FORMS: Readonly<Record<string, ServiceSpec['stop_signal']>> = {
    ...{ SIGINT: 'SIGINT', INT: 'SIGINT', int: 'SIGINT', sigQuit: 'SIGQUIT' },
    ...{ 3: 'SIGQUIT', 15: 'SIGTERM', '015': 'SIGTERM', 31: 'SIGSYS', 34: 'SIGRTMIN', 37: 'SIGRTMIN+3' },
    ...{ 'SIGRTMIN+3': 'SIGRTMIN+3', 'RTMIN+15': 'SIGRTMIN+15', rtmin: 'SIGRTMIN' },
    ...{ RTMAX: 'SIGRTMIN+30', 'SIGRTMAX-14': 'SIGRTMIN+16', 64: 'SIGRTMIN+30' },
    ...{ IOT: 'SIGABRT', CLD: 'SIGCHLD', POLL: 'SIGIO', SIGUNUSED: 'SIGSYS' },
    ...{ '': 'SIGTERM', 0: 'SIGTERM', '-9': 'SIGTERM', 32: 'SIGTERM', 65: 'SIGTERM', x: 'SIGTERM' },
    ...{ 'SIGRTMIN+31': 'SIGTERM', 'RTMAX-31': 'SIGTERM', ' TERM': 'SIGTERM', '9 ': 'SIGTERM' },
  };
  for (const [stopSignal, signal] of Object.entries(FORMS))
    t.equal(toServiceSpec({ ...CONFIG, stopSignal }).stop_signal, signal, stopSignal);
});

t.test('an entrypoint of one empty text counts as absent, and a command without a program too', async (t) => {
  const cmd = (entrypoint: string[], cmd: string[]) => toServiceSpec({ ...CONFIG, entrypoint, cmd }).cmd;
  t.same(cmd([''], ['sh', '-c', 'x']), ['sh', '-c', 'x']);
  t.same(cmd([''], []), []);
  t.same(cmd([], ['']), []);
  t.same(cmd([''], ['']), []);
  t.same(cmd(['', 'x'], ['y']), []);
  t.same(cmd(['/x'], ['']), ['/x', ''], 'an argument may be empty');
});

t.test('a user in every form of Docker', async (t) => {
  const FORMS: Readonly<Record<string, string | undefined>> = {
    ...{
      app: 'app',
      1000: '1000',
      'app:staff': 'app:staff',
      '1000:50': '1000:50',
      '1000:staff': '1000:staff',
    },
    ...{ 'app:': 'app', ':50': '0:50', ':staff': '0:staff', ':': '0', 'a:b:c': 'a:b', '': undefined },
    ...{ ' app': ' app', ' ': ' ' },
  };
  for (const [user, want] of Object.entries(FORMS)) {
    const spec = toServiceSpec({ ...CONFIG, user });
    t.equal(spec.user, want, JSON.stringify(user));
  }
});

const { signal } = new AbortController();

/** The dependencies of a resolve, which record lookups. */
function makeDeps(service?: ServiceSpec, toBeBaked = '') {
  const found: string[] = [];
  const find = async ({ kind, name, isPath }: RootfsRequest, pull: string) => {
    found.push([kind, name, ...(isPath ? ['path'] : []), pull].join(' '));
    const digest = name === toBeBaked && pull === 'never' ? '' : `of ${name}`;
    const rootfs = { kind, name, digest, rootfsPath: `/${name}`, env: {}, workdir: '/' };
    return { rootfs, ...(service && { service }) };
  };
  const defaults = { profile: 'base', vcpus: 1, memoryMib: 512, diskBytes: 2 ** 30 };
  const limits = { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, sandboxes: 9, fork: 9 };
  return { found, around: { roots: { find }, defaults, limits, presets: NO_PRESETS } };
}

t.test('a profile is found before the request is admitted, and slow lookups come after', async (t) => {
  const { found, around } = makeDeps(undefined, 'unbaked');
  const plain = await validateCreate({}, around, signal);
  t.match(plain, { rootfs: { name: 'base', digest: 'of base' } });
  t.same(found, ['profile base never']);
  t.equal(await resolveRootfs(plain, {}, around, { signal }, OPERATOR), plain);
  t.equal(found.length, 1, 'what is known is not looked for again');
  const unbaked: CreateSandboxOptions = { rootfs: { kind: 'profile', name: 'unbaked' }, pull: 'always' };
  const early = await validateCreate(unbaked, around, signal);
  t.equal(early.rootfs.digest, '');
  t.match(await resolveRootfs(early, unbaked, around, { signal }, OPERATOR), {
    rootfs: { digest: 'of unbaked' },
  });
  t.same(found.slice(1), ['profile unbaked never', 'profile unbaked missing']);
});

t.test('an image is pulled as requested, after the client’s rights were checked', async (t) => {
  const service = toServiceSpec(CONFIG);
  const { found, around } = makeDeps(service);
  const image = (changes = {}): CreateSandboxOptions => ({
    rootfs: { kind: 'image', name: 'web' },
    ...changes,
  });
  const early = await validateCreate(image({ vcpus: 2 }), around, signal);
  t.match(early, { rootfs: { kind: 'image', name: 'web', digest: '', rootfsPath: '' }, vcpus: 2 });
  t.same(found, []);
  const whole = await resolveRootfs(early, image(), around, { signal }, OPERATOR);
  t.match(whole, { rootfs: { digest: 'of web', rootfsPath: '/web' }, vcpus: 2, service });
  const path = { kind: 'image', name: '/a.tar', isPath: true } as const;
  const ofPath = await validateCreate({ rootfs: path }, around, signal);
  await resolveRootfs(ofPath, { rootfs: path, pull: 'always' }, around, { signal }, OPERATOR);
  t.same(found, ['image web missing', 'image /a.tar path always']);
  const caller = { kind: 'key', id: 'i', key: 'k', policy: { operations: [] } } as const;
  const forbidden = { code: 'forbidden', message: /operation exec/ };
  await t.rejects(resolveRootfs(early, image(), around, { signal }, caller), forbidden);
  const silent = makeDeps(toServiceSpec(EMPTY)).around;
  const without = await resolveRootfs(early, image(), silent, { signal }, caller);
  t.notOk('service' in without, 'a client without exec may use an image without a service');
  const asking = image({ service: requests({ cmd: ['/x'] }) });
  const resolved = await resolveRootfs(
    await validateCreate(asking, silent, signal),
    asking,
    silent,
    { signal },
    OPERATOR,
  );
  t.match(resolved.service, { cmd: ['/x'], env_exact: true });
});

t.test('the service gets each verb with its arguments', async (t) => {
  const calls: unknown[][] = [];
  const call = (...all: unknown[]) => calls.push(all);
  const guest = { service: { control: call, configure: call, output: call } } as never;
  const service = createSandboxService(guest, { A: '1' }, createReaderLimit());
  const spec = requests({ cmd: ['/x'] }) as ServiceSpec;
  const events = {} as Parameters<typeof service.output>[1];
  const request = {} as Parameters<typeof service.output>[0];
  service.status(signal);
  service.configure(spec, signal);
  service.start(signal);
  service.stop(7, signal);
  service.restart(signal);
  service.output(request, events);
  t.match(calls, [
    ['status', undefined, signal],
    [spec, { A: '1' }, signal],
    ['start', undefined, signal],
    ['stop', 7, signal],
    ['restart', undefined, signal],
    [request, { end: Function, failed: Function }],
  ]);
});

t.test('a service runs only in its own sandbox, and not in a deleted one', async (t) => {
  const { manager, host } = await startMemoryDaemon(t);
  const { id } = await manager.create({ service: requests({ cmd: ['/x'] }) });
  t.same(host.of(id).agent.state.service, { cmd: ['/x'] });
  const handle = manager.as(OPERATOR).get(id);
  const awake = await handle.awake();
  t.match(await awake.service().status(), { state: 'running' });
  await t.rejects(
    awake.files().pullFile('/x', 1),
    { message: /this agent is a test/ },
    'files are read from the guest',
  );
  t.throws(() => handle.stats(), { code: 'internal', message: /is about to end; look again/ });
  host.of(id).end('the guest panicked');
  const dead = { code: 'internal', message: /is dead: the guest panicked/ };
  for (const use of ['service', 'files'] as const) t.throws(() => awake[use](), dead, use);
  t.throws(() => handle.stats(), dead);
  const { id: other } = await manager.create({});
  t.equal(host.of(other).agent.state.service, null);
  const gone = manager.as(OPERATOR).get(other);
  const wasAwake = await gone.awake();
  await manager.delete(other);
  for (const use of ['service', 'files'] as const)
    t.throws(() => wasAwake[use](), { code: 'not_found' }, use);
  t.throws(() => gone.stats(), { code: 'not_found' });
  await t.rejects(async () => gone.snapshot(), { code: 'not_found' });
});
