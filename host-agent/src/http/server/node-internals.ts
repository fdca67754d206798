// Everything that relies on undocumented behaviour of Node's HTTP server. The contract test node-internals.test.ts
// fails if a version of Node changes it.
import { type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex, Readable } from 'node:stream';

/** The event with the socket that carries HTTP: `secureConnection` with TLS. */
export type ConnectionEvent = 'connection' | 'secureConnection';

/**
 * Lets a client close its sending side after the request and still get the response. By default Node then closes the
 * connection. The property is undocumented.
 */
export function allowHalfOpen(server: Server): void {
  Object.assign(server, { httpAllowHalfOpen: true });
}

/**
 * Delays the `connection` listeners of the server, including Node's own, which attaches the HTTP parser: they run when
 * `gate` calls `accept`. Call it after all other listeners of the event are added.
 */
export function deferConnections(
  server: Server,
  event: ConnectionEvent,
  gate: (socket: Socket, accept: () => void) => void,
): void {
  const listeners = server.listeners(event);
  server.removeAllListeners(event);
  server.on(event, (socket: Socket) =>
    gate(socket, () => {
      for (const listener of listeners) listener.call(server, socket);
    }),
  );
}

type Parser = { onIncoming: (request: IncomingMessage, isKeptAlive: boolean) => number };

/**
 * Emits `upgrade` for each request on this connection that `shouldUpgrade` selects, when its headers are complete. The
 * bytes after the headers then never reach the HTTP parser. The callback `onIncoming` of the parser returns 2 for that,
 * as Node does for CONNECT. Throws if the parser has no such callback.
 */
export function upgradeRequests(socket: Socket, shouldUpgrade: (request: IncomingMessage) => boolean): void {
  const parser: unknown = Reflect.get(socket, 'parser');
  if (!isParser(parser)) throw new Error('this Node has no parser on its HTTP connections');
  const { onIncoming } = parser;
  parser.onIncoming = (request, isKeptAlive) => {
    if (!shouldUpgrade(request)) return onIncoming(request, isKeptAlive);
    Object.assign(request, { upgrade: true });
    socket.setTimeout(0);
    return 2;
  };
}

function isParser(value: unknown): value is Parser {
  return (
    typeof value === 'object' &&
    value !== null &&
    'onIncoming' in value &&
    typeof value.onIncoming === 'function'
  );
}

/**
 * For a connection that was taken away from the HTTP parser while responses to earlier requests are sent: Node no
 * longer tells these when to continue. Throws nothing; without such a response nothing happens.
 */
export function continueResponses(socket: Duplex): void {
  socket.on('drain', () => {
    const response: unknown = Reflect.get(socket, '_httpMessage');
    if (response instanceof ServerResponse && !response.writableEnded) response.emit('drain');
  });
}

/** The file descriptor of an open socket, from its libuv handle; undefined if it is closed. */
export function descriptorOf(socket: Socket): number | undefined {
  const descriptor: unknown = Reflect.get(Reflect.get(socket, '_handle') ?? {}, 'fd');
  return typeof descriptor === 'number' && descriptor >= 0 ? descriptor : undefined;
}

/**
 * Gives the body of a stream of HTTP/2 to `take` before it is queued; `end` gets what lets the stream emit `end`.
 * Reading stops while `take` returns false: call the returned function to go on. Relies on Node calling `stream.push`
 * for each frame, and `_read` to start reading.
 */
export function takeChunks(
  stream: Duplex,
  { take, end }: { readonly take: (chunk: Buffer) => boolean; readonly end: (emitEnd: () => void) => void },
): () => void {
  const push = stream.push.bind(stream);
  stream.push = (chunk: Buffer | null): boolean => {
    if (chunk !== null) return take(chunk);
    end(() => void push(null));
    return false;
  };
  return () => {
    if (!stream.destroyed) stream._read(0);
  };
}

const SMALL_BYTES = 256;
const BLOCK_BYTES = 16 * 1024;
/** After this many chunks in one turn of the event loop the request pauses, so that other requests run. */
const MAX_CHUNKS_PER_TURN = 64;

/**
 * Merges small chunks of a request body before they are queued. A client can send chunks of one byte. Node's parser
 * creates an object of hundreds of bytes for each, but counts only the byte for backpressure: tens of MiB for one
 * connection. While nothing reads the body, chunks are merged over any time. Relies on the parser calling
 * `request.push`, and readers calling `request.read`; a stream of HTTP/2 is filled in the same way. Call it before the
 * first byte of the body arrives.
 */
export function coalesceChunks(request: Readable): void {
  const push = request.push.bind(request);
  const read = request.read.bind(request);
  let block = Buffer.alloc(0);
  let usedBytes = 0;
  let chunkCount = 0;
  /** The reader has taken all that was queued, or has asked for more than that. */
  let isWanted = true;
  const flush = (): void => {
    const merged = block.subarray(0, usedBytes);
    block = block.subarray(usedBytes);
    usedBytes = 0;
    if (merged.length === 0 || request.destroyed) return;
    isWanted = false;
    push(merged);
  };
  const endTurn = (): void => {
    chunkCount = 0;
    if (isWanted || request.readableLength === 0) flush();
  };
  request.read = (size?: number): unknown => {
    // Node reads 0 bytes to start the source.
    if (size === 0) return read(size);
    flush();
    const chunk: unknown = read(size);
    isWanted = chunk === null;
    return chunk;
  };
  request.push = (chunk: Buffer | null): boolean => {
    if (chunk === null || chunk.length >= SMALL_BYTES) {
      flush();
      return push(chunk);
    }
    if (block.length - usedBytes < chunk.length) {
      flush();
      block = Buffer.allocUnsafe(BLOCK_BYTES);
    }
    block.set(chunk, usedBytes);
    usedBytes += chunk.length;
    if (chunkCount === 0) setImmediate(endTurn);
    chunkCount += 1;
    return (
      chunkCount < MAX_CHUNKS_PER_TURN && request.readableLength + usedBytes < request.readableHighWaterMark
    );
  };
}
