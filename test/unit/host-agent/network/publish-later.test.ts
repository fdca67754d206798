// Ports that are published and freed while the guest runs or sleeps, without VMs.
import '../../../support/network/own-network.ts';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdir } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { readProcessRecord } from '../../../../host-agent/src/lib/process-record.ts';
import { HOST_IP, Lab, sh, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));
const lab = await Lab.open(t);
const CLIENT_IP = WEB_IP.replace(/\d+$/, '254');
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();

/** Reports the client's address, then echoes, on 8000 and 8001. */
const SERVER = `for (const port of [8000, 8001]) require('net').createServer((s) => { s.write(s.remoteAddress + '\\n'); s.pipe(s); s.on('error', () => {}); }).listen(port, '0.0.0.0', () => port === 8001 && console.log('up'))`;
/** Lines of its standard input are sent; what comes back is printed, and how it ends. */
const clientOf = (port: number) =>
  `const s = require('net').connect(${port}, '${HOST_IP}'); process.stdin.pipe(s); s.pipe(process.stdout); s.on('error', (e) => console.log(e.code)); s.on('close', () => process.exit())`;

const at = (hostPort: number, guestPort = 8000, hostIp?: string) => ({
  hostPort,
  guestPort,
  ...(hostIp !== undefined && { hostIp }),
});

async function open(t: Test, ports: readonly ReturnType<typeof at>[] = []) {
  const network = await lab.openNetwork();
  const slot = await network.allocate();
  await network.create(slot);
  await network.publish(slot, ports);
  const guest = await lab.boot(slot);
  await lab.serve(guest.namespace, SERVER);
  const close = async (now = network): Promise<void> => {
    guest.unplug();
    await now.destroy(slot);
    await now.close();
    t.equal(await state(), before);
  };
  return { network, slot, guest, close };
}

class Client {
  readonly socket: Socket;
  text = '';
  end = '';

  constructor(port: number, host = '127.0.0.1') {
    this.socket = connect({ host, port });
    this.socket.on('data', (data) => {
      this.text += String(data);
    });
    this.socket.on('error', (error: NodeJS.ErrnoException) => {
      this.end = error.code ?? '';
    });
    this.socket.on('close', () => {
      this.end ||= 'closed';
    });
  }

  async greeted(): Promise<string> {
    await until(() => this.text.includes('\n') || this.end !== '');
    return this.end || this.text.trim();
  }
}

const greet = async (port: number, host?: string): Promise<string> => {
  const client = new Client(port, host);
  const said = await client.greeted();
  client.socket.destroy();
  return said;
};

function outside(port: number): { child: ChildProcess; text: () => string } {
  const child = spawn('nsenter', [`--net=${lab.internet}`, process.execPath, '-e', clientOf(port)]);
  // It ends with its connection.
  child.stdin.on('error', () => undefined);
  let text = '';
  child.stdout.on('data', (data) => {
    text += data;
  });
  return { child, text: () => text };
}

t.test('a port is published to a guest that runs, and freed with its connections', async (t) => {
  const { network, slot, close } = await open(t);
  await network.publish(slot, [at(8080)]);
  await network.publish(slot, [at(8081), at(8082, 8001, '127.0.0.1')]);
  t.equal(await greet(8080), '10.87.0.1');
  t.equal(await greet(8081, '::1'), '10.87.0.1');
  t.equal(await greet(8082), '10.87.0.1');
  await t.rejects(network.publish(slot, [at(8081, 8001)]), {
    code: 'conflict',
    message: /host port 8081 is taken/,
  });
  const kept = [new Client(8081), new Client(8082), new Client(8081, '::1')];
  const cut = [new Client(8080), new Client(8080, '::1')];
  for (const client of [...kept, ...cut]) await client.greeted();
  const [away, other] = [outside(8080), outside(8081)];
  await until(() => away.text() !== '' && other.text() !== '');
  t.equal(away.text().trim(), CLIENT_IP, 'from outside, with its own address');

  await network.unpublish(slot, at(8080));
  await network.unpublish(slot, at(8080));
  await until(() => cut.every(({ end }) => end === 'ECONNRESET'));
  t.equal(await greet(8080), 'ECONNREFUSED');
  away.child.stdin?.write('x');
  await until(() => away.text().includes('ECONNRESET'));
  other.child.stdin?.write('still\n');
  await until(() => other.text().includes('still'));
  for (const client of kept) client.socket.write('more');
  await until(() => kept.every(({ text }) => text.endsWith('more')));
  const program = createServer().listen(8080);
  await once(program, 'listening');
  program.close();

  await network.unpublish(slot, at(8081));
  t.equal(await greet(8081), 'ECONNREFUSED');
  other.child.stdin?.write('x');
  await until(() => other.text().includes('ECONNRESET'));
  t.equal(await greet(8082), '10.87.0.1', 'the other port of that holder');
  await until(() => kept[0]?.end === 'ECONNRESET' && kept[2]?.end === 'ECONNRESET');
  kept[1]?.socket.write('alone');
  await until(() => kept[1]?.text.endsWith('alone') === true);
  kept[1]?.socket.destroy();
  await close();
});

t.test('a connection from outside ends also where both ports have one number', async (t) => {
  const { network, slot, close } = await open(t, [at(8000), at(8001, 8000)]);
  const [away, other] = [outside(8000), outside(8001)];
  await until(() => away.text() !== '' && other.text() !== '');
  await network.unpublish(slot, at(8000));
  away.child.stdin?.write('x');
  await until(() => away.text().includes('ECONNRESET'));
  other.child.stdin?.write('still\n');
  await until(() => other.text().includes('still'));
  other.child.kill('SIGKILL');
  await close();
});

t.test('clients that only read are reset, too, when a port is freed or another guest runs', async (t) => {
  const { network, slot, close } = await open(t, [at(8080), at(8081)]);
  const locals = [new Client(8081), new Client(8081, '::1')];
  for (const client of locals) await client.greeted();
  const [freed, kept] = [outside(8080), outside(8081)];
  await until(() => freed.text() !== '' && kept.text() !== '');
  await network.unpublish(slot, at(8080));
  await until(() => freed.text().includes('ECONNRESET'), 'the end of one whose port is freed');
  t.equal(kept.text().trim(), CLIENT_IP);

  let knocks = 0;
  await network.setPorts(slot, 'hold', () => void knocks++);
  const held = new Client(8081);
  await until(() => knocks === 1);
  await network.endConnections(slot);
  await until(() => kept.text().includes('ECONNRESET'), 'the end of one from outside');
  await until(() => locals.every(({ end }) => end === 'ECONNRESET'), 'the end of those of the holder');
  t.same([held.text, held.end], ['', ''], 'one that is held stays');
  await network.setPorts(slot, 'open');
  t.equal(await held.greeted(), '10.87.0.1');
  held.socket.destroy();
  const later = outside(8081);
  await until(() => later.text() !== '');
  t.equal(later.text().trim(), CLIENT_IP, 'later ones come as before');
  await network.destroy(slot);
  await until(() => later.text().includes('ECONNRESET'), 'the end with the sandbox');
  await close();
});

t.test('while it sleeps, new ports hold connections, and freed ones refuse them', async (t) => {
  const { network, slot, close } = await open(t, [at(8080)]);
  let knocks = 0;
  await network.setPorts(slot, 'hold', () => void knocks++);
  await network.publish(slot, [at(8081)], true);
  await network.setPorts(slot, 'hold');
  const held = [new Client(8080), new Client(8081)];
  await until(() => knocks === 2);
  await network.unpublish(slot, at(8080));
  await until(() => held[0]?.end === 'ECONNRESET');
  t.equal(await greet(8080), 'ECONNREFUSED');
  await network.setPorts(slot, 'open');
  t.equal(await held[1]?.greeted(), '10.87.0.1');
  const away = outside(8081);
  await until(() => away.text() !== '');
  t.equal(away.text().trim(), CLIENT_IP);
  away.child.kill('SIGKILL');
  held[1]?.socket.destroy();
  await close();
});

t.test('the next daemon has what is recorded: it frees the rest, and holds what is lost', async (t) => {
  const { network, slot, close } = await open(t, [at(8080), at(8081)]);
  await network.publish(slot, [at(8082)]);
  await network.publish(slot, [at(8083)]);
  const kept = new Client(8082);
  await kept.greeted();
  const dir = join(lab.dir, 'ports');
  const records = (await readdir(dir)).filter((name) => !name.endsWith('.control'));
  t.equal(records.length, 3, 'a holder for each addition');
  const lost = records.find((name) => name.endsWith('+3')) ?? '';
  process.kill(readProcessRecord(join(dir, lost))?.process?.pid ?? 0, 'SIGKILL');
  await network.close();
  const next = await lab.openNetwork();
  next.adopt(slot);
  // A daemon was killed before it freed 8081.
  await next.adoptPorts(slot, [at(8080), at(8082), at(8083)], false);
  await next.tidy();
  t.same(await Promise.all([8080, 8081, 8082, 8083].map((port) => greet(port))), [
    '10.87.0.1',
    'ECONNREFUSED',
    '10.87.0.1',
    '10.87.0.1',
  ]);
  kept.socket.write('more');
  await until(() => kept.text.endsWith('more'));
  kept.socket.destroy();
  await next.unpublish(slot, at(8080));
  t.same(await Promise.all([8080, 8082].map((port) => greet(port))), ['ECONNREFUSED', '10.87.0.1']);
  await close(next);
});

t.test('a holder that has ended gives way: its other ports get another one', async (t) => {
  const { network, slot, close } = await open(t, [at(8080), at(8081)]);
  const [record = ''] = (await readdir(join(lab.dir, 'ports'))).filter((name) => !name.endsWith('.control'));
  process.kill(readProcessRecord(join(lab.dir, 'ports', record))?.process?.pid ?? 0, 'SIGKILL');
  await network.unpublish(slot, at(8080));
  t.same(await Promise.all([8080, 8081].map((port) => greet(port))), ['ECONNREFUSED', '10.87.0.1']);
  await close();
});
