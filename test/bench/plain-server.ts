// The least that an HTTP daemon in Node can do with an upload: a process of its own that passes bodies on to the bare
// channel. Beside the daemon it tells what HTTP costs from what sandboxd adds.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

export type PlainServer = { readonly url: string } & Disposable;

/** Takes the channel over; the path of each request is the letter of a command of `raw-channel.c`. */
export async function startPlainServer(channel: Socket): Promise<PlainServer> {
  const child = fork(import.meta.filename, { stdio: 'inherit' });
  child.send('channel', channel);
  const [url] = (await once(child, 'message')) as [string];
  return { url, [Symbol.dispose]: () => void child.kill('SIGKILL') };
}

function serve(channel: Socket): void {
  let answered = (): void => undefined;
  channel.on('data', () => answered());
  const server = createServer((request, response) => {
    const command = Buffer.alloc(9);
    command.write(request.url?.slice(1) ?? '', 'latin1');
    command.writeBigUInt64BE(BigInt(request.headers['content-length'] ?? 0), 1);
    channel.write(command);
    answered = () => response.end();
    request.pipe(channel, { end: false });
  });
  server.keepAliveTimeout = 0;
  server.listen(0, '127.0.0.1', () => {
    process.send?.(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  });
}

if (process.send !== undefined) {
  process.once('message', (_message, channel) => serve(channel as Socket));
}
