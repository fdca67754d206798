// A fleet whose hosts and gateway have an ingress, before a server that stands for those in guests.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { Test } from 'tap';
import { WebSocketServer } from 'ws';
import { serveGuest } from '../../http/ingress-host.ts';
import { DOMAIN, serveIngress } from './doors.ts';
import { ask, type HostOptions, startFleet } from './fleet.ts';

/** A server for guests that answers what it got. */
function echo() {
  const server = createServer((request, response) => {
    if (request.url === '/events') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
      request.once('close', () => response.end());
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      response.setHeader('sandboxd-place', 'place x y z');
      response.setHeader('set-cookie', ['a=1', 'b=2']);
      const { url, method, headers, rawHeaders } = request;
      response.end(
        JSON.stringify({ url, method, headers, rawHeaders, body: Buffer.concat(chunks).toString() }),
      );
    });
  });
  new WebSocketServer({ server }).on('connection', (socket) => {
    socket.send('hello');
    socket.on('message', (data) => socket.send(data.toString()));
  });
  return server;
}

/** The host name of a port of a sandbox. */
export const toHost = (id: string, port = 3000): string => `${port}-${id.replace('_', '-')}.${DOMAIN}`;

/** Hosts with the certificate `issued`, if there is one. */
export async function startWithPorts(
  t: Test,
  options: Omit<HostOptions, 'ports'> & { to?: number } = {},
  count = 2,
) {
  const fleet = await startFleet(t);
  const to = options.to ?? (await serveGuest(t, echo()));
  const hosts = [];
  for (let n = 0; n < count; n++) hosts.push(await fleet.host(`h${n}`, { ...options, ports: to }));
  await fleet.ready(count);
  const gateway = await fleet.gateway(
    options.issued && { tls: { ca: readFileSync(makeRoot(options.issued.certPath), 'latin1') } },
  );
  const port = await serveIngress(t, gateway);
  return { fleet, hosts, gateway, port, to };
}

const makeRoot = (certPath: string): string => certPath.replace(/[^/]*$/, 'ca.pem');

/** A sandbox whose port 3000 is open. */
export async function makeOpen(url: string, access: 'public' | 'private', headers = {}): Promise<string> {
  const { body } = await ask(url, 'POST', '/sandboxes', {}, headers);
  const opened = await ask(url, 'POST', `/sandboxes/${body.id}/ports`, { port: 3000, access }, headers);
  if (opened.status !== 200 && opened.status !== 201) throw new Error(JSON.stringify(opened));
  return body.id;
}
