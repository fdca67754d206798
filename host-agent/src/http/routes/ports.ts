// Ports of a sandbox: connections to them over a hijacked connection or a WebSocket, and which are open for URLs.
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { PortConnection } from '../../guest/port-stream.ts';
import { AppError } from '../../lib/errors.ts';
import type { OpenPort } from '../../sandboxes/types.ts';
import { clientSignal, endingOf, guestOf, type HttpContext, type Takeover } from '../context.ts';
import { HttpError } from '../errors.ts';
import { createWebSocketServer, requireWebSocket, takeoverOf } from '../exec/upgrade.ts';
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

// Joins a client to a connection to a port: over its hijacked connection, or over a WebSocket.

const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n';
const RESPONSE_HEAD =
  'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n';

/** Ends of the two directions and resets pass through. */
function joinSocket(
  { incoming, socket, head }: Takeover,
  connection: PortConnection,
  ending: AbortSignal | undefined,
): void {
  const isUpgrade = incoming.headers.upgrade?.toLowerCase() === 'tcp';
  resetWith(socket, connection, ending);
  connection.on('error', () => resetSocket(socket));
  if (socket.destroyed) return;
  socket.write(isUpgrade ? SWITCHED : RESPONSE_HEAD);
  if (head.length > 0) connection.write(head);
  socket.pipe(connection);
  connection.pipe(socket);
  socket.resume();
}

/** Without its client, or when the daemon stops, a connection is reset, unless both directions have ended. */
function resetWith(client: Duplex, connection: PortConnection, ending: AbortSignal | undefined): void {
  const onEnding = (): void => {
    connection.reset();
    client.destroy();
  };
  const onClose = (): void => {
    if (client.readableEnded) connection.destroy();
    else connection.reset();
  };
  client.on('close', onClose);
  if (client.destroyed) onClose();
  if (ending?.aborted) onEnding();
  ending?.addEventListener('abort', onEnding, { once: true });
  connection.once('close', () => ending?.removeEventListener('abort', onEnding));
}

/** TLS has no resets: the connection below it breaks off. */
function resetSocket(socket: Duplex): void {
  if (socket instanceof Socket) socket.resetAndDestroy();
  else socket.destroy();
}

/** The text message that ends a direction. */
const END_MESSAGE = 'end';

/** Backpressure: reading from the guest waits above this many unsent bytes. */
const MAX_BUFFERED_BYTES = 256 * 1024;
/** Close codes of RFC 6455 by cause. */
const CLOSE = { done: 1000, stopping: 1001, unexpectedText: 1003, failed: 1011 } as const;
const MAX_REASON_BYTES = 123;

class PortWebSockets {
  readonly #server = createWebSocketServer();

  join({ incoming, socket, head }: Takeover, connection: PortConnection, ending?: AbortSignal): void {
    const onRefused = (): void => connection.reset();
    socket.once('close', onRefused);
    if (socket.destroyed) onRefused();
    this.#server.handleUpgrade(incoming, socket, head, (client: WebSocket) => {
      socket.off('close', onRefused);
      joinWebSocket(client, connection, ending);
    });
  }
}

function joinWebSocket(client: WebSocket, connection: PortConnection, ending?: AbortSignal): void {
  const onEnding = (): void => {
    connection.reset();
    close(client, CLOSE.stopping, 'the daemon stops');
  };
  if (ending?.aborted) onEnding();
  ending?.addEventListener('abort', onEnding, { once: true });
  connection.on('data', (chunk: Buffer) => {
    client.send(chunk, { binary: true }, () => connection.resume());
    if (client.bufferedAmount > MAX_BUFFERED_BYTES) connection.pause();
  });
  connection.on('end', () => client.send(END_MESSAGE));
  connection.on('drain', () => client.resume());
  connection.on('error', (error) => close(client, CLOSE.failed, error.message));
  connection.on('close', () => {
    ending?.removeEventListener('abort', onEnding);
    close(client, CLOSE.done, '');
  });
  client.on('message', (data, isBinary) => {
    if (connection.writableEnded || connection.destroyed) return;
    if (isBinary) {
      if (!connection.write(toBytes(data))) client.pause();
    } else if (String(data) === END_MESSAGE) connection.end();
    else {
      connection.reset();
      close(client, CLOSE.unexpectedText, `the only text message is ${END_MESSAGE}`);
    }
  });
  client.on('error', () => connection.reset());
  client.on('close', (code) => {
    if (code === CLOSE.done) connection.destroy();
    else connection.reset();
  });
}

function close(client: WebSocket, code: number, reason: string): void {
  if (client.readyState !== client.OPEN) return;
  let text = reason;
  while (Buffer.byteLength(text) > MAX_REASON_BYTES) text = text.slice(0, -1);
  // A paused socket would not receive the answer to the close.
  client.resume();
  client.close(code, text);
}

function toBytes(data: RawData): Buffer {
  if (Buffer.isBuffer(data)) return data;
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data);
}
