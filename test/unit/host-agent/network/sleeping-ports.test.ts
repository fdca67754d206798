// Published ports of a guest that is away, without VMs: connections are held until it is back, or refused.
import '../../../support/network/own-network.ts';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { PortMode } from '../../../../host-agent/src/network/index.ts';
import { HOST_IP, Lab, sh, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(180_000));
const lab = await Lab.open(t);
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();
const CLIENT_IP = WEB_IP.replace(/\d+$/, '254');
const PORTS = [{ hostPort: 8080, guestPort: 8000 }];

const SERVED = { allowlist: [], onDenied: () => undefined, onEgress: () => undefined };

/** Reports the client's address, then echoes. */
const SERVER = `require('net').createServer((s) => { s.write(s.remoteAddress + '\\n'); s.pipe(s); s.on('error', () => {}); }).listen(8000, '0.0.0.0', () => console.log('up'))`;

async function open(t: Test) {
  const network = await lab.openNetwork();
  const slot = await network.allocate();
  await network.create(slot);
  await network.publish(slot, PORTS);
  await network.start(slot, { ...SERVED, wasServed: false });
  const guest = await lab.boot(slot);
  let knocks = 0;
  const set = (mode: PortMode) => network.setPorts(slot, mode, () => void knocks++);
  const close = async (now = network): Promise<void> => {
    guest.unplug();
    await now.destroy(slot);
    await now.close();
    t.equal(await state(), before);
  };
  return { network, slot, guest, set, knocks: () => knocks, close };
}

class Client {
  readonly socket: Socket;
  text = '';
  end: string | undefined;

  constructor(host: string) {
    this.socket = connect({ host, port: 8080 });
    this.socket.on('data', (data) => {
      this.text += String(data);
    });
    this.socket.on('error', (error: NodeJS.ErrnoException) => {
      this.end = error.code ?? '';
    });
    this.socket.on('close', () => {
      this.end ??= 'closed';
    });
    this.socket.write('hello\n');
  }
}

/** Connects from the neighbour; the first line of the answer, or the error code. */
async function fromOutside(): Promise<string> {
  const script = `const s = require('net').connect(8080, '${HOST_IP}');
    s.once('data', (d) => { console.log(String(d).trim()); process.exit(); });
    s.on('error', (e) => { console.log(e.code); process.exit(); })`;
  return (await sh(`${process.execPath} -e "${script}"`, lab.internet)).trim();
}

t.test('connections are held while the guest is away, and those that are open go on', async (t) => {
  const { guest, set, knocks, close } = await open(t);
  await lab.serve(guest.namespace, SERVER);
  t.equal(await fromOutside(), CLIENT_IP);
  const earlier = new Client('127.0.0.1');
  await until(() => earlier.text === '10.87.0.1\nhello\n');
  await set('hold');
  t.equal(knocks(), 0);
  const clients = ['127.0.0.1', '::1', HOST_IP].map((host) => new Client(host));
  const outside = fromOutside();
  await until(() => knocks() === 1);
  earlier.socket.write('more\n');
  await until(() => earlier.text.endsWith('more\n'));
  await sleep(300);
  t.same(
    clients.map(({ text, end }) => [text, end]),
    clients.map(() => ['', undefined]),
  );
  t.equal(knocks(), 1, 'told once');
  await set('open');
  t.equal(await outside, '10.87.0.1', 'whoever was held comes from the host');
  for (const client of clients) await until(() => client.text === '10.87.0.1\nhello\n');
  t.equal(await fromOutside(), CLIENT_IP, 'and later ones by their own address again');
  await set('hold');
  const gone = new Client('127.0.0.1');
  await until(() => knocks() === 2);
  gone.socket.resetAndDestroy();
  await set('open');
  for (const { socket } of [...clients, earlier]) socket.destroy();
  await close();
});

t.test('a guest that has just booted is tried until it listens', async (t) => {
  const { guest, set, knocks, close } = await open(t);
  await set('hold');
  const client = new Client('127.0.0.1');
  await until(() => knocks() === 1);
  await set('open');
  await sleep(500);
  t.same([client.text, client.end], ['', undefined]);
  await lab.serve(guest.namespace, SERVER);
  await until(() => client.text === '10.87.0.1\nhello\n');
  client.socket.destroy();
  await close();
});

if (process.env.SOAK === '1') t.test('one that took long to boot is tried for as long', triesAsLong);

t.test('refused at once, and at most 256 are held', async (t) => {
  const { guest, set, knocks, close } = await open(t);
  await lab.serve(guest.namespace, SERVER);
  await set('hold');
  const clients = Array.from({ length: 300 }, () => new Client('127.0.0.1'));
  await until(() => clients.filter(({ end }) => end === 'ECONNRESET').length === 44);
  await set('refuse');
  await until(() => clients.every(({ end }) => end === 'ECONNRESET'));
  t.equal(knocks(), 1);
  t.equal(await fromOutside(), 'ECONNRESET');
  await set('hold');
  const again = new Client('::1');
  await until(() => knocks() === 2);
  await set('open');
  await until(() => again.text.endsWith('hello\n'));
  again.socket.destroy();
  await close();
});

/** A client on the neighbour: its lines go to the guest; `text` has what came back, and `END CODE`. */
function openOutside(t: Test) {
  const script = `const s = require('net').connect(8080, '${HOST_IP}'); s.setKeepAlive(true, 1000); s.setNoDelay();
    s.on('error', (e) => console.log('END ' + e.code)); s.on('end', () => console.log('END')); s.pipe(process.stdout);
    process.stdin.on('data', (d) => String(d) === 'close\\n' ? s.end() : s.write(d))`;
  const child = spawn('nsenter', [`--net=${lab.internet}`, process.execPath, '-e', script], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const client = { text: '', say: (line: string) => child.stdin.write(`${line}\n`) };
  child.stdout.on('data', (data) => {
    client.text += String(data);
  });
  return client;
}

t.test('data on a connection that is open wakes the guest, and arrives', async (t) => {
  const { guest, set, knocks, close } = await open(t);
  // Half a second after a byte it says something by itself.
  await lab.serve(
    guest.namespace,
    SERVER.replace(
      's.pipe(s);',
      `s.pipe(s); s.once('data', () => setTimeout(() => s.write('late\\n'), 500));`,
    ),
  );
  const inside = new Client('127.0.0.1');
  const outside = openOutside(t);
  await until(() => inside.text.endsWith('late\n'));
  outside.say('x');
  await until(() => outside.text.endsWith('x\n'));
  await set('hold');
  await until(() => outside.text.endsWith('late\n'));
  guest.freeze();
  // Acknowledgements and probes of a client that keeps its connection alive.
  await sleep(2500);
  t.equal(knocks(), 0, 'silence does not');
  outside.say('from outside');
  await until(() => knocks() === 1);
  inside.socket.write('from inside\n');
  await sleep(1000);
  t.equal(knocks(), 1, 'told once');
  guest.goOn();
  await set('open');
  await until(() => inside.text.endsWith('from inside\n') && outside.text.endsWith('from outside\n'));

  await set('hold');
  guest.freeze();
  inside.socket.write('again\n');
  await until(() => knocks() === 2);
  await set('refuse');
  outside.say('in vain');
  await until(() => outside.text.endsWith('END ECONNRESET\n'));
  await until(() => inside.end === 'ECONNRESET');
  guest.goOn();
  await set('open');
  t.equal(await fromOutside(), CLIENT_IP);
  await close();
});

t.test('a large write wakes it, too, and a client that closes does not', async (t) => {
  const { guest, set, knocks, close } = await open(t);
  await lab.serve(guest.namespace, SERVER);
  const [first, second] = [openOutside(t), openOutside(t)];
  await until(() => first.text.length > 0 && second.text.length > 0);
  await set('hold');
  guest.freeze();
  first.say('close');
  await sleep(1000);
  t.equal(knocks(), 0);
  second.say('z'.repeat(3_000_000));
  await until(() => knocks() === 1);
  // Only the first segment is repeated from then on.
  await set('hold');
  await until(() => knocks() === 2);
  guest.goOn();
  await set('open');
  await until(() => second.text.length > 3_000_000);
  await close();
});

t.test('a daemon that starts while the guest is away is told of what is held', async (t) => {
  const { network, slot, guest, set, close } = await open(t);
  await lab.serve(guest.namespace, SERVER);
  t.match(await sh('nft list ruleset'), /8080 :/);
  const earlier = openOutside(t);
  await until(() => earlier.text !== '');
  await set('hold');
  await network.close();
  const client = new Client('127.0.0.1');
  await once(client.socket, 'connect');
  const next = await lab.openNetwork();
  next.adopt(slot);
  await next.start(slot, { ...SERVED, wasServed: true });
  await next.adoptPorts(slot, PORTS, true);
  await next.tidy();
  t.notMatch(await sh('nft list ruleset'), /8080 :/, 'the host forwards none');
  let knocks = 0;
  await next.setPorts(slot, 'hold', () => void knocks++);
  await until(() => knocks === 1);
  t.equal(client.end, undefined);
  await next.setPorts(slot, 'open');
  await until(() => client.text === '10.87.0.1\nhello\n');
  client.socket.destroy();
  await next.setPorts(slot, 'hold');
  earlier.say('data');
  await until(() => knocks === 2);
  await next.close();
  // It was killed after the resume.
  const last = await lab.openNetwork();
  last.adopt(slot);
  await last.adoptPorts(slot, PORTS, false);
  await last.tidy();
  t.equal(await fromOutside(), CLIENT_IP);
  await close(last);
});

/** Longer than connections are tried in any case (native/portd.c). */
async function triesAsLong(t: Test): Promise<void> {
  const { guest, set, knocks, close } = await open(t);
  await set('hold');
  const client = new Client('127.0.0.1');
  await until(() => knocks() === 1);
  await sleep(20_000);
  await set('open');
  await sleep(12_000);
  t.same([client.text, client.end], ['', undefined]);
  await lab.serve(guest.namespace, SERVER);
  await until(() => client.text === '10.87.0.1\nhello\n');
  client.socket.destroy();
  await close();
}
