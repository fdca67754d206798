// Connections of HTTP/2. One without open streams is idle as one of HTTP/1.1 between two requests: a new one may
// replace it.
import {
  constants,
  type Http2Server,
  type Http2ServerResponse,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { Connections } from '../http/server/connections.ts';
import { LINGER_MS } from '../http/server/responses.ts';
import { guardFirstBytes } from '../lib/http2-sessions.ts';

/** Time for what a closed session still has to send. */
const GRACE_MS = 5000;
/** Time for a refused client to take the answer. With a window of 0 bytes it never does. */
const REFUSED_MS = 5000;

export class Http2Sessions {
  readonly #server: Http2Server;
  readonly #connections: Connections;
  readonly #silentMs: number;
  readonly #sessions = new Set<ServerHttp2Session>();

  /** A session that is silent for `silentMs` is closed. */
  constructor(server: Http2Server, connections: Connections, silentMs: number) {
    this.#server = server;
    this.#connections = connections;
    this.#silentMs = silentMs;
  }

  serve(socket: Socket): void {
    // The server lets connections be half-open, but without WINDOW_UPDATE and PING none of HTTP/2 goes on.
    socket.once('end', () => socket.destroy());
    const onSession = (session: ServerHttp2Session): void => this.#track(session, socket);
    this.#server.once('session', onSession);
    this.#server.emit('connection', socket);
    this.#server.off('session', onSession);
  }

  close(): void {
    for (const session of this.#sessions) session.destroy();
  }

  #track(session: ServerHttp2Session, socket: Socket): void {
    const streams = new Set<ServerHttp2Stream>();
    let writtenBytes = 0;
    // A stream waits for its window, of which the socket knows nothing.
    this.#connections.measureBy(socket, () => {
      const bytes = streams.values().reduce((sum, { writableLength }) => sum + writableLength, 0);
      return { bytes, progress: writtenBytes - bytes };
    });
    guardFirstBytes(session, socket);
    this.#sessions.add(session);
    session.on('error', () => session.destroy());
    session.on('stream', (stream: ServerHttp2Stream) => {
      streams.add(stream);
      const end = this.#connections.occupy(socket);
      const write = stream.write.bind(stream) as (chunk: Buffer, ...rest: unknown[]) => boolean;
      stream.write = (chunk: Buffer, ...rest: unknown[]): boolean => {
        writtenBytes += chunk.length;
        return write(chunk, ...rest);
      };
      stream.once('close', () => {
        streams.delete(stream);
        end();
      });
      // The client may never send the rest of a request that was answered.
      stream.once('finish', () => limit(stream, LINGER_MS));
    });
    let grace: NodeJS.Timeout | undefined;
    session.setTimeout(this.#silentMs, () => {
      session.close();
      // Open streams have limits of their own, and the session ends with the last of them.
      grace ??= setTimeout(() => streams.size === 0 && session.destroy(), GRACE_MS);
    });
    session.once('close', () => {
      clearTimeout(grace);
      this.#sessions.delete(session);
    });
  }
}

/** Ends a stream whose answer the client does not take. */
export function limitRefusal({ stream }: Http2ServerResponse): void {
  limit(stream, REFUSED_MS);
}

function limit(stream: ServerHttp2Stream, limitMs: number): void {
  if (stream.destroyed) return;
  const timer = setTimeout(() => stream.close(constants.NGHTTP2_CANCEL), limitMs);
  stream.once('close', () => clearTimeout(timer));
}
