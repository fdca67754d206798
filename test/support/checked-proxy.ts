// A proxy between any client and a real daemon. Validates JSON bodies against the OpenAPI document.
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, createServer as createSocketServer, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Test } from 'tap';
import { checkBody } from './answers.ts';

/** After such a request, the connection carries no HTTP: Node's parser would answer 400 and close it. */
const RAW = /^POST (\S+\/exec\?(?:\S*&)?stdin=\S*) HTTP/;
const HEAD_END = '\r\n\r\n';

/**
 * Another address of the daemon at `url`, on loopback; `port` 0 selects a free port. The teardown throws for a
 * response that no route defines, and when no response was checked.
 */
export async function checkedUrl(t: Pick<Test, 'teardown'>, url: string, port = 0): Promise<string> {
  const target = new URL(url);
  const problems: unknown[] = [];
  let checks = 0;

  // The daemon accepts only its own host name.
  const toDaemon = (raw: readonly string[]): string[] =>
    raw.map((text, n) => (n % 2 === 1 && /^host$/i.test(raw[n - 1] ?? '') ? target.host : text));

  const forward = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    const { method = 'GET', url: path = '/' } = incoming;
    const headers = toDaemon(incoming.rawHeaders);
    const upstream = request({
      host: target.hostname,
      port: target.port,
      method,
      path,
      headers,
      agent: false,
    });
    upstream.on('continue', () => outgoing.writeContinue());
    upstream.on('response', (answer) => {
      const { statusCode = 0, statusMessage } = answer;
      outgoing.writeHead(statusCode, statusMessage, answer.rawHeaders);
      outgoing.flushHeaders();
      const chunks: Buffer[] = [];
      const type = answer.headers['content-type'] ?? '';
      if (method !== 'HEAD' && /json|event-stream/.test(type))
        answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('error', () => outgoing.destroy());
      answer.once('close', () => {
        if (chunks.length === 0) return;
        checks += 1;
        try {
          checkBody({ method, path, status: statusCode, type, text: Buffer.concat(chunks).toString() });
        } catch (problem) {
          // A truncated body is not valid JSON; its reader must detect that itself.
          if (answer.complete) problems.push(problem);
        }
      });
      answer.pipe(outgoing);
    });
    upstream.on('error', () => outgoing.destroy());
    outgoing.once('close', () => upstream.destroy());
    incoming.on('error', () => upstream.destroy());
    incoming.pipe(upstream);
  };

  const server = createServer({ keepAliveTimeout: 0, requestTimeout: 0 }, forward);
  server.on('checkContinue', forward);
  const sockets = new Set<Duplex>();
  const join = (socket: Duplex, upstream: Socket): void => {
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.once('close', () => {
        sockets.delete(from);
        // After an end, data in flight to the other side still arrives.
        if (!from.readableEnded) to.destroy();
      });
      from.pipe(to);
    }
  };
  const toTarget = () => connect({ host: target.hostname, port: Number(target.port), allowHalfOpen: true });

  server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    const upstream = toTarget();
    const raw = toDaemon(incoming.rawHeaders);
    const fields = raw.flatMap((name, n) => (n % 2 === 0 ? [`${name}: ${raw[n + 1]}\r\n`] : []));
    upstream.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n${fields.join('')}\r\n`);
    upstream.write(head);
    join(socket, upstream);
  });

  const tunnel = (socket: Socket, first: string, path: string): void => {
    const upstream = toTarget();
    upstream.write(first.replace(/^host:[^\r]*/im, `host: ${target.host}`), 'latin1');
    let answer = '';
    upstream.on('data', (chunk: Buffer) => {
      // An error is JSON with a length; other data are frames.
      if (!/^HTTP\/1.1 2/.test(answer)) answer += chunk.toString('latin1');
    });
    upstream.once('close', () => {
      const status = Number(/^HTTP\/1.1 (\d+)/.exec(answer)?.[1]);
      if (!(status >= 300)) return;
      checks += 1;
      const at = answer.indexOf(HEAD_END);
      const type = /^content-type: *([^\r]*)/im.exec(answer.slice(0, at))?.[1] ?? '';
      const text = Buffer.from(answer.slice(at + HEAD_END.length), 'latin1').toString();
      try {
        checkBody({ method: 'POST', path, status, type, text });
      } catch (problem) {
        problems.push(problem);
      }
    });
    join(socket, upstream);
  };

  // An interactive command has its own connection, so its request is the first on it.
  const entrance = createSocketServer({ allowHalfOpen: true }, (socket) => {
    let first = '';
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    socket.on('data', function take(chunk: Buffer) {
      first += chunk.toString('latin1');
      if (!first.includes(HEAD_END)) return;
      socket.pause().off('data', take);
      const path = RAW.exec(first)?.[1];
      if (path !== undefined) return tunnel(socket, first, path);
      socket.unshift(Buffer.from(first, 'latin1'));
      server.emit('connection', socket);
      socket.resume();
    });
  });
  await new Promise<void>((done) => entrance.listen(port, '127.0.0.1', done));
  t.teardown(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((done) => entrance.close(done));
    for (const problem of problems) throw problem;
    if (checks === 0) throw new Error('no answer was checked');
  });
  return `http://127.0.0.1:${(entrance.address() as AddressInfo).port}`;
}
