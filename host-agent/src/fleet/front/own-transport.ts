// Requests of the gateway to its own REST interface, without a listener: each has a connection within this process, so
// that it is served, passed on and ended as that of any client.
import { createServer, type IncomingMessage, request as requestHttp, type ServerResponse } from 'node:http';
import { duplexPair, Readable } from 'node:stream';
import type { Transport, WireAnswer, WireRequest } from '../../http/in-process.ts';

type Serve = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

export class OwnInterface {
  readonly #server;

  constructor(serve: Serve) {
    this.#server = createServer((request, response) => void serve(request, response));
  }

  /** For the client of a request; `signal` ends those that are made for it. */
  as(client: IncomingMessage | undefined, signal: AbortSignal): Transport {
    return {
      send: (request) => this.#send(request, client, signal),
      open: () => {
        throw new Error('a request within the gateway has no connection to hijack');
      },
    };
  }

  async #send(
    { method, path, headers, body, signal: own }: WireRequest,
    client: IncomingMessage | undefined,
    left: AbortSignal,
  ): Promise<WireAnswer> {
    const signal = AbortSignal.any([own, left]);
    signal.throwIfAborted();
    const [near, far] = duplexPair();
    near.once('close', () => far.destroy());
    // What was received before the end is still delivered.
    far.once(
      'close',
      () => far.writableFinished || near.destroy(new Error('the gateway closed the connection')),
    );
    const authorization = client?.headers.authorization;
    this.#server.emit('connection', Object.assign(far, { remoteAddress: client?.socket.remoteAddress }));
    const outgoing = requestHttp({
      ...{ method, path, signal, createConnection: () => near },
      headers: { ...headers, host: 'localhost', ...(authorization !== undefined && { authorization }) },
    });
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', resolve).on('error', reject);
      if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) outgoing.end(body);
      else
        Readable.from(body)
          .on('error', (error) => outgoing.destroy(error))
          .pipe(outgoing);
    }).catch((error: unknown) => {
      signal.throwIfAborted();
      throw error;
    });
    return {
      status: answer.statusCode ?? 500,
      header: (name) => {
        const value = answer.headers[name.toLowerCase()];
        return Array.isArray(value) ? value.join(', ') : value;
      },
      body: read(answer, signal),
    };
  }
}

/** Its `return` ends the connection also before the first read. */
function read(answer: IncomingMessage, signal: AbortSignal): AsyncIterableIterator<Uint8Array, undefined> {
  const chunks = answer[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  return {
    [Symbol.asyncIterator]() {
      return this;
    },
    async next() {
      try {
        const { done, value } = await chunks.next();
        return done === true ? { done, value: undefined } : { done: false, value };
      } catch (error) {
        signal.throwIfAborted();
        throw error;
      }
    },
    async return() {
      answer.destroy();
      return { done: true, value: undefined };
    },
  };
}
