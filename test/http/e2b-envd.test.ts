// envd of sandboxes: the Connect protocol, processes, files and ports, as E2B's SDKs speak to them.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { readEnvelopes } from '../../host-agent/src/e2b/envd/connect-protocol.ts';
import type { PortHost } from '../../host-agent/src/ingress/index.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { type Created, decode, envelope, serveE2b } from './e2b-front.ts';
import { FILE, outflow } from './fake-sandboxes.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

async function start(t: Test, portHost?: PortHost) {
  const keyring = await openKeyring(t);
  const fixture = makeApp({ authenticator: keyring.authenticator });
  const e2b = await serveE2b(t, { ...fixture, keyring, ...(portHost && { portHost }) });
  const { text: key } = await keyring.registry.create({ name: 'one' }, 'e2b');
  const body = { templateID: 'base', allow_internet_access: false };
  const made: Created = (await e2b.ask('POST', '/v2/sandboxes', { key, body })).json;
  return { ...fixture, keyring, e2b, key, made };
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

t.test('a process starts, writes and ends, in envelopes', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  const requests: unknown[] = [];
  const info = { id: 'cmd_0123456789abc', cmd: ['x'], isCmdCut: false, isDetached: true, hasStdin: false };
  const running = { ...info, pid: 7, startedUnixMs: 1000 };
  sandboxes.commandCalls.start = async (request) => {
    requests.push(request);
    return running;
  };
  let outcome: object = { exitCode: 3, durationMs: 1 };
  sandboxes.commandCalls.attach = (_id, _request, events) => {
    queueMicrotask(() => {
      events.records([{ kind: 'ring', seq: 0 } as never], 0);
      const data = Buffer.from('hello\n');
      events.records([{ kind: 'output', seq: 0, stream: 'stdout', unixMs: 1, data }], 0);
      events.end({ nextSeq: 1, info: { ...running, endedUnixMs: 2, outcome } as never });
    });
    const nothing = (): void => undefined;
    return {
      consumed: nothing,
      closeStdin: nothing,
      signal: nothing,
      resize: nothing,
      write: () => true,
      cancel: nothing,
    } as never;
  };
  const process = { cmd: '/bin/bash', args: ['-l', '-c', 'echo'], envs: { A: 'b' }, cwd: 'work' };
  const answers = await e2b.stream('process.Process/Start', { process, stdin: false }, made);
  t.same(answers, [
    { flags: 0, message: { event: { start: { pid: 7 } } } },
    { flags: 0, message: { event: { data: { stdout: base64('hello\n') } } } },
    {
      flags: 0,
      message: {
        event: { end: { exitCode: 3, exited: true, status: 'exit status 3', error: 'exit status 3' } },
      },
    },
    { flags: 2, message: {} },
  ]);
  t.match(requests, [
    { cmd: ['/bin/bash', '-l', '-c', 'echo'], env: { A: 'b' }, cwd: '/root/work', user: 'root' },
  ]);
  outcome = { exitCode: -1, signal: 'SIGKILL', durationMs: 1 };
  const killed = await e2b.stream('process.Process/Start', { process }, made);
  t.match(killed.at(-2)?.message.event.end, {
    exitCode: -1,
    status: 'signal: killed',
    error: 'signal: killed',
  });

  const ended = { ...running, endedUnixMs: Date.now() + 60_000, outcome: { exitCode: 0, durationMs: 1 } };
  sandboxes.commandCalls.list = async () => [ended as never];
  const input = { process: { pid: 7 }, input: { stdin: base64('x') } };
  const late = await e2b.call('process.Process/SendInput', input, made);
  t.match([late.status, late.json.code], [404, 'not_found'], 'also where the clock of the guest is ahead');

  sandboxes.commandCalls.list = async () => [running];
  sandboxes.commandCalls.write = async () => {
    sandboxes.commandCalls.list = async () => [ended as never];
    throw new AppError('conflict', 'the command takes no input');
  };
  const open = { ...running, hasStdin: true };
  sandboxes.commandCalls.list = async () => [open as never];
  const ending = await e2b.call('process.Process/SendInput', input, made);
  t.match([ending.status, ending.json.code], [404, 'not_found'], 'and where it ends just now');

  sandboxes.commandCalls.list = async () => [running];
  const listed = await e2b.call('process.Process/List', {}, made);
  t.match(listed.json, { processes: [{ pid: 7, config: process }] }, 'with the request as it was sent');
  const missing = await e2b.call(
    'process.Process/SendSignal',
    { process: { pid: 8 }, signal: 'SIGNAL_SIGKILL' },
    made,
  );
  t.match([missing.status, missing.json.code], [404, 'not_found']);
  t.equal(
    (await e2b.call('process.Process/SendSignal', { process: { pid: 7 }, signal: 9 }, made)).status,
    200,
  );
  const other = await e2b.call(
    'process.Process/SendSignal',
    { process: { pid: 7 }, signal: 'SIGNAL_X' },
    made,
  );
  t.match([other.status, other.json.code], [501, 'unimplemented']);
});

t.test('time limits have fractions, as Python writes them', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  const limits: unknown[] = [];
  sandboxes.commandCalls.start = async ({ timeout_s }) => {
    limits.push(timeout_s);
    throw new AppError('not_found', 'no such command');
  };
  const ask = (text: string) => {
    const message = { process: { cmd: 'x' } };
    return e2b.stream('process.Process/Start', message, made, { 'connect-timeout-ms': text });
  };
  for (const text of ['1500', '1500.0', '1499.5']) await ask(text);
  t.same(limits, [3, 3, 3]);
  t.match(await ask('soon'), [{ flags: 2, message: { error: { code: 'invalid_argument' } } }]);
});

t.test('a terminal of no size, whose zeros are left out, has one that programs take', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  const sizes: unknown[] = [];
  sandboxes.commandCalls.start = async ({ tty }) => {
    sizes.push(tty);
    throw new AppError('not_found', 'no such command');
  };
  for (const pty of [{ size: {} }, {}, { size: { cols: 0, rows: 50 } }, { size: { cols: 100, rows: 30 } }])
    await e2b.stream('process.Process/Start', { process: { cmd: 'sh' }, pty }, made);
  t.same(sizes, [
    { cols: 80, rows: 24 },
    { cols: 80, rows: 24 },
    { cols: 80, rows: 50 },
    { cols: 100, rows: 30 },
  ]);
});

t.test('what a key may not read changes no user of other keys', async (t) => {
  const { e2b, made, sandboxes, keyring } = await start(t);
  let reads = 0;
  let passwd = 'root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n';
  sandboxes.onRead = async () => {
    reads += 1;
    const sizeBytes = passwd.length;
    return { body: outflow(passwd), sizeBytes, contentBytes: sizeBytes, entry: FILE };
  };
  const users: unknown[] = [];
  sandboxes.commandCalls.start = async ({ user }) => {
    users.push(user);
    throw new AppError('not_found', 'no such command');
  };
  const policy = { operations: ['view' as const, 'exec' as const] };
  const { text: key } = await keyring.registry.create({ name: 'exec', policy }, 'e2b');
  const narrow: Created = (await e2b.ask('GET', `/sandboxes/${made.sandboxID}`, { key })).json;
  for (const sandbox of [narrow, made, made, narrow])
    await e2b.stream('process.Process/Start', { process: { cmd: 'x' } }, sandbox);
  t.same([users, reads], [['root', 'user', 'user', 'user'], 1]);
  const { text: other } = await keyring.registry.create({ name: 'other' }, 'e2b');
  const body = { templateID: 'base', allow_internet_access: false };
  const second: Created = (await e2b.ask('POST', '/v2/sandboxes', { key: other, body })).json;
  passwd += 'x'.repeat(10_000);
  for (const sandbox of [second, second])
    await e2b.stream('process.Process/Start', { process: { cmd: 'x' } }, sandbox);
  t.same([users.slice(4), reads], [['user', 'user'], 3], 'a long file is not remembered');
});

t.test('failures of a stream come in its end, and a lost guest cuts the connection', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  const none = await e2b.stream('process.Process/Connect', { process: { pid: 99 } }, made);
  t.match(none, [{ flags: 2, message: { error: { code: 'not_found' } } }]);
  t.match(await e2b.stream('process.Process/Start', { process: {} }, made), [
    { flags: 2, message: { error: { code: 'invalid_argument' } } },
  ]);
  sandboxes.commandCalls.start = async () => ({
    ...{ id: 'cmd_0123456789abc', cmd: ['x'], isCmdCut: false, isDetached: true, hasStdin: false },
    ...{ pid: 7, startedUnixMs: 1000 },
  });
  sandboxes.commandCalls.attach = (_id, _request, events) => {
    queueMicrotask(() => {
      events.records([{ kind: 'ring', seq: 0 } as never], 0);
      events.failed(new AppError('not_found', 'the sandbox was deleted'));
    });
    const nothing = (): void => undefined;
    return {
      consumed: nothing,
      closeStdin: nothing,
      signal: nothing,
      resize: nothing,
      write: () => true,
      cancel: nothing,
    } as never;
  };
  await t.rejects(e2b.stream('process.Process/Start', { process: { cmd: 'x' } }, made), 'no end envelope');
});

t.test('giant and broken messages are refused', async (t) => {
  const { e2b, made } = await start(t);
  const head = Buffer.from([0, 0xff, 0xff, 0xff, 0xff]);
  const headers = {
    'x-access-token': made.envdAccessToken,
    'e2b-sandbox-id': made.sandboxID,
    'e2b-sandbox-port': '49983',
  };
  const half = envelope({ process: { cmd: 'x' } }).subarray(0, 8);
  for (const [body, code] of [
    [head, 'resource_exhausted'],
    [half, 'invalid_argument'],
    [envelope({}, 1), 'unimplemented'],
    [Buffer.from([0, 0, 0, 0, 1, 0x7b]), 'invalid_argument'],
  ] as const) {
    const { text } = await e2b.ask('POST', '/process.Process/Start', { body: new Uint8Array(body), headers });
    t.match(decode(Buffer.from(text, 'latin1')), [{ flags: 2, message: { error: { code } } }], code);
  }
  t.equal((await e2b.ask('POST', '/filesystem.Filesystem/Stat', { body: '{', headers })).status, 400);
  const deep = `{"path":"/x","y":${'['.repeat(200)}${']'.repeat(200)}}`;
  const nested = await e2b.ask('POST', '/filesystem.Filesystem/Stat', { body: deep, headers });
  t.match([nested.status, nested.json.code], [400, 'invalid_argument']);
  const many = { path: '/x', y: Array.from({ length: 400_000 }, () => ({})) };
  const giant = await e2b.call('filesystem.Filesystem/Stat', many, made);
  t.match([giant.status, giant.json.code], [429, 'resource_exhausted']);
  t.match(await e2b.stream('process.Process/Start', many, made), [
    { flags: 2, message: { error: { code: 'resource_exhausted' } } },
  ]);
  const stdin = Buffer.alloc(2_000_000).toString('base64');
  const input = await e2b.call('process.Process/SendInput', { process: { pid: 9 }, input: { stdin } }, made);
  t.equal(input.status, 404, 'input may be larger');
  t.equal((await e2b.ask('POST', '/process.Process/Nonsense', { body: '{}', headers })).status, 501);
});

t.test('messages are read in pieces of every size', async (t) => {
  const bytes = Buffer.concat([envelope({ a: 1 }), envelope({ b: 'x'.repeat(3000) }), envelope({}, 2)]);
  for (const size of [1, 2, 7, 4096]) {
    let at = 0;
    const read = async () => {
      const piece = bytes.subarray(at, at + size);
      at += size;
      return piece.length === 0 ? undefined : piece;
    };
    const seen: unknown[] = [];
    for await (const message of readEnvelopes({ read, discard: () => undefined })) seen.push(message);
    t.same(seen, [{ a: 1 }, { b: 'x'.repeat(3000) }], `${size}`);
  }
});

t.test('files are described, and links show what they lead to', async (t) => {
  const { e2b, made, sandboxes } = await start(t);
  sandboxes.onFileCall = async ({ place, stat }) => {
    const path = Buffer.from(place?.path ?? '');
    const isLink = path.toString() === '/l' && stat?.isLink === true;
    const entry = {
      ...FILE,
      path,
      sizeBytes: 5,
      mode: isLink ? 0o777 : 0o640,
      ...(isLink && { type: 'symlink' as const, target: Buffer.from('f') }),
    };
    return { entry, entries: [entry], hasMore: false, count: 1 };
  };
  const { json } = await e2b.call('filesystem.Filesystem/Stat', { path: '/a/b.txt' }, made);
  t.match(json.entry, {
    name: 'b.txt',
    path: '/a/b.txt',
    type: 'FILE_TYPE_FILE',
    size: '5',
    mode: 0o640,
    permissions: '-rw-r-----',
    owner: 'root',
  });
  const relative = await e2b.call('filesystem.Filesystem/Stat', { path: '~/x' }, made);
  t.equal(relative.json.entry.path, '/root/x');
  const foreign = await e2b.call('filesystem.Filesystem/Stat', { path: '~other/x' }, made);
  t.match([foreign.status, foreign.json.code], [400, 'invalid_argument']);
  const up = await e2b.call('filesystem.Filesystem/Stat', { path: '../../etc' }, made);
  t.equal(up.json.entry.path, '/etc');
});

t.test('no answer begins before its request is whole, as some clients send no more then', async (t) => {
  const { e2b, made } = await start(t);
  for (const [method, messages] of [
    ['process.Process/Start', [{ process: { cmd: 'true' } }]],
    ['process.Process/StreamInput', [{ start: { process: { pid: 1 } } }]],
  ] as const) {
    const body = Buffer.concat(messages.map((message) => Buffer.from(envelope(message))));
    const socket = connect({ port: e2b.port, host: '127.0.0.1' });
    t.teardown(() => socket.destroy());
    let received = '';
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      received += chunk;
    });
    socket.write(
      `POST /${method} HTTP/1.1\r\nHost: 127.0.0.1:${e2b.port}\r\nContent-Type: application/connect+json\r\n` +
        `X-Access-Token: ${made.envdAccessToken}\r\nE2b-Sandbox-Id: ${made.sandboxID}\r\n` +
        `E2b-Sandbox-Port: 49983\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n`,
    );
    await sleep(100);
    t.equal(received, '', `${method} waits`);
    socket.write(body);
    await once(socket, 'close');
    t.match(received, /^HTTP\/1\.1 200 /);
  }
});
