// Hostile clients of HTTP/2 at the ingress: each ends with its connection, costs little, and others are served.
import { connect as connectHttp2 } from 'node:http2';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { ask, type Served, serveGuest, serveIngress, serveRaw } from './ingress-host.ts';
import { END_HEADERS, END_STREAM, FRAME, toBlock, toFrame } from './raw-http2.ts';

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
const [PING, CONTINUATION, PRIORITY] = [6, 9, 2];
const MAX_MIB = 96;
const FLOOD_MS = 2000;

t.setTimeout(scaled(180_000));

/** Sends what `next` makes as fast as it is taken, until the connection ends or the time is over. */
async function flood(t: Test, { port }: Served, first: Buffer, next: (at: number) => Buffer) {
  const socket: Socket = connect({ port, host: '127.0.0.1' });
  t.teardown(() => socket.destroy());
  socket.on('error', () => undefined).resume();
  socket.write(Buffer.concat([Buffer.from(PREFACE), toFrame(FRAME.settings, 0, 0), first]));
  const untilMs = performance.now() + FLOOD_MS;
  let count = 0;
  while (!socket.destroyed && performance.now() < untilMs) {
    const frames = Array.from({ length: 200 }, () => next(count++));
    if (!socket.write(Buffer.concat(frames)))
      await Promise.race([new Promise((resolve) => socket.once('drain', resolve)), sleep(100)]);
    await sleep(1);
  }

  socket.destroy();
  return count;
}

t.test('floods of frames', async (t) => {
  const served = await serveIngress(t);
  const stuck = served.add(await serveRaw(t, (socket) => void socket.resume()), 'public');
  const good = served.add(await serveGuest(t, (_request, response) => void response.end('ok')), 'public');
  const head = (authority: string, method = 'GET') =>
    toBlock({ ':method': method, ':path': '/', ':scheme': 'http', ':authority': authority });
  const open = head(served.hostOf(stuck));
  const unknown = head('nothing.localhost');
  const id = (at: number): number => 2 * at + 1;
  const headers = (at: number, block = open, flags = END_HEADERS | END_STREAM) =>
    toFrame(FRAME.headers, flags, id(at), block);
  const none = Buffer.alloc(0);
  const attacks: Record<string, readonly [Buffer, (at: number) => Buffer]> = {
    'rapid reset': [
      none,
      (at) => Buffer.concat([headers(at), toFrame(FRAME.reset, 0, id(at), Buffer.of(0, 0, 0, 8))]),
    ],
    'requests that are refused, without a window': [
      toFrame(FRAME.settings, 0, 0, Buffer.of(0, 4, 0, 0, 0, 0)),
      (at) => headers(at, unknown),
    ],
    'more streams than allowed': [none, (at) => headers(at)],
    'endless CONTINUATION': [
      headers(0, open, END_STREAM),
      () => toFrame(CONTINUATION, 0, 1, toBlock({ 'x-a': 'b'.repeat(100) })),
    ],
    'empty CONTINUATION': [headers(0, open, END_STREAM), () => toFrame(CONTINUATION, 0, 1)],
    PING: [none, () => toFrame(PING, 0, 0, Buffer.alloc(8))],
    SETTINGS: [none, () => toFrame(FRAME.settings, 0, 0, Buffer.of(0, 4, 0, 0, 255, 255))],
    PRIORITY: [none, (at) => toFrame(PRIORITY, 0, id(at), Buffer.of(0, 0, 0, 0, 1))],
    'a window that overflows': [
      none,
      () => toFrame(FRAME.windowUpdate, 0, 0, Buffer.of(0x7f, 255, 255, 255)),
    ],
    'windows of one byte': [headers(0), () => toFrame(FRAME.windowUpdate, 0, 1, Buffer.of(0, 0, 0, 1))],
    'empty DATA': [
      headers(0, head(served.hostOf(stuck), 'POST'), END_HEADERS),
      () => toFrame(FRAME.data, 0, 1),
    ],
    'DATA beyond the window': [
      headers(0, head(served.hostOf(stuck), 'POST'), END_HEADERS),
      () => toFrame(FRAME.data, 0, 1, Buffer.alloc(16_000)),
    ],
    'padding only': [
      headers(0, head(served.hostOf(stuck), 'POST'), END_HEADERS),
      () => toFrame(FRAME.data, 8, 1, Buffer.concat([Buffer.of(255), Buffer.alloc(255)])),
    ],
  };
  for (const [what, [first, next]] of Object.entries(attacks)) {
    const before = process.memoryUsage().rss;
    const flooding = flood(t, served, first, next);
    await sleep(500);
    const startedAt = performance.now();
    t.match(await ask(served.port, served.hostOf(good)), { status: 200, body: 'ok' }, what);
    const tookMs = performance.now() - startedAt;
    const count = await flooding;
    const mib = (process.memoryUsage().rss - before) / 2 ** 20;
    t.comment(`${what}: ${count} frames, ${mib.toFixed(1)} MiB, another took ${tookMs.toFixed(0)} ms`);
    t.ok(mib < MAX_MIB, `${what}: ${mib.toFixed(1)} MiB`);
    await until(() => stuck.streams.size === 0, `the end of ${stuck.streams.size} connections after ${what}`);
  }
});

t.test('floods of a guest that a client asks by gRPC', async (t) => {
  const served = await serveIngress(t, { idleMs: 5000 });
  const good = served.add(await serveGuest(t, (_request, response) => void response.end('ok')), 'public');
  const ok = toBlock({ ':status': '200', 'content-type': 'application/grpc' });
  const settings = toFrame(FRAME.settings, 0, 0);
  const hint = toFrame(FRAME.headers, END_HEADERS, 1, toBlock({ ':status': '103', link: 'x' }));
  const answers: Record<string, readonly [Buffer, Buffer]> = {
    'endless CONTINUATION': [
      toFrame(FRAME.headers, 0, 1, ok),
      toFrame(CONTINUATION, 0, 1, toBlock({ 'x-a': 'b'.repeat(100) })),
    ],
    'endless interim answers': [Buffer.alloc(0), hint],
    PING: [Buffer.alloc(0), toFrame(PING, 0, 0, Buffer.alloc(8))],
    SETTINGS: [Buffer.alloc(0), settings],
    'pushed answers': [
      Buffer.alloc(0),
      toFrame(5, END_HEADERS, 1, Buffer.concat([Buffer.of(0, 0, 0, 2), ok])),
    ],
    'empty DATA': [toFrame(FRAME.headers, END_HEADERS, 1, ok), toFrame(FRAME.data, 0, 1)],
    'DATA beyond the window': [
      toFrame(FRAME.headers, END_HEADERS, 1, ok),
      toFrame(FRAME.data, 0, 1, Buffer.alloc(16_000)),
    ],
    'windows of one byte': [Buffer.alloc(0), toFrame(FRAME.windowUpdate, 0, 0, Buffer.of(0, 0, 0, 1))],
    'long trailers': [
      toFrame(FRAME.headers, END_HEADERS, 1, ok),
      toFrame(FRAME.headers, END_HEADERS | END_STREAM, 1, toBlock({ 'x-a': 'b'.repeat(120) })),
    ],
  };
  for (const [what, [first, more]] of Object.entries(answers)) {
    let frames = 0;
    const guest = await serveRaw(t, (socket) => {
      socket.on('end', () => socket.destroy());
      socket.once('data', () => {
        socket.write(Buffer.concat([settings, toFrame(FRAME.settings, 1, 0), first]));
        const many = Buffer.concat(Array.from({ length: 200 }, () => more));
        const send = (): void => {
          if (socket.destroyed) return;
          frames += 200;
          if (socket.write(many)) setImmediate(send);
          else socket.once('drain', send);
        };
        send();
        socket.resume();
      });
    });
    const hostile = served.add(guest, 'public');
    const before = process.memoryUsage().rss;
    const client = connectHttp2(`http://127.0.0.1:${served.port}`);
    client.on('error', () => undefined);
    const call = client.request({
      ...{ ':method': 'POST', ':path': '/', ':authority': served.hostOf(hostile), te: 'trailers' },
      'content-type': 'application/grpc',
    });
    let status: unknown;
    call.on('error', () => undefined).resume();
    call.on('response', (headers) => {
      status = headers[':status'];
    });
    await sleep(500);
    const startedAt = performance.now();
    t.match(await ask(served.port, served.hostOf(good)), { status: 200, body: 'ok' }, what);
    const tookMs = performance.now() - startedAt;
    await sleep(FLOOD_MS);
    client.destroy();
    if (what === 'endless interim answers') t.equal(status, 502, what);
    const mib = (process.memoryUsage().rss - before) / 2 ** 20;
    t.comment(`${what}: ${frames} frames, ${mib.toFixed(1)} MiB, another took ${tookMs.toFixed(0)} ms`);
    t.ok(mib < MAX_MIB, `${what}: ${mib.toFixed(1)} MiB`);
    await until(() => hostile.streams.size === 0, `the end of the connection after ${what}`);
  }
});
