// A small web server in a guest, and requests to it by its URL.
import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { request as tlsRequest } from 'node:https';
import type { Sandbox } from '@sandboxd/client';
import { NotMeasured } from './measure.ts';

export const SERVER_PORT = 48_099;
const TRIES = 100;
const WAIT_MS = 100;
const REPLY = 'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok';
/** Debian has perl in each installation, and images of languages Python. */
const PERL = `use IO::Socket::INET; $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => ${SERVER_PORT},
  Listen => 128, ReuseAddr => 1) or die; while ($c = $s->accept) { while (<$c>) { last if /^\\r?$/ }
  print $c "${REPLY}"; close $c }`;
const PYTHON = `import socket
s = socket.create_server(("127.0.0.1", ${SERVER_PORT}), backlog=128)
while True:
    c, _ = s.accept()
    c.recv(65536)
    c.sendall(b"${REPLY}")
    c.close()`;
const START = `if command -v perl >/dev/null; then exec perl -e "$0"; fi; exec python3 -c "$1"`;

/** NotMeasured if the guest has no program for it, or the daemon no URLs. */
export async function startServer(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
  try {
    await sandbox.ports.url(SERVER_PORT, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw new NotMeasured(error instanceof Error ? error.message : String(error));
  }
  const server = await sandbox.commands.start(['sh', '-c', START, PERL, PYTHON], { signal });
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const connection = await sandbox.connect(SERVER_PORT, { signal }).catch(() => undefined);
    connection?.destroy();
    if (connection !== undefined) return;
    if ((await server.info({ signal })).state !== 'running') break;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
  throw new NotMeasured('the guest has neither perl nor python3 for a server');
}

/** Resolves when the whole answer is there. Names below localhost are this host, as for browsers. */
export function httpGet(url: URL, apiKey: string | undefined, signal: AbortSignal): Promise<void> {
  const isTls = url.protocol === 'https:';
  const ca = process.env.SANDBOXD_CA;
  const options = {
    host: url.hostname.endsWith('.localhost') ? '127.0.0.1' : url.hostname,
    port: url.port,
    path: url.pathname,
    agent: false as const,
    signal,
    ...(isTls && ca !== undefined && { ca: readFileSync(ca) }),
    headers: { host: url.host, ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
  };
  return new Promise((resolve, reject) => {
    const sent = (isTls ? tlsRequest : request)(options, (response) => {
      response.resume();
      response.once('error', reject);
      response.once('end', () =>
        response.statusCode === 200
          ? resolve()
          : reject(new Error(`the URL of the port answered ${response.statusCode}`)),
      );
    });
    sent.once('error', reject);
    sent.end();
  });
}
