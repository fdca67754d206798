// Clients that end their side of the connection after the request, which is not leaving; and those that do leave.
import { once } from 'node:events';
import t, { type Test } from 'tap';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { until } from '../support/until.ts';
import { outflow } from './fake-sandboxes.ts';
import { decodeFrames, RawClient, type Served, serve, summarize } from './support.ts';

function request(method: string, path: string, body = ''): string {
  const length = body === '' ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
  return `${method} ${path} HTTP/1.1\r\nHost: x\r\n${length}\r\n${body}`;
}

/** Sends the request and at once the end; resolves with everything that came. */
async function askHalfClosed(t: Test, { port }: Served, text: string): Promise<RawClient> {
  const client = new RawClient(t, port);
  client.socket.end(text);
  await client.ended();
  return client;
}

function chunksOf(client: RawClient): Buffer {
  let rest = client.received.subarray(client.text.indexOf('\r\n\r\n') + 4);
  const parts: Buffer[] = [];
  for (;;) {
    const end = rest.indexOf('\r\n');
    const size = Number.parseInt(rest.toString('latin1', 0, end), 16);
    if (!(size > 0)) return Buffer.concat(parts);
    parts.push(rest.subarray(end + 2, end + 2 + size));
    rest = rest.subarray(end + 4 + size);
  }
}

t.test('every kind of answer reaches a client that has ended its side', async (t) => {
  const served = await serve(t);
  const { sandboxes } = served;
  const { id } = sandboxes.add();
  sandboxes.onCreate = () => new Promise((resolve) => setTimeout(resolve, 150));
  const created = await askHalfClosed(t, served, request('POST', '/sandboxes', '{}'));
  t.match(created.text, /^HTTP\/1.1 201 .*"id":"sbx_/s);
  t.match(
    (await askHalfClosed(t, served, request('GET', '/sandboxes'))).text,
    /^HTTP\/1.1 200 .*"sandboxes"/s,
  );
  const missing = request('GET', '/sandboxes/sbx_0123456789abc');
  t.match((await askHalfClosed(t, served, missing)).text, /^HTTP\/1.1 404 /);

  sandboxes.onPull = async () => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return { sizeBytes: 3_000_000, contentBytes: 3_000_000, body: outflow(Buffer.alloc(3_000_000)) };
  };
  const pulled = await askHalfClosed(t, served, request('GET', `/sandboxes/${id}/files?path=/x`));
  t.equal(pulled.received.length - pulled.text.indexOf('\r\n\r\n') - 4, 3_000_000);

  sandboxes.onPush = async (_path, read) => {
    let bytes = 0;
    for (let chunk = await read(); chunk !== undefined; chunk = await read()) bytes += chunk.length;
    return { files: 0, bytes };
  };
  const pushed = request('POST', `/sandboxes/${id}/files?path=/x`, 'x'.repeat(500_000));
  t.match((await askHalfClosed(t, served, pushed)).text, /"bytes":500000/);

  sandboxes.script = (exec) => {
    setTimeout(() => exec.events.started?.(1), 30);
    setTimeout(() => exec.output('stdout', 'early '), 60);
    setTimeout(() => exec.output('stdout', 'late'), 300);
    setTimeout(() => exec.exit({ exitCode: 3 }), 330);
  };
  const ran = await askHalfClosed(t, served, request('POST', `/sandboxes/${id}/exec`, '{"cmd":["x"]}'));
  t.match(summarize(decodeFrames(chunksOf(ran))), { stdout: 'early late', result: { exit_code: 3 } });
  t.equal(sandboxes.execs[0]!.isCancelled, false);
});

t.test(
  'a client that has left ends its request, though a half-closed connection looks the same at first',
  async (t) => {
    const { port, sandboxes, lines } = await serve(t);
    const { id } = sandboxes.add();
    for (const leave of ['destroy', 'resetAndDestroy'] as const) {
      sandboxes.execs.length = 0;
      sandboxes.script = (exec) => exec.events.started?.(1);
      const client = new RawClient(t, port);
      client.write(request('POST', `/sandboxes/${id}/exec`, '{"cmd":["sleep"]}'));
      await until(() => client.text.includes('200 OK'), 'the head');
      client.socket[leave]();
      await until(() => sandboxes.execs[0]!.isCancelled, `the end of a silent command after ${leave}`);

      sandboxes.execs.length = 0;
      sandboxes.script = () => {};
      const early = new RawClient(t, port);
      early.write(request('POST', `/sandboxes/${id}/exec`, '{"cmd":["sleep"]}'));
      await until(() => sandboxes.execs.length === 1, 'the command');
      early.socket[leave]();
      await until(() => sandboxes.execs[0]!.isCancelled, `the end of one that has not begun after ${leave}`);
    }
    let hasBegun = false;
    sandboxes.onCreate = (_options, signal) =>
      new Promise((_, reject) => {
        hasBegun = true;
        signal?.addEventListener('abort', () => reject(signal.reason));
      });
    const creating = new RawClient(t, port);
    creating.socket.end(request('POST', '/sandboxes'));
    await until(() => hasBegun, 'the create');
    await new Promise((resolve) => setTimeout(resolve, 100));
    creating.socket.destroy();
    await until(
      () => lines.some(({ reason }) => /client left/.test(String(reason))),
      'the end of the create',
    );
  },
);

t.test('a connection that is kept open ends with its client', async (t) => {
  const { port } = await serve(t);
  const client = new RawClient(t, port);
  client.write(request('GET', '/healthz'));
  await until(() => client.text.includes('"ok"'), 'the answer');
  client.socket.end();
  await client.ended();
  const pipelined = new RawClient(t, port);
  pipelined.socket.end(request('GET', '/healthz') + request('GET', '/whoami'));
  await pipelined.ended();
  t.match(pipelined.text, /"ok".*"scoped"/s, 'after the last of several answers');
});

t.test('half a request is not answered as a whole one', async (t) => {
  const served = await serve(t);
  const { sandboxes } = served;
  const { id } = sandboxes.add();
  let error: unknown;
  sandboxes.onPush = async (_path, read) => {
    try {
      while ((await read()) !== undefined);
    } catch (cause) {
      error = cause;
      throw cause;
    }
    return { files: 0, bytes: 0 };
  };
  const client = new RawClient(t, served.port);
  const head = `POST /sandboxes/${id}/files?path=/x HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc`;
  client.socket.end(head);
  await client.ended();
  t.notMatch(client.text, / 200 /);
  await until(() => error instanceof AppError, 'the end of the push');
  const exec = await askHalfClosed(
    t,
    served,
    `POST /sandboxes/${id}/exec HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"cmd":`,
  );
  t.notMatch(exec.text, / 200 /);
  t.same(sandboxes.execs, []);
});

t.test('a slow reader that has ended its side gets everything', async (t) => {
  const { port, sandboxes } = await serve(t);
  const { id } = sandboxes.add();
  sandboxes.onPull = async () => ({
    contentBytes: 20_000_000,
    body: outflow(...Array.from({ length: 200 }, () => Buffer.alloc(100_000))),
  });
  const client = new RawClient(t, port);
  let receivedBytes = 0;
  client.socket.removeAllListeners('data').on('data', (bytes: Buffer) => {
    receivedBytes += bytes.length;
  });
  client.socket.pause();
  client.socket.end(request('GET', `/sandboxes/${id}/files?path=/x`));
  await once(client.socket, 'finish');
  await new Promise((resolve) => setTimeout(resolve, 500));
  client.socket.resume();
  await client.ended();
  t.ok(receivedBytes > 20_000_000);
});

t.test('a client that this host cannot see is asked by bytes without meaning', async (t) => {
  const { port, sandboxes } = await serve(t, { readPeers: async () => () => undefined });
  const { id } = sandboxes.add();
  sandboxes.script = (exec) => exec.events.started?.(1);
  const staying = new RawClient(t, port);
  staying.socket.end(request('POST', `/sandboxes/${id}/exec`, '{"cmd":["sleep"]}'));
  await until(() => chunksOf(staying).length >= 16, 'two frames of no bytes');
  sandboxes.execs[0]!.output('stdout', 'out');
  sandboxes.execs[0]!.exit();
  await staying.ended();
  t.match(summarize(decodeFrames(chunksOf(staying))), { stdout: 'out', result: { exit_code: 0 } });

  const leaving = new RawClient(t, port);
  leaving.write(request('POST', `/sandboxes/${id}/exec`, '{"cmd":["sleep"]}'));
  await until(() => leaving.text.includes('200 OK'), 'the head');
  leaving.socket.destroy();
  await until(() => sandboxes.execs[1]!.isCancelled, 'the end of the command');

  let finish = (): void => {};
  let isCancelled = false;
  sandboxes.onCreate = (_options, signal) =>
    new Promise((resolve, reject) => {
      finish = resolve;
      signal?.addEventListener('abort', () => {
        isCancelled = true;
        reject(signal.reason);
      });
    });
  const creating = new RawClient(t, port);
  creating.socket.end(request('POST', '/sandboxes'));
  await until(() => creating.text.startsWith('HTTP/1.1 100 Continue\r\n\r\n'), 'an interim answer');
  finish();
  await creating.ended();
  t.match(creating.text, /^(HTTP\/1.1 100 Continue\r\n\r\n)+HTTP\/1.1 201 /);
  const gone = new RawClient(t, port);
  gone.write(request('POST', '/sandboxes'));
  await until(() => sandboxes.created.length === 2, 'the create');
  gone.socket.destroy();
  await until(() => isCancelled, 'the end of the create');
});
