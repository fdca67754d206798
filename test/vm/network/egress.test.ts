// Rules by port and policies that change, with real guests, name servers and web servers. The numbers are those of the
// attack list (docs/egress-attacks.md).
import '../../support/network/own-network.ts';
import t from 'tap';
import type { Api, SandboxJson } from '../../support/api.ts';
import { makeDirectories, removeDirectories, spawnDaemon, startDaemon } from '../../support/daemon.ts';
import { openInternet } from '../../support/internet/index.ts';
import { makeCertificate } from '../../support/network/certificate.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const internet = await openInternet(t);
const { web, web2 } = internet.machines;
await internet.names.serve([
  `host-record=web.test,${web.address},60`,
  `host-record=other.test,${web2.address},60`,
]);

/** What a guest gets of each place, by a program of its own: open, or the error. */
const CONNECT = `
import json, socket, sys
def ask(place):
  name, port = place.rsplit(':', 1)
  try:
    with socket.create_connection((name, int(port)), 20) as s: return 'open'
  except OSError as error: return type(error).__name__
print(json.dumps([ask(place) for place in sys.argv[1:]]))
`;
/** Holds a connection, and writes how it ends; sends nothing unless it is to talk. */
const HOLD = `
import socket, sys
s = socket.create_connection((sys.argv[1], 7)); s.recv(99)
open('/tmp/held', 'w').close()
try: s.recv(99); fate = 'ended'
except OSError as error: fate = type(error).__name__
open('/tmp/fate', 'w').write(fate)
`;

async function ask(api: Api, { id }: SandboxJson, ...places: string[]): Promise<string[]> {
  const { stdout, stderr } = await api.exec(id, ['python3', '-c', CONNECT, ...places]);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as string[];
}

async function hold(api: Api, { id }: SandboxJson, name: string): Promise<void> {
  const script = 'rm -f /tmp/held /tmp/fate; (setsid python3 -c "$1" "$2" > /tmp/log 2>&1 &)';
  await api.exec(id, ['sh', '-c', script, 'sh', HOLD, name]);
  await api.sh(id, 'until test -e /tmp/held; do sleep 0.1; done');
}

const fateOf = (api: Api, { id }: SandboxJson) =>
  api.sh(id, 'until test -e /tmp/fate; do sleep 0.1; done; cat /tmp/fate');
const rule = (host: string, ...ports: (number | string)[]) => ({ host, protocol: 'tcp', ports });
const create = (api: Api, network: object) =>
  api.create({ profile: 'python-3.11', memory_mib: 256, network: { enabled: true, ...network } });
type Changed = { readonly generation: number; readonly closed: number };
const change = (api: Api, { id }: SandboxJson, body: object) =>
  api.call<Changed>('PATCH', `/sandboxes/${id}/network`, body);

t.test('67, 68, 98: the ports of a rule, and connections that a change does not allow', async (t) => {
  const { api } = await startDaemon(t, { flags: internet.daemonFlags });
  const sandbox = await create(api, { rules: [rule('web.test', 7)] });
  t.same(await ask(api, sandbox, `${web.address}:7`, 'web.test:7', 'web.test:80', 'other.test:7'), [
    ...['ConnectionRefusedError', 'open', 'ConnectionRefusedError', 'gaierror'],
  ]);
  const verdict = await api.call('POST', `/sandboxes/${sandbox.id}/network/check`, {
    host: 'web.test',
    port: 80,
  });
  t.match(verdict, { verdict: 'denied', reason: /no tcp port 80/ });
  await hold(api, sandbox, 'web.test');
  t.match(await change(api, sandbox, { rules: [rule('web.test', 7, 80)] }), { generation: 2, closed: 0 });
  t.same(await ask(api, sandbox, `${web.address}:80`), ['open'], 'control: the change lets it arrive');
  t.match(await change(api, sandbox, { rules: [rule('web.test', 80), rule('other.test', 7)] }), {
    closed: 1,
  });
  t.equal(await fateOf(api, sandbox), 'ConnectionResetError', 'it sent nothing, and was told');
  t.same(await ask(api, sandbox, 'web.test:7', 'web.test:80', 'other.test:7'), [
    ...['ConnectionRefusedError', 'open', 'open'],
  ]);
  const [copy] = (
    await api.call<{ sandboxes: SandboxJson[] }>('POST', `/sandboxes/${sandbox.id}/fork`, { count: 1 })
  ).sandboxes;
  if (copy === undefined) throw new Error('there is no copy');
  t.same(
    await ask(api, copy, 'web.test:7', 'web.test:80'),
    ['ConnectionRefusedError', 'open'],
    'a fork has its rules',
  );
  t.match(await api.call('GET', `/sandboxes/${copy.id}/network`), { generation: 1, allowlist: [] });
});

/** What a guest gets of a place by TLS or HTTP that says a name: the first bytes, or the error. */
const SAY = `
import json, socket, ssl, sys
context = ssl._create_unverified_context()
def tls(address, name):
  with socket.create_connection((address, 443), 20) as s:
    with context.wrap_socket(s, server_hostname=name) as c: return c.recv(99).decode()
def http(address, name):
  with socket.create_connection((address, 80), 20) as s:
    s.sendall(f'GET / HTTP/1.1\\r\\nHost: {name}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
    text = b''
    while (part := s.recv(9999)): text += part
    return text.split()[1].decode() + ' ' + text.split()[-1].decode()
def raw(address, text):
  with socket.create_connection((address, 443), 20) as s:
    s.sendall(text.encode())
    return s.recv(99).decode()
def ask(words):
  try: return globals()[words[0]](words[1], words[2] or None)
  except OSError as error: return type(error).__name__
print(json.dumps([ask(place.split(' ')) for place in sys.argv[1:]]))
`;

async function say(api: Api, { id }: SandboxJson, ...places: string[]): Promise<string[]> {
  const { stdout, stderr } = await api.exec(id, ['python3', '-c', SAY, ...places]);
  if (stdout === '') throw new Error(stderr);
  return JSON.parse(stdout) as string[];
}

t.test('15, 17, 18, 23, 33: names that connections say, bound to the names’ own addresses', async (t) => {
  const { key, cert } = makeCertificate();
  const server = `require('tls').createServer(${JSON.stringify({ key, cert })}, (s) => { s.on('error', () => {}); s.write('web ' + s.servername); }).listen(443, '${web.address}')`;
  web.start(process.execPath, '-e', server);
  await web.listening('tcp', 443, web.address);
  const { api } = await startDaemon(t, { flags: internet.daemonFlags });
  const sandbox = await create(api, { allowlist: ['web.test'] });
  const RESET = 'ConnectionResetError';
  const ATTACKS = [`tls ${web.address} evil.test`, `tls ${web.address} `, `raw ${web.address} SSH-2.0-x\r\n`];
  const wanted = [RESET, RESET, RESET, 'web web.test', '200 web', '403 not-allowed', '200 web'];
  const rest = [
    `tls ${web2.address} web.test`,
    `http ${web2.address} web.test`,
    `http ${web.address} evil.test`,
  ];
  const get = (of: SandboxJson) => say(api, of, ...ATTACKS, ...rest, 'http web.test web.test');
  t.same(await get(sandbox), wanted);
  type Log = { readonly records: readonly Readonly<Record<string, unknown>>[] };
  const { records } = await api.call<Log>('GET', `/sandboxes/${sandbox.id}/egress`);
  const passed = { verdict: 'allowed', protocol: 'tls', name: 'web.test', port: 443, bytes_down: Number };
  t.match(
    records.filter(({ protocol, verdict }) => protocol === 'tls' && verdict === 'allowed'),
    [passed],
  );
  const refused = records.filter(({ verdict, name }) => verdict === 'denied' && name === 'evil.test');
  t.match(refused, [{ protocol: 'tls' }, { protocol: 'http' }], 'each refusal is in the log, with its name');
  const [copy] = (
    await api.call<{ sandboxes: SandboxJson[] }>('POST', `/sandboxes/${sandbox.id}/fork`, { count: 1 })
  ).sandboxes;
  if (copy === undefined) throw new Error('there is no copy');
  t.same(await get(copy), wanted, 'a fork has an egress process of its own');
  await api.call('POST', `/sandboxes/${sandbox.id}/pause`);
  await api.call('POST', `/sandboxes/${sandbox.id}/resume`);
  t.same(await get(sandbox), wanted, 'as before after a pause');
  const raw = { cidr: `${web.address}/32`, protocol: 'tcp', ports: [443] };
  await change(api, sandbox, { allowlist: [], rules: [raw] });
  t.same(await say(api, sandbox, `tls ${web.address} evil.test`), ['web evil.test'], 'control: it arrives');
});

t.test('98, 106: a paused sandbox has the policy when it wakes; the next daemon keeps it', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const first = await spawnDaemon(directories, { flags: internet.daemonFlags, onExit: 'keep' });
  const sandbox = await create(first.api, { allowlist: ['web.test', 'other.test'] });
  await hold(first.api, sandbox, 'web.test');
  await first.api.call('POST', `/sandboxes/${sandbox.id}/pause`);
  t.match(await change(first.api, sandbox, { allowlist: ['other.test'] }), { generation: 2, closed: 1 });
  await first.api.call('POST', `/sandboxes/${sandbox.id}/resume`);
  t.match(await fateOf(first.api, sandbox), /^Connection(Aborted|Reset)Error$/);
  t.same(await ask(first.api, sandbox, `${web.address}:7`, 'web.test:7', 'other.test:7'), [
    ...['ConnectionRefusedError', 'gaierror', 'open'],
  ]);
  await first.end('SIGKILL');
  const second = await spawnDaemon(directories, { flags: internet.daemonFlags });
  t.teardown(() => second.end());
  t.match(await second.api.call('GET', `/sandboxes/${sandbox.id}/network`), {
    generation: 2,
    allowlist: ['other.test'],
  });
  t.same(await ask(second.api, sandbox, 'web.test:7', 'other.test:7'), ['gaierror', 'open']);
  t.match(await change(second.api, sandbox, { allowlist: [] }), { generation: 3 });
  t.same(await ask(second.api, sandbox, 'other.test:7', `${web2.address}:7`), [
    'gaierror',
    'ConnectionRefusedError',
  ]);
  await second.api.delete(sandbox.id);
});
