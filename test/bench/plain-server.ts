// A minimal HTTP daemon in Node: a separate process that forwards bodies to the bare channel, and its bytes back. The
// comparison separates the cost of HTTP from that of sandboxd.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

type PlainServer = { readonly url: string } & Disposable;

/**
 * Takes ownership of the channel. Each request's path is the letter of a command of `raw-channel.c`, and for a request
 * without a body a length: `/D`, `/S/1024`, `/F/1024`.
 */
export async function startPlainServer(channel: Socket): Promise<PlainServer> {
  const child = fork(import.meta.filename, { stdio: 'inherit' });
  child.send('channel', channel);
  const [url] = (await once(child, 'message')) as [string];
  return { url, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

function serve(channel: Socket): void {
  let onBytes = (_bytes: Buffer): void => undefined;
  channel.on('data', (bytes) => onBytes(bytes as Buffer));
  const server = createServer((request, response) => {
    const [, letter = '', length = request.headers['content-length'] ?? '0'] = request.url?.split('/') ?? [];
    const command = Buffer.alloc(9);
    command.write(letter, 'latin1');
    command.writeBigUInt64BE(BigInt(length), 1);
    channel.write(command);
    if (request.method !== 'GET') {
      onBytes = () => response.end();
      request.pipe(channel, { end: false });
      return;
    }
    let left = Number(length);
    response.writeHead(200, { 'Content-Length': length });
    response.on('drain', () => channel.resume());
    onBytes = (bytes) => {
      left -= bytes.length;
      if (!response.write(bytes)) channel.pause();
      if (left === 0) response.end(() => channel.resume());
    };
  });
  server.keepAliveTimeout = 0;
  server.listen(0, '127.0.0.1', () => {
    process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
}

if (process.send !== undefined) {
  process.once('message', (_message, channel) => serve(channel as Socket));
}
