// Between curl and a real daemon: what was JSON is checked against the OpenAPI document on its way. Not for commands of the
// library, whose streams break off in it.
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Test } from 'tap';
import { checkBody } from './answers.ts';

/** Another address of the daemon at `url`. The teardown throws for an answer that no route has, and when none was checked. */
export async function checkedUrl(t: Pick<Test, 'teardown'>, url: string): Promise<string> {
  const target = new URL(url);
  const problems: unknown[] = [];
  let checks = 0;

  // The daemon answers by its own name only.
  const toDaemon = (raw: readonly string[]): string[] =>
    raw.map((text, n) => (n % 2 === 1 && /^host$/i.test(raw[n - 1] ?? '') ? target.host : text));

  const forward = (incoming: IncomingMessage, outgoing: ServerResponse): void => {
    const { method = 'GET', url: path = '/' } = incoming;
    const headers = toDaemon(incoming.rawHeaders);
    const upstream = request({ host: target.hostname, port: target.port, method, path, headers });
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
          // A body that broke off is no JSON; who reads it must notice that by itself.
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
  server.on('upgrade', (incoming: IncomingMessage, socket: Duplex, head: Buffer) => {
    const upstream = connect({ host: target.hostname, port: Number(target.port), allowHalfOpen: true });
    const raw = toDaemon(incoming.rawHeaders);
    const fields = raw.flatMap((name, n) => (n % 2 === 0 ? [`${name}: ${raw[n + 1]}\r\n`] : []));
    upstream.write(`${incoming.method} ${incoming.url} HTTP/1.1\r\n${fields.join('')}\r\n`);
    upstream.write(head);
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.once('close', () => {
        sockets.delete(from);
        // After an end, what is on its way to the other side still arrives there.
        if (!from.readableEnded) to.destroy();
      });
      from.pipe(to);
    }
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(async () => {
    server.closeAllConnections();
    for (const socket of sockets) socket.destroy();
    await new Promise((done) => server.close(done));
    for (const problem of problems) throw problem;
    if (checks === 0) throw new Error('no answer was checked');
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
