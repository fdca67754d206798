// Where the daemon is reached, and by whom: sockets in the file system, addresses that cannot be had, names of clients.
import { EventEmitter } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { chmod, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { createServer as createHttpServer, type Server } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { nameByAddress, nameClients } from '../../../../../host-agent/src/http/server/accept-gate.ts';
import { listenOn, type SocketPath } from '../../../../../host-agent/src/http/server/listening.ts';
import { until } from '../../../../support/until.ts';

async function makeDir(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'listening-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

function serverOf(t: Test): Server {
  const server = createHttpServer();
  t.teardown(() => server.close());
  return server;
}

t.test('it listens on an address, and reports the port that was chosen', async (t) => {
  const server = serverOf(t);
  const { address } = await listenOn(server, { host: '127.0.0.1', port: 0 });
  t.match(address, { host: '127.0.0.1', port: Number });
  t.equal(server.listenerCount('error'), 0);
  const { port } = address as { port: number };
  await t.rejects(listenOn(serverOf(t), { host: '127.0.0.1', port }), {
    code: 'conflict',
    message: `cannot listen on 127.0.0.1:${port}: address in use; stop what uses it, or choose another with --listen`,
    details: { stage: 'listen' },
    cause: { code: 'EADDRINUSE' },
  });
  await t.rejects(listenOn(serverOf(t), { host: '2001:db8::1', port: 1 }), {
    message: /^cannot listen on \[2001:db8::1\]:1: this machine has no such address/,
  });
  for (const [code, reason] of [
    ['ENOTFOUND', 'no such host name; choose an address with --listen'],
    ['EACCES', 'permission denied; choose a port above 1023 with --listen, or run as root'],
    ['EWHATEVER', 'listen failed'],
  ]) {
    const failing = new EventEmitter();
    const error = Object.assign(new Error('listen failed'), { code });
    Object.assign(failing, { listen: () => failing.emit('error', error) });
    await t.rejects(listenOn(failing as Server, { host: '127.0.0.1', port: 1 }), {
      message: `cannot listen on 127.0.0.1:1: ${reason}`,
    });
  }
});

t.test('a Unix socket has the requested mode and owner', async (t) => {
  const dir = await makeDir(t);
  const before = process.umask();
  let count = 0;
  const listen = async (more: Partial<SocketPath>) => {
    const path = join(dir, `s${count++}`);
    const { address } = await listenOn(serverOf(t), { path, ...more });
    t.same(address, { path, ...more });
    const { mode, uid, gid } = await stat(path);
    return [(mode & 0o777).toString(8), uid, gid];
  };
  t.same(await listen({}), ['600', 0, 0]);
  t.same(await listen({ mode: 0o660 }), ['660', 0, 0]);
  t.same(await listen({ owner: 'daemon' }), ['600', 1, 1]);
  t.same(await listen({ owner: 'daemon:bin' }), ['600', 1, 2]);
  t.same(await listen({ owner: '12345' }), ['600', 12345, 12345]);
  t.same(await listen({ owner: '0:54321' }), ['600', 0, 54321]);
  t.equal(process.umask(), before);
  for (const [owner, what] of [
    ['nobody-at-all', 'user "nobody-at-all"'],
    ['1234567890', 'user "1234567890"'],
    ['x1', 'user "x1"'],
    ['1x', 'user "1x"'],
    ['0:none-such', 'group "none-such"'],
  ])
    await t.rejects(listen({ owner: String(owner) }), {
      code: 'conflict',
      message: `the socket’s owner: this host has no ${what}`,
    });
  await t.rejects(listen({ path: join(dir, 'none', 's') }), {
    message: /its directory does not exist, or cannot/,
  });
  t.equal(process.umask(), before);
});

t.test('a file that replaces the socket gets neither its owner nor its mode', async (t) => {
  const dir = await makeDir(t);
  const [path, secret] = [join(dir, 's'), join(dir, 'secret')];
  writeFileSync(secret, 'x', { mode: 0o600 });
  const server = serverOf(t);
  server.once('listening', () => {
    rmSync(path, { force: true });
    symlinkSync(secret, path);
  });
  await t.rejects(listenOn(server, { path, owner: 'daemon', mode: 0o666 }), {
    code: 'conflict',
    message: `cannot listen on ${path}: another process took its name`,
  });
  const { mode, uid } = await stat(secret);
  t.same([mode & 0o777, uid], [0o600, 0]);
  t.same(readdirSync(dir).sort(), ['s', 'secret'], 'nothing else is left');
});

t.test('others can change no directory of a socket, but its owner’s and a sticky one', async (t) => {
  const root = await makeDir(t);
  const listen = async (mode: number, uid: number, more: Partial<SocketPath> & { gid?: number } = {}) => {
    const { gid = uid, ...socket } = more;
    const dir = mkdtempSync(join(root, 'd-'));
    mkdirSync(join(dir, 'below'));
    chmodSync(dir, mode);
    chownSync(dir, uid, gid);
    for (const path of [join(dir, 's'), join(dir, 'below/s')]) {
      const { release } = await listenOn(serverOf(t), { path, ...socket });
      t.ok(lstatSync(path).isSocket());
      await release();
      t.notOk(existsSync(path), 'it is gone before its server has closed');
      await release();
    }
  };
  const refused = (what: string) => ({
    code: 'conflict',
    message: new RegExp(
      `^cannot listen on .*: it lies in .*, which ${what} can change: who does could answer`,
    ),
  });
  await listen(0o755, 0);
  await listen(0o1777, 0, { owner: 'daemon' });
  await listen(0o700, 1, { owner: 'daemon' });
  await t.rejects(listen(0o777, 0), refused('every user'));
  await listen(0o775, 0);
  await t.rejects(listen(0o775, 0, { gid: 50 }), refused('group 50'));
  await t.rejects(listen(0o755, 1), refused('user 1'));
  await t.rejects(listen(0o1777, 2, { owner: 'daemon' }), refused('every user'));
  const [home, real] = [mkdtempSync(join(root, 'home-')), mkdtempSync(join(root, 'real-'))];
  symlinkSync(real, join(home, 'link'));
  await listenOn(serverOf(t), { path: join(home, 'link/s') }).then(({ release }) => release());
  chownSync(home, 2, 2);
  await t.rejects(listenOn(serverOf(t), { path: join(home, 'link/s') }), {
    message: /link is a link in a directory that user 2 can change$/,
  });
});

t.test('the socket of a killed daemon is replaced, one in use is not', async (t) => {
  const dir = await makeDir(t);
  const path = join(dir, 's');
  const made = await new Promise<{ close: () => void }>((resolve) => {
    const server = createServer().listen(path, () => resolve(server));
  });
  await t.rejects(listenOn(serverOf(t), { path }), {
    code: 'conflict',
    message: `cannot listen on ${path}: another process listens there; choose another path`,
  });
  made.close();
  const stale = join(dir, 'stale');
  // A link to nothing is no socket, and neither is a file.
  for (const make of [() => symlink('/nowhere', stale), () => writeFile(stale, '')]) {
    await make();
    await t.rejects(listenOn(serverOf(t), { path: stale }), {
      code: 'conflict',
      message: `cannot listen on ${stale}: there is something else; choose another path`,
    });
    await rm(stale);
  }
});

/** What a socket of a client of this host tells of itself. */
const at = (remoteAddress: string | undefined, more: object = {}): Socket =>
  ({ remoteAddress, remotePort: 4, localAddress: '192.0.2.1', localPort: 5, ...more }) as unknown as Socket;

async function answering(t: Test, script: string) {
  const path = join(await makeDir(t), 'peers');
  await writeFile(path, `#!/bin/sh\n${script}\n`);
  await chmod(path, 0o755);
  return nameClients(path);
}

t.test(
  'a client that the kernel knows is a user, others are addresses, one that left has no name',
  async (t) => {
    const name = await answering(t, 'cat > "$0.asked"; printf "1000\\n-\\ngone\\n0\\n"');
    t.same(
      await name([
        at('127.0.0.1'),
        at('10.0.0.1', { destroyed: true }),
        at('::ffff:192.0.2.7', { localAddress: '::FFFF:192.0.2.1' }),
        at(undefined, { _handle: { fd: -1 } }),
        at('192.0.2.8'),
        at(undefined),
        at('192.0.2.9'),
      ]),
      ['user 1000', undefined, '192.0.2.7', undefined, undefined, undefined, 'user 0'],
    );
    const asked = await answering(t, 'cat > "$0.asked"; cat "$0.asked"');
    t.same(await asked([at('::ffff:127.0.0.1', { localAddress: '::ffff:127.0.0.2' }), at('::1')]), [
      'user tcp 127.0.0.1 4 127.0.0.2 5',
      'user tcp ::1 4 192.0.2.1 5',
    ]);
    t.same(await asked([]), []);
  },
);

t.test('one on a socket in the file system is asked after by its inode', async (t) => {
  const path = join(await makeDir(t), 's');
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket)).listen(path);
  t.teardown(() => server.close());
  const client = connect(path);
  t.teardown(() => client.destroy());
  await until(() => sockets.length === 1, 'the client');
  const asked = await answering(t, 'cat');
  t.match(await asked(sockets), [/^user unix \d+$/]);
  sockets[0]?.destroy();
  t.same(await asked(sockets), [undefined]);
});

t.test('a failing look-up of users rejects', async (t) => {
  const failing = await answering(t, 'exit 3');
  await t.rejects(failing([at('127.0.0.1')]), { code: 3 });
  await t.rejects(nameClients('/nowhere')([at('127.0.0.1')]), { code: 'ENOENT' });
});

t.test('an address is a client, and of IPv6 all that share its network', (t) => {
  for (const [address, name] of [
    [undefined, 'this host'],
    ['192.0.2.7', '192.0.2.7'],
    ['::ffff:192.0.2.7', '192.0.2.7'],
    ['::FFFF:192.0.2.7', '192.0.2.7'],
    ['::ffff:1', '0:0:0:0::/64'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['2001:db8:1:2:3::', '2001:db8:1:2::/64'],
    ['1::2:3:4:5:6:7', '1:0:2:3::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['::', '0:0:0:0::/64'],
  ] as const)
    t.equal(nameByAddress(at(address)), name);

  t.end();
});
