// Interactive exec over a connection that is taken over from HTTP, byte by byte.
import { EXEC_FRAME, encodeExecFrame } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { BODY, head, serveCat, stdin, stdinClose } from './cat.ts';
import { decodeFrames, RawClient, serve, summarize } from './support.ts';

const REPLY = 'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n';

const json = (type: number, value: unknown) => encodeExecFrame(type, Buffer.from(JSON.stringify(value)));

function readReply(t: Test, client: RawClient) {
  t.equal(client.text.slice(0, REPLY.length), REPLY, 'the reply is exact');
  return summarize(decodeFrames(client.received.subarray(REPLY.length)));
}

t.test('everything in one packet', async (t) => {
  const { port, id, sandboxes } = await serveCat(t);
  const client = new RawClient(t, port);
  client.write(Buffer.concat([Buffer.from(head(id) + BODY), stdin('hello '), stdin('there'), stdinClose]));
  await client.ended();
  t.match(readReply(t, client), { stdout: 'hello there', stderr: '', result: { exit_code: 4 } });
  t.equal(sandboxes.execs[0]!.hasStdin, true);
  t.same(sandboxes.execs[0]!.calls, ['closeStdin']);
});

t.test('what wants the connection and what answers it read the query alike', async (t) => {
  const { port, id, sandboxes } = await serve(t).then((served) => ({
    ...served,
    id: served.sandboxes.add().id,
  }));
  sandboxes.script = (exec) => {
    exec.output('stdout', Buffer.from([0xff, 0xfe, 0x80]));
    exec.exit({ exitCode: 0 });
  };
  const queries = {
    'stdin=1': true,
    'stdin=1#x': true,
    'a=?&stdin=1': true,
    'stdin=1?x': false,
    'stdin=0': false,
  };
  for (const [query, isInteractive] of Object.entries(queries)) {
    const client = new RawClient(t, port);
    const first = `POST /sandboxes/${id}/exec?${query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`;
    client.write(`${first}Content-Length: ${BODY.length}\r\n\r\n${BODY}`);
    await client.ended();
    t.equal(client.text.startsWith(REPLY), isInteractive, query);
    t.equal(sandboxes.execs.at(-1)?.hasStdin, isInteractive, query);
    t.ok(client.text.includes('\xff\xfe\x80'), `${query}: output arrives as it was made`);
  }
});

t.test('byte by byte, and cut at every place', async (t) => {
  const { port, id } = await serveCat(t);
  const bytes = Buffer.concat([Buffer.from(head(id) + BODY), stdin('abc'), stdinClose]);
  const slow = new RawClient(t, port);
  for (const byte of bytes) {
    slow.write(Uint8Array.of(byte));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await slow.ended();
  t.match(readReply(t, slow), { stdout: 'abc', result: { exit_code: 4 } });
  for (let cut = 1; cut < bytes.length; cut += 3) {
    const client = new RawClient(t, port);
    client.write(bytes.subarray(0, cut));
    await new Promise((resolve) => setTimeout(resolve, 2));
    client.write(bytes.subarray(cut));
    await client.ended();
    t.match(readReply(t, client), { stdout: 'abc', result: { exit_code: 4 } }, `cut at ${cut}`);
  }
});

t.test('chunked bodies, trailers and 100-continue', async (t) => {
  const { port, id } = await serveCat(t);
  const chunked = `5;x=y\r\n${BODY.slice(0, 5)}\r\nA\r\n${BODY.slice(5)}\r\n0\r\nTrailer: 1\r\n\r\n`;
  const bytes = Buffer.concat([
    Buffer.from(head(id, 'Transfer-Encoding: chunked\r\n') + chunked),
    stdin('x'),
    stdinClose,
  ]);
  for (let cut = 1; cut < bytes.length; cut += 5) {
    const client = new RawClient(t, port);
    client.write(bytes.subarray(0, cut));
    await new Promise((resolve) => setTimeout(resolve, 2));
    client.write(bytes.subarray(cut));
    await client.ended();
    t.match(readReply(t, client), { stdout: 'x', result: { exit_code: 4 } }, `cut at ${cut}`);
  }
  const polite = new RawClient(t, port);
  polite.write(head(id, `Content-Length: ${BODY.length}\r\nExpect: 100-continue\r\n`));
  await until(() => polite.text === 'HTTP/1.1 100 Continue\r\n\r\n', 'the interim answer');
  polite.write(Buffer.concat([Buffer.from(BODY), stdinClose]));
  await polite.ended();
  t.match(polite.text.slice(25), REPLY);
});

t.test('connections that were used before, and upgrade headers', async (t) => {
  const { port, id } = await serveCat(t);
  const client = new RawClient(t, port);
  client.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  await until(() => /"status":"ok".*\}$/.test(client.text), 'the first answer');
  const first = client.received.length;
  client.write(Buffer.concat([Buffer.from(head(id) + BODY), stdin('again'), stdinClose]));
  await client.ended();
  client.received = client.received.subarray(first);
  t.match(readReply(t, client), { stdout: 'again', result: { exit_code: 4 } });

  const pipelined = new RawClient(t, port);
  const healthz = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';
  pipelined.write(Buffer.concat([Buffer.from(healthz + head(id) + BODY), stdin('p'), stdinClose]));
  await pipelined.ended();
  t.match(
    pipelined.text,
    /^HTTP\/1.1 200 OK\r\n.*"status":"ok"[^}]*\}HTTP\/1.1 200 OK\r\nContent-Type: application\/octet/s,
  );

  const upgrade = new RawClient(t, port);
  const headers = `Connection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: ${BODY.length}\r\n`;
  upgrade.write(Buffer.concat([Buffer.from(head(id, headers) + BODY), stdinClose]));
  await upgrade.ended();
  t.match(readReply(t, upgrade), { result: { exit_code: 4 } });
});

t.test('signals and sizes arrive, broken ones get an error frame, unknown frames are ignored', async (t) => {
  const { port, id, sandboxes } = await serveCat(t);
  const client = new RawClient(t, port);
  client.write(
    Buffer.concat([
      Buffer.from(head(id) + BODY),
      json(EXEC_FRAME.signal, { signal: 'SIGINT' }),
      json(EXEC_FRAME.resize, { cols: 100, rows: 30 }),
      json(EXEC_FRAME.resize, { cols: 0, rows: 'x' }),
      json(EXEC_FRAME.signal, 7),
      encodeExecFrame(EXEC_FRAME.signal, Buffer.from('{"signal": "SIG\\ud800"}')),
      encodeExecFrame(EXEC_FRAME.resize, Buffer.from('{')),
      encodeExecFrame(200, Buffer.from('what')),
      encodeExecFrame(EXEC_FRAME.stdout, Buffer.from('not yours')),
      stdinClose,
    ]),
  );
  await client.ended();
  t.same(sandboxes.execs[0]!.calls, ['signal SIGINT', 'resize 100x30', 'closeStdin']);
  t.match(readReply(t, client), { stdout: '', result: { exit_code: 4 } });
  const frames = decodeFrames(client.received.subarray(REPLY.length));
  const errors = frames.filter(({ type }) => type === EXEC_FRAME.error);
  t.equal(errors.length, 4);
  t.match(JSON.parse(errors[1]?.payload.toString() ?? ''), { error: /^signal must be .*, got nothing$/ });
});

t.test('a client that half-closes, leaves or breaks the framing ends its command', async (t) => {
  const { port, id, sandboxes } = await serveCat(t);
  const half = new RawClient(t, port);
  half.write(Buffer.concat([Buffer.from(head(id) + BODY), stdin('a')]));
  await until(() => half.text.endsWith('a'), 'the echo');
  half.socket.end();
  await half.ended();
  t.match(readReply(t, half), { stdout: 'a', result: { exit_code: -1, signal: 'SIGKILL' } });

  const gone = new RawClient(t, port);
  gone.write(Buffer.concat([Buffer.from(head(id) + BODY), stdin('a')]));
  await until(() => gone.text.endsWith('a'), 'the echo');
  gone.socket.resetAndDestroy();
  await until(() => sandboxes.execs[1]?.isCancelled === true, 'the end of the command');

  const broken = new RawClient(t, port);
  broken.write(Buffer.concat([Buffer.from(head(id) + BODY), Buffer.from([4, 0, 0, 0, 0, 1, 0, 1])]));
  await broken.ended();
  t.match(readReply(t, broken), {
    result: { exit_code: -1, error: /frame of 65537 bytes, which is over 65536/ },
  });
  t.equal(sandboxes.execs[2]!.isCancelled, true);
});

t.test('the reply has the id of the command only if the client asks', async (t) => {
  const { port, id, sandboxes } = await serveCat(t);
  sandboxes.script = (exec) => {
    exec.id = 'cmd_0123456789abc';
    exec.output('stdout', 'x');
    exec.exit();
  };
  const client = new RawClient(t, port);
  client.write(head(id) + BODY);
  await client.ended();
  t.match(readReply(t, client), { stdout: 'x' });
  const asking = new RawClient(t, port);
  asking.write(head(id).replace('stdin=1', 'stdin=1&command_id=1') + BODY);
  await asking.ended();
  t.match(asking.text, /^HTTP\/1.1 200 OK\r\n.*\r\nX-Command-Id: cmd_0123456789abc\r\n\r\n/);
});

t.test('a full stdin holds the client back', async (t) => {
  const { port, id, sandboxes } = await serve(t).then((served) => ({
    ...served,
    id: served.sandboxes.add().id,
  }));
  sandboxes.script = (exec) => {
    exec.isStdinFull = true;
    exec.events.started?.(1);
  };
  const client = new RawClient(t, port);
  client.write(head(id) + BODY);
  const block = stdin('x'.repeat(65_536));
  let isFull = false;
  for (let i = 0; i < 1000 && !isFull; i++) {
    isFull = !client.socket.write(block);
    if (isFull)
      await Promise.race([new Promise((resolve) => client.socket.once('drain', resolve)), sleep(200)]);
    isFull = client.socket.writableNeedDrain;
  }
  t.ok(isFull, 'the client is held back');
  const exec = sandboxes.execs[0]!;
  const heldAt = exec.stdin.length;
  exec.isStdinFull = false;
  exec.events.drain?.();
  await until(() => exec.stdin.length > heldAt, 'more stdin');
});

t.test('what cannot start is an ordinary answer', async (t) => {
  const { port, id } = await serveCat(t, { bodyIdleMs: 50 });
  const cases: [string, number, RegExp][] = [
    [head('sbx_bad') + BODY, 400, /^sandbox id "sbx_bad" is malformed/],
    [head('sbx_0123456789abc') + BODY, 404, /does not exist/],
    [`${head(id, 'Content-Length: 2\r\n')}{}`, 400, /^cmd must be/],
    [head(id, ''), 400, /^cmd must be/],
    [head(id, 'Content-Length: 1048577\r\n'), 413, /over 1048576/],
    [`${head(id, 'Transfer-Encoding: chunked\r\n')}100001\r\n`, 413, /over 1048576/],
    [`${head(id, 'Transfer-Encoding: chunked\r\n')}zz\r\n`, 400, /chunk size is not hexadecimal/],
    [head(id), 408, /stopped for 50 ms/],
  ];
  for (const [bytes, status, pattern] of cases) {
    const client = new RawClient(t, port);
    client.write(bytes);
    await client.ended();
    const [start = '', body = ''] = client.text.split('\r\n\r\n');
    t.match(start, `HTTP/1.1 ${status} `, bytes.slice(-40));
    t.match(start, /connection: close/i);
    t.match(start, /x-request-id: req_/i);
    t.match(JSON.parse(body).error, pattern);
  }
});

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
