// Ports of the host that are published to guests which exist: running, paused, forked; and their connections when a
// guest goes back to a snapshot.
import '../../support/network/own-network.ts';
import { spawn } from 'node:child_process';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { SandboxJson } from '../../support/api.ts';
import { leftovers, makeDirectories, removeDirectories, spawnDaemon } from '../../support/daemon.ts';
import { HOST_IP, Lab, sh } from '../../support/network/lab.ts';
import { scaled } from '../../support/time-scale.ts';
import { until } from '../../support/until.ts';

t.setTimeout(scaled(900_000));
const lab = await Lab.open(t);
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();

/** Greets each client by the guest's name, and then is silent; any number of them. */
const GREET = `
use strict; use IO::Socket::INET;
my $port = IO::Socket::INET->new(LocalPort => 8000, Listen => 256, ReuseAddr => 1) or die;
my @all;
while (my $s = $port->accept) { my $id = \`cat /run/sandbox/id\`; syswrite $s, $id; push @all, $s }`;

/** Reads only. From this host, or from the neighbour. */
function listen(port: number, host?: string) {
  const client = { text: '', end: '' };
  if (host !== undefined) {
    const socket = connect({ host, port });
    t.teardown(() => socket.destroy());
    socket.on('data', (data) => {
      client.text += data;
    });
    socket.on('error', (error: NodeJS.ErrnoException) => {
      client.end = error.code ?? '';
    });
    socket.on('close', () => {
      client.end ||= 'closed';
    });
    return client;
  }
  const script = `const s = require('net').connect(${port}, '${HOST_IP}'); s.pipe(process.stdout);
    s.on('error', (e) => { console.error(e.code); process.exit(); })`;
  const child = spawn('nsenter', [`--net=${lab.internet}`, process.execPath, '-e', script]);
  t.teardown(() => child.kill('SIGKILL'));
  child.stdout.on('data', (data) => {
    client.text += data;
  });
  child.stderr.on('data', (data) => {
    client.end += String(data).trim();
  });
  return client;
}

/** The id that answers there; the error of a client that is refused. */
async function who(port: number): Promise<string> {
  const client = listen(port, '127.0.0.1');
  await until(() => client.text.includes('sbx_') || client.end !== '', 'an answer', 120_000);
  return client.text.trim() || client.end;
}

t.test('published while it runs, while it is paused, and for a fork', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const flags = ['--dns-upstream', lab.names.address, '--resume-timeout-s', '300'];
  const daemon = await spawnDaemon(directories, { onExit: 'keep', flags });
  t.teardown(() => daemon.end());
  const { api } = daemon;
  const { id } = await api.create({
    memory_mib: 128,
    network: { enabled: true, allowlist: ['host.invalid'] },
    service: { cmd: ['perl', '-e', GREET] },
  });
  const publish = (of: string, host_port: number) =>
    api.ask('publishPort', { params: { id: of, port: '8000' }, body: { host_port } });
  const unpublish = (of: string, hostPort: number) =>
    api.ask('unpublishPort', { params: { id: of, port: '8000', host_port: String(hostPort) } });
  const stateOf = async (of: string) => (await api.ask('getSandbox', { params: { id: of } })).state;
  const metric = async (name: string) =>
    new RegExp(`^${name} (\\d+)$`, 'm').exec(await (await fetch(`${daemon.url}/metrics`)).text())?.[1];
  const bare = await api.create({ memory_mib: 128 });
  await t.rejects(publish(bare.id, 8079), /400.*network/);
  await api.delete(bare.id);

  await publish(id, 8080);
  while ((await who(8080)) !== id) await sleep(200);
  t.equal(await metric('sandboxd_published_ports'), '1');

  await api.ask('pauseSandbox', { params: { id }, body: {} });
  await publish(id, 8081);
  t.equal(await stateOf(id), 'paused', 'that does not resume it');
  t.equal(await who(8081), id, 'a connection does');
  t.equal(await stateOf(id), 'running');

  const snapshot = await api.ask('takeSnapshot', { params: { id } });
  const [fork] = (await api.ask('forkSnapshot', { params: { id: snapshot.id }, body: { count: 1 } }))
    .sandboxes as [SandboxJson];
  t.same(fork.published ?? [], [], 'a fork has no ports of its source');
  await t.rejects(publish(fork.id, 8080), /409.*8080/);
  await publish(fork.id, 8082);
  t.same([await who(8082), await who(8080)], [fork.id, id]);
  await unpublish(id, 8081);
  t.equal(await who(8081), 'ECONNREFUSED');

  const readers = [listen(8080), listen(8080, '127.0.0.1'), listen(8080, '::1')];
  const other = listen(8082);
  await until(() => [...readers, other].every(({ text }) => text.includes('sbx_')), 'all greeted', 60_000);
  t.ok(Number(await metric('sandboxd_published_connections')) >= 4);
  await api.ask('rollbackSandbox', { params: { id }, body: { snapshot_id: snapshot.id } });
  await until(() => readers.every(({ end }) => end === 'ECONNRESET'), 'the end of clients that only read');
  t.equal(await who(8080), id, 'new ones are served');
  t.equal(other.end, '', 'those of the fork stay');

  const booted = listen(8082, '::1');
  await until(() => booted.text !== '', 'a greeting', 60_000);
  await api.ask('pauseSandbox', { params: { id: fork.id }, body: { memory: false } });
  t.equal(await who(8082), fork.id, 'it boots');
  await until(() => other.end === 'ECONNRESET' && booted.end === 'ECONNRESET', 'the end of its clients');
  for (const each of [id, fork.id]) await api.delete(each);
  await api.ask('deleteSnapshot', { params: { id: snapshot.id } });
  t.equal(await who(8080), 'ECONNREFUSED');
  await daemon.end();
  t.same(await leftovers(directories), []);
});

t.test('nothing is left on the host', async (t) => {
  t.equal(await state(), before);
});
