// Ports of a sandbox: connections to them over a hijacked connection or a WebSocket, and which are open for URLs.
import type { PortConnection } from '../../guest/port-stream.ts';
import { AppError } from '../../lib/errors.ts';
import type { OpenPort } from '../../sandboxes/types.ts';
import { clientSignal, endingOf, guestOf, type HttpContext } from '../context.ts';
import { HttpError } from '../errors.ts';
import { requireWebSocket, takeoverOf } from '../exec/upgrade.ts';
import { joinSocket, PortWebSockets } from '../ports/tunnel.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';
import { toPortBody } from './sandboxes.ts';

export function portHandlers({ sandboxes: host, portLinks }: HttpServices) {
  const toOpenPortBody = (id: string, { port, access, host: hostHeader, openedAtMs }: OpenPort) => ({
    port,
    access,
    ...(hostHeader && { host: hostHeader }),
    opened_at: new Date(openedAtMs).toISOString(),
    ...(portLinks && { url: portLinks.urlOf(id, port).href }),
  });
  const webSockets = new PortWebSockets();
  const connect = async (c: HttpContext, id: string, port: number): Promise<PortConnection> => {
    const guest = await guestOf(host, c, id);
    const connection = await guest.connectPort(port, { signal: clientSignal(c) });
    // An error between here and the moment in which the client is joined to it.
    connection.on('error', (error) => c.var.log.debug({ err: error, port }, 'a connection to a port failed'));
    c.get('audit').effective = {
      port,
      get receivedBytes() {
        return connection.bytesRead;
      },
      get sentBytes() {
        return connection.bytesWritten;
      },
    };
    return connection;
  };
  return {
    connectPort: async ({ params: { id, port } }, c) => {
      host.as(c.get('principal')).get(id);
      const takeover = takeoverOf(c);
      if (takeover === undefined)
        throw new HttpError(
          'not_implemented',
          'a connection to a port needs a connection of its own, which this transport is not',
        );
      const connection = await connect(c, id, port);
      takeover.run = () => joinSocket(takeover, connection, endingOf(c));
      return c.body(null, 200);
    },

    connectPortWebSocket: async ({ params: { id, port } }, c) => {
      const takeover = requireWebSocket(c);
      const connection = await connect(c, id, port);
      takeover.run = () => webSockets.join(takeover, connection, endingOf(c));
      return c.body(null, 200);
    },

    listPorts: ({ params: { id } }, c) => {
      const { ports = [], published } = host.as(c.get('principal')).get(id).info;
      return {
        ports: ports.map((each) => toOpenPortBody(id, each)),
        ...(published && { published: published.map(toPortBody) }),
      };
    },

    openPort: async ({ params: { id }, body: { port, access, host: hostHeader } }, c) => {
      c.get('audit').effective = { port, access, ...(hostHeader !== 'sent' && { host: hostHeader }) };
      const ports = await host.as(c.get('principal')).get(id).changePort(port, access, hostHeader);
      const opened = ports.find((each) => each.port === port);
      if (opened === undefined) throw new AppError('conflict', `port ${port} was closed meanwhile`);
      return toOpenPortBody(id, opened);
    },

    closePort: async ({ params: { id, port } }, c) => {
      c.get('audit').effective = { port };
      await host.as(c.get('principal')).get(id).changePort(port, undefined);
      return undefined;
    },

    publishPort: async ({ params: { id, port: guestPort }, body: { host_ip: hostIp, host_port } }, c) => {
      const port = { hostIp, hostPort: host_port, guestPort };
      c.get('audit').effective = port;
      await host.as(c.get('principal')).get(id).publishPort(port);
      return toPortBody(port);
    },

    unpublishPort: async ({ params: { id, port: guestPort, host_port: hostPort } }, c) => {
      c.get('audit').effective = { hostPort, guestPort };
      await host.as(c.get('principal')).get(id).unpublishPort({ hostPort, guestPort });
      return undefined;
    },
  } satisfies Partial<Handlers>;
}
