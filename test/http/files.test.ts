// The files routes over fake sandboxes: parameters, headers, streaming, and clients that stop.
import { once } from 'node:events';
import t, { type Test } from 'tap';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { until } from '../support/until.ts';
import { outflow } from './fake-sandboxes.ts';
import { ask, makeApp, RawClient, serve, UNKNOWN_ID } from './support.ts';

t.test('parameters are checked in order', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  for (const [method, path, status, pattern] of [
    ['GET', `/sandboxes/x/files`, 400, /sandbox id/],
    ['GET', `/sandboxes/${UNKNOWN_ID}/files`, 400, /parameter path is missing/],
    ['GET', `/sandboxes/${UNKNOWN_ID}/files?path=/x`, 404, /does not exist/],
    ['POST', `/sandboxes/${UNKNOWN_ID}/files?path=/x`, 404, /does not exist/],
    ['GET', `/sandboxes/${id}/files?path=`, 400, /path is missing/],
    ['POST', `/sandboxes/${id}/files`, 400, /path is missing/],
    ['GET', `/sandboxes/${id}/files?path=etc/x`, 400, /absolute path.*"etc\/x"/],
    ['POST', `/sandboxes/${id}/files?path=./x`, 400, /absolute path/],
    ['GET', `/sandboxes/${id}/files?path=/a%00b`, 400, /NUL/],
    ['GET', `/sandboxes/${id}/files?path=/x&max_bytes=0`, 400, /max_bytes.*at least 1.*"0"/],
    ['GET', `/sandboxes/${id}/files?path=/x&max_bytes=-1`, 400, /max_bytes/],
    ['GET', `/sandboxes/${id}/files?path=/x&max_bytes=1.5`, 400, /max_bytes/],
    ['GET', `/sandboxes/${id}/files?path=/x&max_bytes=99999999999999999999`, 400, /max_bytes/],
    ['GET', `/sandboxes/${id}/files?path=/x&format=zip`, 400, /format must be one of raw, tar/],
    ['PUT', `/sandboxes/${id}/files?path=/x`, 405, /DELETE, GET, HEAD, PATCH, POST/],
  ] as const) {
    const { status: got, error } = await ask(app, method, path);
    t.equal(got, status, `${method} ${path}`);
    t.match(error, pattern);
  }
});

t.test('a pull says how long the file is, and whether it was cut', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const asked: unknown[] = [];
  const cancels: string[] = [];
  sandboxes.onPull = async (path, maxBytes) => {
    asked.push([path, maxBytes]);
    return {
      sizeBytes: 5,
      contentBytes: Math.min(5, maxBytes ?? 0),
      body: { ...outflow('hello'.slice(0, maxBytes)), cancel: () => void cancels.push(path) },
    };
  };
  const whole = await ask(app, 'GET', `/sandboxes/${id}/files?path=/a%20b`);
  t.match(whole, { status: 200, body: 'hello' });
  const of = (headers: Headers) =>
    ['x-file-size', 'x-truncated', 'content-length'].map((name) => headers.get(name));
  t.same(of(whole.headers), ['5', null, '5']);
  const cut = await ask(app, 'GET', `/sandboxes/${id}/files?path=/x&max_bytes=2`);
  t.same([cut.body, ...of(cut.headers)], ['he', '5', 'true', '2']);
  t.same(cancels, []);
  const head = await ask(app, 'HEAD', `/sandboxes/${id}/files?path=/x&max_bytes=2`);
  t.same(cancels, ['/x'], 'the guest need not send what HEAD does not want');
  t.same([head.body, ...of(head.headers)], ['', '5', 'true', '2']);
  t.same(asked, [
    ['/a b', 10 * 2 ** 20],
    ['/x', 2],
    ['/x', 2],
  ]);
  sandboxes.onPull = async () => ({ body: outflow('tar') });
  const tar = await ask(app, 'GET', `/sandboxes/${id}/files?path=/x&format=tar`);
  t.same(
    [tar.body, tar.headers.get('content-type'), ...of(tar.headers)],
    ['tar', 'application/x-tar', null, null, null],
  );
});

t.test(
  'a pull that fails midway closes the connection, so that no client takes it for complete',
  async (t) => {
    const { sandboxes, port, url } = await serve(t);
    const { id } = sandboxes.add();
    let isCancelled = false;
    sandboxes.onPull = async () => ({
      sizeBytes: 100,
      contentBytes: 100,
      body: outflow('some', new AppError('internal', 'the sandbox died')),
    });
    await t.rejects(fetch(`${url}/sandboxes/${id}/files?path=/x`).then((response) => response.text()));
    sandboxes.onPull = async () => ({
      body: {
        next: async () => ({ bytes: Buffer.alloc(65_536), release: () => {} }),
        cancel: () => {
          isCancelled = true;
        },
      },
    });
    const client = new RawClient(t, port);
    client.write(`GET /sandboxes/${id}/files?path=/x HTTP/1.1\r\nHost: x\r\n\r\n`);
    await until(() => client.received.length > 0, 'the first bytes');
    client.socket.destroy();
    await until(() => isCancelled, 'the guest being told that the client left');
  },
);

t.test('a push is streamed, and the response comes after the last byte', async (t) => {
  const { sandboxes, url } = await serve(t);
  const { id } = sandboxes.add();
  sandboxes.onPush = async (path, read) => {
    let bytes = 0;
    for (let chunk = await read(); chunk !== undefined; chunk = await read()) bytes += chunk.length;
    return { files: path.length, bytes };
  };
  const response = await fetch(`${url}/sandboxes/${id}/files?path=/abc`, {
    method: 'POST',
    body: Buffer.alloc(3_000_000),
  });
  t.same(await response.json(), { files: 4, bytes: 3_000_000 });
  const none = await fetch(`${url}/sandboxes/${id}/files?path=/`, { method: 'POST' });
  t.same(await none.json(), { files: 1, bytes: 1024 }, 'the end mark of an empty archive');
  // Refused at once: the client gets to read why, although it is still sending.
  sandboxes.onPush = async (_path, read) => {
    await read();
    throw new AppError('invalid_argument', '"x" leads out of the destination');
  };
  const refused = await fetch(`${url}/sandboxes/${id}/files?path=/`, {
    method: 'POST',
    body: Buffer.alloc(50_000_000),
  });
  t.equal(refused.status, 400);
  t.match(await refused.json(), { error: /leads out/ });
});

t.test('a client that reads no answer before it has sent everything gets its answer', async (t) => {
  const { sandboxes, port } = await serve(t);
  const { id } = sandboxes.add();
  sandboxes.onPush = async (_path, read) => {
    await read();
    throw new AppError('invalid_argument', '"x" leads out of the destination');
  };
  const block = Buffer.alloc(2 ** 20);
  const blocks = 200;
  const client = new RawClient(t, port);
  client.socket.pause();
  client.write(
    `POST /sandboxes/${id}/files?path=/ HTTP/1.1\r\nHost: x\r\nContent-Length: ${blocks * block.length}\r\n\r\n`,
  );
  for (let sent = 0; sent < blocks; sent++) {
    if (!client.socket.write(block)) await once(client.socket, 'drain');
  }
  client.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  client.socket.resume();
  await until(() => client.text.includes('200 OK'), 'an answer over the same connection');
  t.match(client.text, /^HTTP\/1\.1 400 .*leads out/s);
});

/** A server whose pushes take everything. */
async function servePushes(t: Test, bodyIdleMs?: number) {
  const served = await serve(t, bodyIdleMs === undefined ? {} : { bodyIdleMs });
  /** What the reading of the body failed with, and what the push was told meanwhile. */
  const ends: unknown[] = [];
  const aborts: unknown[] = [];
  let begun = 0;
  served.sandboxes.onPush = async (_path, read, signal) => {
    signal?.addEventListener('abort', () => aborts.push(signal.reason));
    begun += 1;
    try {
      while ((await read()) !== undefined);
      return { files: 0, bytes: 0 };
    } catch (error) {
      ends.push(error);
      throw error;
    }
  };
  const { id } = served.sandboxes.add();
  const head = `POST /sandboxes/${id}/files?path=/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc`;
  return { ...served, ends, aborts, head, begun: () => begun };
}

t.test('an upload that stops ends', async (t) => {
  const { port, ends, head } = await servePushes(t, 100);
  const silent = new RawClient(t, port);
  silent.write(head);
  await until(() => silent.text.includes('408'), 'the answer to silence');
  t.match(ends, [{ message: /stopped for 100 ms/ }]);
});

t.test('an upload ends when its client leaves, long before the idle timeout', async (t) => {
  const { port, ends, aborts, head, begun } = await servePushes(t);
  for (const leave of ['destroy', 'resetAndDestroy', 'end'] as const) {
    for (const seen of [ends, aborts]) seen.length = 0;
    const before = begun();
    const leaving = new RawClient(t, port);
    leaving.write(head);
    await until(() => begun() > before, 'the push');
    leaving.socket[leave]();
    await until(() => ends.length > 0 && aborts.length > 0, `the end of the push after ${leave}`);
    t.match(ends, [{ code: 'cancelled', message: 'the client left within its upload' }], leave);
    t.match(aborts, [{ code: 'cancelled', message: 'the client left before the answer' }], leave);
  }
});

t.test('an answer that breaks off ends the connection, and one JSON line says why', async (t) => {
  const { sandboxes, lines, url } = await serve(t);
  const { id } = sandboxes.add();
  const shown: unknown[] = [];
  const { error: showError, info: showInfo } = console;
  console.error = console.info = (...parts) => void shown.push(parts);
  t.teardown(() => {
    console.error = showError;
    console.info = showInfo;
  });
  const failure = new AppError('guest_unreachable', 'the guest agent was lost');
  for (const pieces of [[], ['one'], ['one', 'two', 'three']]) {
    sandboxes.onPull = async () => ({ contentBytes: 100, body: outflow(...pieces, failure) });
    const service = sandboxes.service(id);
    sandboxes.service = () => ({
      ...service,
      output: (_request, events) => {
        for (const [seq, text] of pieces.entries()) {
          const record = {
            kind: 'output',
            seq,
            stream: 'stdout',
            unixMs: 0,
            data: Buffer.from(text),
          } as const;
          events.records([record], 100);
        }
        setTimeout(() => events.failed(failure), 20);
        if (pieces.length === 0) events.records([], 0);
        return { consumed: () => {}, cancel: () => {} };
      },
    });
    for (const path of ['files?path=/x', 'service/logs']) {
      lines.splice(0);
      const title = `${path} after ${pieces.length} pieces`;
      const got = fetch(`${url}/sandboxes/${id}/${path}`).then((response) => response.arrayBuffer());
      await t.rejects(got, `${title}: nobody takes it for the whole`);
      await until(() => lines.some(({ msg }) => msg === 'response aborted'), title);
      const broken = lines.filter(({ msg }) => msg === 'response aborted');
      t.match(broken, [{ requestId: /^req_/, reason: 'the guest agent was lost' }]);
      t.equal(broken.length, 1, title);
    }
  }
  t.same(shown, [], 'nothing outside the log');
});
