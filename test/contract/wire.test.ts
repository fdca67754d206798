// What goes over the Cloud Hypervisor engine's sockets and command lines, and that the stand-in is as strict as it claims.
import { mkdtempSync, rmSync } from 'node:fs';
import { connect as dial } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t, { type Test } from 'tap';
import { ApiError, isNoVm, parseReasons, VmmApi } from '../../host-agent/src/engines/cloud-hypervisor/api.ts';
import { hasReset, parseEvents } from '../../host-agent/src/engines/cloud-hypervisor/events.ts';
import { apiSocketOf, vmmArguments, vmmFiles } from '../../host-agent/src/engines/cloud-hypervisor/files.ts';
import { judgeVersion, landlockObstacle } from '../../host-agent/src/engines/cloud-hypervisor/probe.ts';
import { patchConfig } from '../../host-agent/src/engines/cloud-hypervisor/restore.ts';
import { buildVmConfig, landlockRules } from '../../host-agent/src/engines/cloud-hypervisor/vm-config.ts';
import type { VmSpec } from '../../host-agent/src/engines/engine.ts';
import { findProgram } from '../../host-agent/src/engines/host-facts.ts';
import { makeFakeHost } from '../support/fake-cloud-hypervisor/host.ts';
import { serveHttp } from '../support/fake-cloud-hypervisor/http-server.ts';
import { vmConfig } from '../support/fake-cloud-hypervisor/schema.ts';

const dir = mkdtempSync(join(tmpdir(), 'wire-'));
t.teardown(() => rmSync(dir, { recursive: true }));
t.setTimeout(60_000);

let sockets = 0;
async function serve(t: Test, handle: Parameters<typeof serveHttp>[0]): Promise<string> {
  const path = join(dir, `s${sockets++}`);
  const server = serveHttp(handle);
  await new Promise<void>((resolve) => server.listen(path, resolve));
  t.teardown(() => server.close());
  return path;
}

/** Everything that the server says to these bytes until it is quiet for a while. */
async function say(path: string, bytes: string, { halfClose = false } = {}): Promise<string> {
  const socket = dial(path);
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  socket.on('error', () => undefined);
  if (halfClose) socket.end(bytes);
  else socket.write(bytes);
  await new Promise((resolve) => setTimeout(resolve, 300));
  socket.destroy();
  return text;
}

t.test('errors in each of their forms', async (t) => {
  t.same(parseReasons('["Error from API","VM is not running"]'), ['Error from API', 'VM is not running']);
  t.same(parseReasons('{ "error": "Invalid header.\nAll previous unanswered requests will be dropped." }'), [
    'Invalid header. All previous unanswered requests will be dropped.',
  ]);
  t.same(parseReasons('{"error": "plain"}'), ['plain']);
  const traced = JSON.stringify([
    'Error from API',
    'no nested state (os error 22)\n\nStack backtrace:\n   0: <unknown>',
  ]);
  t.same(parseReasons(traced), ['Error from API', 'no nested state (os error 22)']);
  t.same(parseReasons(''), []);
  t.same(parseReasons('<html>'), ['<html>']);
  t.same(parseReasons('7'), ['7']);
  fc.assert(
    fc.property(fc.string(), (text) => parseReasons(text).every((reason) => typeof reason === 'string')),
  );
  t.ok(isNoVm(new ApiError('vm.info', 404, [])));
  t.ok(isNoVm(new ApiError('vm.info', 500, ['x', 'VM is not created'])), 'as older versions say it');
  t.notOk(isNoVm(new ApiError('vm.info', 500, ['VM is not running'])));
  t.match(new ApiError('vm.boot', 500, []).message, 'vm.boot: status 500 without a reason');
});

t.test('requests are as the server needs them', async (t) => {
  const seen: unknown[] = [];
  const path = await serve(t, async (request) => {
    seen.push(request);
    if (request.path.endsWith('vm.resume')) return { status: 200, body: '', isJson: false };
    if (request.path.endsWith('vm.info')) return { status: 200, body: '{"state":"Running"}' };
    return request.path.endsWith('vm.boot') ? { status: 500, body: '["a","b"]' } : { status: 204 };
  });
  const api = new VmmApi(path);
  const call = { timeoutMs: 10_000 };
  await api.put('vm.pause', undefined, call);
  await api.put('vm.resize-disk', { id: 'disk1', desired_size: 5 }, call);
  await api.put('vm.resume', undefined, call);
  t.same(await api.info(call), { state: 'Running' });
  await t.rejects(api.put('vm.boot', undefined, call), {
    status: 500,
    reasons: ['a', 'b'],
    message: 'vm.boot: a: b',
  });
  t.match(seen, [
    { method: 'PUT', path: '/api/v1/vm.pause', body: '' },
    { path: '/api/v1/vm.resize-disk', body: '{"id":"disk1","desired_size":5}' },
  ]);
  await Promise.all(Array.from({ length: 9 }, () => api.info(call)));
  await t.rejects(new VmmApi(join(dir, 'none')).ping(call), { code: 'ENOENT' });
});

t.test('a slow answer is given up, and the next call has a connection of its own', async (t) => {
  let answerNow: () => void = () => undefined;
  const slow = new Promise<void>((resolve) => {
    answerNow = resolve;
  });
  const path = await serve(t, async () => {
    await slow;
    return { status: 200, body: '{"version":"v53.0","pid":1}' };
  });
  const api = new VmmApi(path);
  await t.rejects(api.ping({ timeoutMs: 50 }), {
    message: /^the VMM did not answer vmm.ping within \d+ ms$/,
  });
  answerNow();
  const signal = AbortSignal.abort(new Error('enough'));
  await t.rejects(api.ping({ timeoutMs: 5000, signal }), { message: 'enough' });
  t.same(await api.ping({ timeoutMs: 10_000 }), { version: 'v53.0', pid: 1 }, 'served behind the slow one');
});

t.test('the stand-in’s server is as peculiar as the real one', async (t) => {
  const path = await serve(t, async ({ body }) => ({ status: body === '' ? 400 : 204, body: '' }));
  const head = 'PUT /api/v1/vm.create HTTP/1.1\r\nHost: x\r\n';
  t.match(await say(path, `${head}Content-Length: 2\r\n\r\n{}`), /^HTTP\/1\.1 204 \r\n(?!.*Content-Length)/s);
  const chunked = await say(path, `${head}Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`);
  t.equal(chunked.match(/HTTP\/1\.1 400/g)?.length, 2, 'an empty body, and then rubbish');
  t.equal(await say(path, `${head}Content-Length: 2\r\n\r\n{}`, { halfClose: true }), '');
  t.match(await say(path, `${head}Content-Length: 51201\r\n\r\n`), /400.*Payload too large.*\nAll previous/s);
  t.match(await say(path, `${head}X: ${'y'.repeat(1100)}\r\n\r\n`), /400 /);
  const many = Array.from({ length: 10 }, () => dial(path));
  await Promise.all(many.map((socket) => new Promise((resolve) => socket.once('connect', resolve))));
  t.match(await say(path, ''), /^HTTP\/1\.1 503\r\n.*Connection: close/s);
  for (const socket of many) socket.destroy();
});

t.test('the stand-in knows states, and every key', async (t) => {
  const host = makeFakeHost(t);
  const engine = host.engine();
  await engine.probe();
  const paths = host.makePaths('one');
  const vm = await engine.boot(host.bootOptions(paths));
  const api = new VmmApi(join(paths.socketDir, 'api.sock'));
  const call = { timeoutMs: 10_000 };
  const put = (endpoint: string, body?: unknown) => api.put(endpoint as 'vm.create', body as never, call);
  await t.rejects(put('vm.resume'), { status: 500, message: /Invalid transition/ });
  await t.rejects(put('vm.boot'), { message: /already created/ });
  await t.rejects(put('vm.create', {}), { message: /already created/ });
  await t.rejects(put('vm.snapshot', { destination_url: 'file:///tmp' }), { message: /while VM is running/ });
  await t.rejects(put('vm.pause?x=1'), { status: 404, message: /Not Found/ });
  await t.rejects(put('vm.pause', {}), { status: 400, message: /Bad Request/ });
  await put('vm.add-disk', { id: 'disk7', path: '/dev/null', image_type: 'Raw' });
  await put('vm.pause');
  await t.rejects(put('vm.pause'), { status: 500, message: /Invalid transition/ });
  await t.rejects(put('vm.snapshot', { destination_url: 'file:///no/such' }), { message: /os error 2\)$/ });
  await t.rejects(put('vm.snapshot', { destination: 'file:///tmp' }), {
    status: 400,
    message: /destination_url/,
  });
  await put('vm.shutdown');
  t.match(await api.info(call), { state: 'Created' });
  await put('vm.delete');
  await put('vm.delete');
  await t.rejects(api.info(call), { status: 404, message: /not created/ });
  await t.rejects(put('vm.boot'), { status: 404, message: /not created/ });
  host.set({ version: '52' });
  await t.rejects(api.info(call), { status: 500, message: /VM is not created/ });
  await put('vmm.shutdown');
  t.match(await vm.exited, { exitCode: 0 });

  const config = buildVmConfig({
    spec: host.spec(paths),
    files: vmmFiles(paths),
    hasLandlock: true,
    isDirect: false,
  });
  vmConfig(config, '$');
  t.match(config.payload.cmdline, / reboot=k .* sandbox\.disk-errors$/, 'its layer is mounted for errors');
  const misspelt = { ...config, cpu: config.cpus };
  t.throws(() => vmConfig(misspelt, '$'), { message: /unknown field `cpu`/ });
  const shouted = { ...config, disks: [{ ...config.disks[0], image_type: 'raw' }] };
  t.throws(() => vmConfig(shouted, '$'), { message: /unknown variant `raw`/ });
  t.same(config.landlock_rules, [
    { path: paths.dir, access: 'rw' },
    { path: paths.socketDir, access: 'rw' },
  ]);
});

t.test('the network device is in a VM’s configuration, and a copy’s has its own tap', async (t) => {
  const host = makeFakeHost(t);
  const paths = host.makePaths('one');
  const [files, plain] = [vmmFiles(paths), host.spec(paths)];
  const net = { namespace: '/n/a', mac: '02:00:00:00:00:02', tap: 'tap0' };
  const configOf = (spec: VmSpec) => {
    const config = buildVmConfig({ spec, files, hasLandlock: false, isDirect: false });
    vmConfig(config, '$');
    return JSON.parse(JSON.stringify(config)) as Record<string, unknown>;
  };
  t.notOk('net' in configOf(plain));
  const spec = { ...plain, net };
  const config = configOf(spec);
  const device = { id: 'net0', tap: 'tap0', mac: net.mac, num_queues: 2, queue_size: 256 };
  t.same(config.net, [device]);
  t.same({ ...config, net: undefined }, { ...configOf(plain), net: undefined }, 'nothing else is another');
  const tun = { path: '/dev/net/tun', access: 'rw' };
  t.notMatch(landlockRules(files, plain), [tun]);
  t.match(landlockRules(files, spec).at(-1), tun);
  const copy = (to: VmSpec, saved: unknown) => {
    const patched = { ...structuredClone(config), net: structuredClone(saved) };
    patchConfig(patched, { spec: to, files, hasLandlock: false, isDirect: false });
    return patched.net;
  };
  const saved = [{ ...device, host_mac: '0a:00:00:00:00:01' }];
  const other = { namespace: '/n/b', mac: '02:ff:ff:ff:ff:ff', tap: 'tap2' };
  t.same(copy({ ...spec, net: other }, saved), [{ ...device, tap: 'tap2' }]);
  t.throws(() => copy(plain, saved), { message: /it has a network device/ });
  t.throws(() => copy(spec, [{ ...device, id: 'x' }]), { message: /it has a network device "x"/ });
  t.equal(copy(plain, null), null);
  t.equal(copy(spec, null), null, 'it is added later');
});

t.test(
  'writable disks are used past the host’s page cache where that is asked for, those of copies, too',
  async (t) => {
    const host = makeFakeHost(t);
    const paths = host.makePaths('one');
    const [files, spec] = [vmmFiles(paths), host.spec(paths)];
    const direct = (config: Record<string, unknown>) =>
      (config.disks as { direct: boolean }[]).map(({ direct }) => direct);
    for (const isDirect of [true, false]) {
      const config = buildVmConfig({ spec, files, hasLandlock: false, isDirect });
      vmConfig(config, '$');
      t.same(direct(config), [false, isDirect]);
      const patched = JSON.parse(JSON.stringify(config)) as Record<string, unknown>;
      patchConfig(patched, { spec, files, hasLandlock: false, isDirect: !isDirect });
      t.same(direct(patched), [false, !isDirect]);
    }
  },
);

t.test('the command line names the socket, whatever is in its path', async (t) => {
  const paths = { dir: '/s/x', socketDir: '/r/x' };
  t.same(vmmArguments(vmmFiles(paths)), [
    '--api-socket',
    'path=/r/x/api.sock',
    '--event-monitor',
    'path=/s/x/events.json',
    '--seccomp',
    'true',
  ]);
  fc.assert(
    fc.property(
      fc.string().filter((name) => !name.includes('\0')),
      (name) => {
        const files = vmmFiles({ dir: '/s', socketDir: `/r/${name.replaceAll('/', '')}x` });
        return apiSocketOf(['cloud-hypervisor', ...vmmArguments(files)]) === files.controlSocketPath;
      },
    ),
  );
  t.equal(apiSocketOf(['/x/start/cloud-hypervisor', ...vmmArguments(vmmFiles(paths))]), '/r/x/api.sock');
  t.equal(apiSocketOf(['bash', ...vmmArguments(vmmFiles(paths))]), undefined);
  t.equal(apiSocketOf(['cloud-hypervisor', '--api-socket', 'fd=3']), undefined);
  t.equal(apiSocketOf([]), undefined);
});

t.test('events come over several lines and may be cut', async (t) => {
  const one = (event: string) =>
    `${JSON.stringify({ timestamp: { secs: 1, nanos: 2 }, source: 'vm', event, properties: null }, null, 2)}\n\n`;
  const text = one('booted') + one('rebooting');
  t.same(parseEvents(text), [
    { source: 'vm', event: 'booted' },
    { source: 'vm', event: 'rebooting' },
  ]);
  t.ok(hasReset(parseEvents(text)));
  for (let cut = 0; cut < text.length; cut++) parseEvents(text.slice(0, cut));
  t.equal(parseEvents(text.slice(0, -20)).length, 1);
  t.same(parseEvents(''), []);
});

t.test('versions and kernels that will do', async (t) => {
  t.equal(findProgram('sh', '/nowhere:/bin'), '/bin/sh');
  t.equal(findProgram('sh', '/nowhere'), 'sh');
  t.equal(findProgram('./sh', '/bin'), './sh');
  t.match(judgeVersion('p', 'cloud-hypervisor v53.0\nMigration Protocol Versions: 0\n'), { version: '53.0' });
  t.match(judgeVersion('p', 'cloud-hypervisor v54.1-12-gabc'), { isUsable: true, version: '54.1-12-gabc' });
  t.match(judgeVersion('p', 'cloud-hypervisor v52.9'), { isUsable: false, reason: /at least 53\.0/ });
  t.match(judgeVersion('p', 'hello'), { isUsable: false, reason: /tells no version/ });
  const modules = (): string => 'lockdown,capability,landlock,yama\n';
  t.equal(landlockObstacle('6.12.3-amd64', modules), undefined);
  t.match(landlockObstacle('6.1.0-56-cloud-amd64', modules), /older than 6\.2/);
  t.match(
    landlockObstacle('6.12.3', () => ''),
    /not among the security modules/,
  );
});
