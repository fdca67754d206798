// Sandboxes with networks, by the REST interface of a daemon whose host has an internet of namespaces.
import '../../support/network/own-network.ts';

import t from 'tap';
import { type Daemon, startDaemon } from '../../support/daemon.ts';
import { HOST_IP, Lab, OTHER_IP, sh, WEB_IP } from '../../support/network/lab.ts';
import { scaled } from '../../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const lab = await Lab.open(t);
await lab.serve(
  lab.internet,
  `require('net').createServer((s) => { s.on('data', (d) => s.write(d)); s.on('error', () => {}); s.write('hello ' + s.remoteAddress + '\\n'); }).listen(81, '0.0.0.0', () => console.log('up'))`,
);
lab.names.set('web.example', [WEB_IP]);
lab.names.set('other.example', [OTHER_IP]);
const flags = ['--dns-upstream', lab.names.address];
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();
const network = { enabled: true, allowlist: ['web.example'] };
const CONNECT = `
import socket, sys
def connect(host, port=81):
  try:
    with socket.create_connection((host, port), 5) as s: return s.recv(100).decode().strip()
  except Exception as e: return type(e).__name__
`;

type Sandbox = {
  id: string;
  network?: { enabled: boolean; allowlist: string[]; gateway: string; guest_ip: string };
};

async function create(daemon: Daemon, body: object): Promise<Sandbox> {
  const response = await daemon.api.fetch('/sandboxes', {
    method: 'POST',
    body: JSON.stringify({ profile: 'python-3.11', ...body }),
  });
  if (response.status !== 201) throw new Error(await response.text());
  return (await response.json()) as Sandbox;
}

async function python(daemon: Daemon, id: string, script: string): Promise<string> {
  const response = await daemon.api.fetch(`/sandboxes/${id}/exec`, {
    method: 'POST',
    headers: { accept: 'application/json' },
    body: JSON.stringify({ cmd: ['python3', '-c', `${CONNECT}\n${script}`] }),
  });
  return JSON.stringify(await response.json());
}

t.test(
  'a sandbox reaches what its allowlist names, is reached where it publishes, and so is its fork',
  async (t) => {
    const daemon = await startDaemon(t, { flags });
    const publish = [{ host_port: 8080, guest_port: 8000 }];
    const service = { cmd: ['python3', '-u', '-m', 'http.server', '8000'] };
    const sandbox = await create(daemon, { network, publish, service });
    t.match(sandbox.network, {
      enabled: true,
      allowlist: ['web.example'],
      gateway: String,
      guest_ip: String,
    });
    const script = `print(connect('web.example'), connect('other.example'), connect('${OTHER_IP}'), connect('${HOST_IP}', 22))`;
    const expected = `hello ${HOST_IP} gaierror ConnectionRefusedError ConnectionRefusedError\\n`;
    t.match(await python(daemon, sandbox.id, script), expected);
    await answers('http://127.0.0.1:8080/');
    await answers('http://[::1]:8080/');
    const snapshot = await daemon.api.ask('takeSnapshot', { params: { id: sandbox.id } });
    const body = { count: 1, publish: [{ host_port: 8081, guest_port: 8000 }] };
    const { sandboxes } = await daemon.api.ask('forkSnapshot', { params: { id: snapshot.id }, body });
    const [fork] = sandboxes ?? [];
    t.not(fork?.network?.guest_ip, sandbox.network?.guest_ip);
    await answers('http://127.0.0.1:8081/');
    t.match(await python(daemon, fork?.id ?? '', script), expected);
    await daemon.api.ask('deleteSandbox', { params: { id: sandbox.id } });
    t.equal(await statusOf('http://127.0.0.1:8080/'), 'ECONNREFUSED');
    await daemon.api.ask('deleteSnapshot', { params: { id: snapshot.id } });
  },
);

/** What is started in a guest may take a while until it listens. */
async function answers(url: string): Promise<void> {
  const isOver = AbortSignal.timeout(scaled(60_000));
  while ((await statusOf(url)) !== 200) {
    if (isOver.aborted) throw new Error(`${url} gives ${await statusOf(url)}`);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function statusOf(url: string): Promise<number | string> {
  try {
    return (await fetch(url)).status;
  } catch (error) {
    return ((error as Error).cause as NodeJS.ErrnoException)?.code ?? String(error);
  }
}

t.test('nothing is left on the host', async (t) => {
  t.equal(await state(), before);
});
