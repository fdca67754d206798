// Joins a client to a connection to a port: over its hijacked connection, or over a WebSocket.
import { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { RawData, WebSocket } from 'ws';
import type { PortConnection } from '../../guest/port-stream.ts';
import type { Takeover } from '../context.ts';
import { createWebSocketServer } from '../exec/upgrade.ts';

const SWITCHED = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n';
const RESPONSE_HEAD =
  'HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nConnection: close\r\n\r\n';

/** Ends of the two directions and resets pass through. */
export function joinSocket(
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
export const END_MESSAGE = 'end';

/** Backpressure: reading from the guest waits above this many unsent bytes. */
const MAX_BUFFERED_BYTES = 256 * 1024;
/** Close codes of RFC 6455 by cause. */
const CLOSE = { done: 1000, stopping: 1001, unexpectedText: 1003, failed: 1011 } as const;
const MAX_REASON_BYTES = 123;

export class PortWebSockets {
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
