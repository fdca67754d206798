// Published ports, without VMs: from the host itself, from outside, by IPv4 and IPv6.
import '../../../support/network/own-network.ts';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import type { NetworkSlot, PublishedPort } from '../../../../host-agent/src/network/index.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { HOST_IP, Lab, sh, WEB_IP } from '../../../support/network/lab.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(120_000));
const lab = await Lab.open(t);
const HOST_IP6 = 'fd00:77::1';
await sh(`ip addr add ${HOST_IP6}/64 dev eth0 nodad`);
await sh('ip addr add fd00:77::2/64 dev eth0 nodad', lab.internet);
const state = () => sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
const before = await state();

/** Reports the client's address, then echoes. */
const SERVER = `require('net').createServer({ allowHalfOpen: true }, (s) => { s.write(s.remoteAddress + '\\n'); s.pipe(s); s.on('error', () => {}); }).listen(8000, '0.0.0.0', () => console.log('up'))`;

/** Others keep the processor busy meanwhile. */
const LIMIT_MS = 15_000;

/** The first line of the answer, or the error code. */
function greet(host: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: LIMIT_MS });
    socket.once('data', (data) => resolve(String(data).trim()));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
    socket.once('timeout', () => resolve('timeout'));
    socket.on('close', () => resolve('closed'));
    socket.once('data', () => socket.destroy());
  });
}

/** Like `greet`, but from the neighbour. */
async function greetFromOutside(host: string, port: number, limitMs = LIMIT_MS): Promise<string> {
  const script = `const s = require('net').connect({ host: '${host}', port: ${port}, timeout: ${limitMs} });
    s.on('data', (d) => { console.log(String(d).trim()); process.exit(); });
    s.on('error', (e) => { console.log(e.code); process.exit(); }); s.on('timeout', () => { console.log('timeout'); process.exit(); })`;
  return (await sh(`${process.execPath} -e "${script}"`, lab.internet)).trim();
}

async function open(t: Test, ports: readonly PublishedPort[]) {
  const network = await lab.openNetwork();
  const slot = await network.allocate();
  await network.create(slot);
  await network.publish(slot, ports);
  const guest = await lab.boot(slot);
  await lab.serve(guest.namespace, SERVER);
  const close = async (): Promise<void> => {
    guest.unplug();
    await network.destroy(slot);
    await network.close();
    t.equal(await state(), before);
    t.notOk(existsSync(join(lab.dir, 'ports')), 'nobody holds any');
  };
  return { network, slot, guest, close };
}

t.test('a port is reached from everywhere, and the guest sees who it is', async (t) => {
  const { slot, guest, close } = await open(t, [{ hostPort: 8080, guestPort: 8000 }]);
  t.equal(
    await greetFromOutside(HOST_IP, 8080),
    WEB_IP.replace(/\d+$/, '254'),
    'from another host, by its address',
  );
  t.equal(await greet(HOST_IP, 8080), '10.87.0.1');
  t.equal(await greet('127.0.0.1', 8080), '10.87.0.1');
  t.equal(await greet('127.1.2.3', 8080), '10.87.0.1');
  t.equal(await greet('::1', 8080), '10.87.0.1');
  t.equal(await greet(HOST_IP6, 8080), '10.87.0.1');
  t.equal(await greetFromOutside(HOST_IP6, 8080), '10.87.0.1');
  t.equal(await greetFromOutside(HOST_IP, 8000), 'ECONNREFUSED', 'no other port');
  const direct = `ip route add ${slot.guestIp}/32 via ${HOST_IP}`;
  await sh(direct, lab.internet);
  t.equal(await greetFromOutside(slot.guestIp, 8000, 3000), 'timeout', 'not past the published port');
  // Nothing is sent out this way.
  const out = `const s = require('net').connect(80, '${WEB_IP}'); await new Promise((r) => { s.on('error', (e) => { console.log(e.code); r(); }); s.on('connect', () => { console.log('connected'); r(); }) }); process.exit()`;
  t.equal(await guest.js(out), 'ECONNREFUSED');
  const hairpin = out.replace('80', '8080').replace(WEB_IP, HOST_IP);
  t.equal(await guest.js(hairpin), 'ECONNREFUSED', 'nor by the host to itself');
  await sh(direct.replace('add', 'del'), lab.internet);
  await close();
});

t.test('bytes come through whole both ways, also by the process that holds the port', async (t) => {
  const { close } = await open(t, [{ hostPort: 8080, guestPort: 8000 }]);
  for (const host of ['127.0.0.1', '::1']) {
    const socket = connect({ host, port: 8080, allowHalfOpen: true });
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    await once(socket, 'data');
    const sent = Buffer.alloc(8 * 2 ** 20, 'abcdefg');
    socket.end(sent);
    await once(socket, 'end');
    const got = Buffer.concat(chunks);
    t.ok(got.subarray(got.indexOf(10) + 1).equals(sent), host);
    socket.destroy();
  }
  await close();
});

t.test('a guest with tiny segments, or one that reads nothing, blocks no other', async (t) => {
  const { slot, guest, close } = await open(t, [
    { hostPort: 8080, guestPort: 8000 },
    { hostPort: 8081, guestPort: 8001 },
  ]);
  await guest.sh(`ip route replace default via ${slot.gateway} advmss 1`);
  const sent = Buffer.alloc(2 ** 16, 'abcdefg');
  const socket = connect({ host: '127.0.0.1', port: 8080 });
  let gotBytes = 0;
  socket.on('data', (chunk: Buffer) => {
    gotBytes += chunk.length;
  });
  socket.end(sent);
  await once(socket, 'close');
  t.ok(gotBytes > sent.length, `${gotBytes} bytes came back`);
  await lab.serve(
    guest.namespace,
    `require('net').createServer((s) => { s.pause(); s.on('error', () => {}); }).listen(8001, '0.0.0.0', () => console.log('up'))`,
  );
  const stuck = Array.from({ length: 50 }, () => connect({ host: '127.0.0.1', port: 8081 }));
  for (const socket of stuck) socket.on('error', () => undefined);
  await Promise.all(stuck.map((socket) => once(socket, 'connect')));
  for (const socket of stuck) socket.write(Buffer.alloc(2 ** 20));
  t.equal(await greet('127.0.0.1', 8080), '10.87.0.1', 'beside 50 that are never read');
  for (const one of stuck) one.destroy();
  await close();
});

t.test('half-open connections take only a bounded part of the host’s table', async (t) => {
  // A separate port: the flood continues for a while after the test.
  const { network, slot, guest, close } = await open(t, [{ hostPort: 8090, guestPort: 8000 }]);
  await guest.sh(
    `nft 'table ip deaf { chain in { type filter hook input priority 0; tcp flags syn drop; }; }'`,
  );
  const [half, most] = [5000, 4096];
  await lab.serve(
    lab.internet,
    `for (let n = 0; n < ${half}; n++) require('net').connect(8090, '${HOST_IP}').on('error', () => {}); setTimeout(() => console.log('sent'), 2000)`,
  );
  const tracked =
    (await readFile('/proc/net/nf_conntrack', 'latin1')).split(`src=${slot.guestIp} `).length - 1;
  t.ok(tracked > most / 2 && tracked <= most, `${tracked} of ${half}`);
  const next = await network.allocate();
  await network.create(next);
  await network.publish(next, [{ hostPort: 8081, guestPort: 8000 }]);
  const neighbour = await lab.boot(next);
  await lab.serve(neighbour.namespace, SERVER);
  t.equal(await greetFromOutside(HOST_IP, 8081), WEB_IP.replace(/\d+$/, '254'), 'another sandbox is reached');
  neighbour.unplug();
  await network.destroy(next);
  await close();
});

t.test('one address of the host is that one only', async (t) => {
  const { close } = await open(t, [
    { hostIp: '127.0.0.1', hostPort: 8080, guestPort: 8000 },
    { hostIp: '0.0.0.0', hostPort: 8081, guestPort: 8000 },
    { hostIp: '::', hostPort: 8082, guestPort: 8000 },
    { hostIp: '127.0.0.5', hostPort: 8080, guestPort: 8001 },
  ]);
  t.equal(await greet('127.0.0.1', 8080), '10.87.0.1');
  t.equal(await greet('127.0.0.5', 8080), 'ECONNRESET', 'nothing listens there in the guest');
  t.equal(await greet('127.0.0.6', 8080), 'ECONNREFUSED');
  t.equal(await greet(HOST_IP, 8080), 'ECONNREFUSED');
  t.equal(await greet('::1', 8080), 'ECONNREFUSED');
  t.equal(await greet(HOST_IP, 8081), '10.87.0.1');
  t.equal(await greet('::1', 8081), 'ECONNREFUSED');
  t.equal(await greet('::1', 8082), '10.87.0.1');
  t.equal(await greet(HOST_IP, 8082), 'ECONNREFUSED');
  await close();
});

t.test('a port that anybody has is taken, and free again after a delete', async (t) => {
  const own = await lab.openNetwork();
  const { manager } = await startMemoryDaemon(t, { network: own });
  const publish = [{ hostPort: 8080, guestPort: 80 }];
  const stranger = createServer();
  for (const host of ['127.0.0.1', '0.0.0.0', '::']) {
    stranger.listen(8080, host);
    await once(stranger, 'listening');
    await t.rejects(
      manager.create({ publish }),
      { code: 'conflict', message: /host port 8080 is taken/ },
      host,
    );
    await new Promise((resolve) => stranger.close(resolve));
  }
  // The kernel refuses the first two. It would listen on a broadcast address, to which no client can connect.
  const broadcast = HOST_IP.replace(/\d+$/, '255');
  for (const hostIp of ['1.2.3.4', 'fe80::1', broadcast, '127.255.255.255'])
    await t.rejects(manager.create({ publish: [{ hostIp, hostPort: 1, guestPort: 1 }] }), {
      code: 'invalid_argument',
      message: `host_ip ${hostIp} is not an address of this host; leave it out for all of them`,
    });
  const many = (count: number) =>
    Array.from({ length: count }, (_, at) => ({ hostIp: '127.0.0.1', hostPort: 10_000 + at, guestPort: 80 }));
  await t.rejects(manager.create({ publish: many(257) }), {
    code: 'invalid_argument',
    message: /at most 256 ports, got 257/,
  });
  t.same(manager.list(), []);
  await manager.delete((await manager.create({ publish: many(256) })).id);
  for (let round = 0; round < 5; round++) {
    const made = await manager.create({ publish });
    t.match(made, { published: publish, network: { allowlist: [] } });
    await t.rejects(manager.create({ publish }), { code: 'conflict' });
    stranger.listen(8080, '127.0.0.1');
    const [error] = await once(stranger, 'error');
    t.equal(error.code, 'EADDRINUSE', 'another program cannot have it');
    await manager.delete(made.id);
    stranger.listen(8080, '0.0.0.0');
    await once(stranger, 'listening');
    await new Promise((resolve) => stranger.close(resolve));
  }
  const source = await manager.create({ publish });
  const { id } = await manager.get(source.id).snapshot();
  const [plain] = await manager.fork(id, 1);
  t.equal(plain?.published, undefined, 'not inherited');
  await t.rejects(manager.fork(id, 2, undefined, undefined, { publish }), {
    code: 'invalid_argument',
    message: /count 1/,
  });
  await t.rejects(manager.fork(id, 1, undefined, undefined, { publish }), { code: 'conflict' });
  const other = [{ hostPort: 8081, guestPort: 80 }];
  const [fork] = await manager.fork(id, 1, undefined, undefined, { publish: other });
  t.same(fork?.published, other);
  const bare = await manager.create({});
  const saved = await manager.get(bare.id).snapshot();
  await t.rejects(manager.fork(saved.id, 1, undefined, undefined, { publish: other }), {
    code: 'invalid_argument',
    message: /snapshot that has a network/,
  });
  await manager.stop('destroy');
  await own.close();
  t.equal(await state(), before);
});

t.test('ports go on without the daemon, and the next one has them', async (t) => {
  const own = await lab.openNetwork();
  const first = await startMemoryDaemon(t, { network: own });
  const made = await first.manager.create({ publish: [{ hostPort: 8080, guestPort: 8000 }] });
  const slot = first.store.table<{ network: NetworkSlot }>('sandboxes').get(made.id)?.network;
  if (slot === undefined) throw new Error('no network');
  const guest = await lab.boot(slot);
  await lab.serve(guest.namespace, SERVER);
  const sockets = await Promise.all(
    ['127.0.0.1', '::1'].map(async (host) => {
      const socket = connect({ host, port: 8080 });
      await once(socket, 'data');
      return socket;
    }),
  );
  const echo = async () => {
    for (const socket of sockets) {
      socket.write('x');
      t.equal(String(await once(socket, 'data')), 'x');
    }
  };
  await first.crash();
  await own.close();
  await echo();
  t.equal(await greet('::1', 8080), '10.87.0.1');
  t.equal(await greet('127.0.0.1', 8080), '10.87.0.1');
  const next = await lab.openNetwork();
  const second = await startMemoryDaemon(t, { home: first.home, network: next });
  await echo();
  t.equal(await greetFromOutside(HOST_IP, 8080), WEB_IP.replace(/\d+$/, '254'));
  const closed = sockets.map((socket) => once(socket, 'close'));
  for (const socket of sockets) socket.on('error', () => undefined);
  await second.manager.delete(made.id);
  // A client with an old connection gets a reset.
  const timer = setInterval(() => {
    for (const socket of sockets) socket.write('x');
  }, 20);
  await Promise.all(closed);
  clearInterval(timer);
  t.equal(await greet('127.0.0.1', 8080), 'ECONNREFUSED');
  guest.unplug();
  await second.manager.stop('destroy');
  await next.close();
  t.equal(await state(), before);
});
