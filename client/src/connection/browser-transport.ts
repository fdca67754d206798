// Transport for browsers: fetch, and a WebSocket for bidirectional streams.
import { ConnectionError } from '../errors.ts';
import type { Bytes, Duplex, Transport, TransportOptions, WireAnswer, WireRequest } from './transport.ts';

/** Writers wait while more unsent bytes than this are buffered (backpressure). */
const MAX_BUFFERED_BYTES = 1024 * 1024;
const BUFFER_CHECK_MS = 10;
const CLOSED_NORMALLY = 1000;
const [NOT_FOUND, UPGRADE_REQUIRED] = [404, 426];
/** Browsers hide the cause from the page. */
const REASONS =
  'it is down, its certificate is not trusted here, or its --cors-origin does not name the origin of this page';

export class BrowserTransport implements Transport {
  readonly #host: string;
  readonly #protocols: string[];

  constructor({ host, apiKey }: TransportOptions) {
    this.#host = host.replace(/\/$/, '');
    // A browser cannot set headers of a WebSocket, so the key is sent as a subprotocol. The server selects the first
    // protocol and does not echo the key.
    this.#protocols = apiKey === undefined ? [] : ['exec', `bearer.${apiKey}`];
  }

  async send({ method, path, headers, body, signal }: WireRequest): Promise<WireAnswer> {
    const sent = typeof body === 'string' || body instanceof Uint8Array ? body : await collect(body);
    try {
      const init = {
        method,
        headers,
        signal,
        // A copy of a file would stay on the disk of the user, and be older than the sandbox's.
        cache: 'no-store' as const,
        ...(sent !== undefined && { body: sent as NonNullable<RequestInit['body']> }),
      };
      const response = await fetch(`${this.#host}${path}`, init);
      const { body: stream } = response;
      return {
        status: response.status,
        header: (name) => response.headers.get(name) ?? undefined,
        body: stream === null ? nothing() : this.#readAnswer(response, stream, signal),
      };
    } catch (error) {
      if (signal.aborted) throw signal.reason;
      const what = `cannot reach the daemon at ${this.#host}: ${String(error)}; ${REASONS}`;
      throw new ConnectionError(what, { cause: error });
    }
  }

  /** Browsers report a connection that breaks within an answer as a TypeError. */
  async *#readAnswer(
    { headers }: Response,
    stream: ReadableStream<Uint8Array>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array, void> {
    try {
      yield* read(stream);
    } catch (cause) {
      if (signal.aborted) throw signal.reason;
      const message = `lost the daemon at ${this.#host}: the connection broke off`;
      throw new ConnectionError(message, { cause, requestId: headers.get('x-request-id') ?? undefined });
    }
  }

  async open(wire: WireRequest & { readonly body: string }): Promise<Duplex | WireAnswer> {
    const { body, signal } = wire;
    // That part of the query belongs to the POST request that the WebSocket replaces.
    const path = wire.path.replace(/\?stdin=1$/, '').replace('stdin=1&', '');
    const socket = new WebSocket(`${this.#host.replace(/^http/, 'ws')}${path}`, this.#protocols);
    socket.binaryType = 'arraybuffer';
    const onAbort = (): void => socket.close();
    signal.addEventListener('abort', onAbort, { once: true });
    const output = receive(socket, signal);
    const isOpen = await new Promise<boolean>((resolve) => {
      socket.onopen = () => resolve(true);
      socket.addEventListener('close', () => {
        signal.removeEventListener('abort', onAbort);
        resolve(false);
      });
    });
    if (!isOpen) return this.#explain({ ...wire, path });
    if (body !== '') socket.send(body);
    return {
      output,
      async write(bytes) {
        if (socket.readyState !== WebSocket.OPEN) return;
        socket.send(bytes as Uint8Array<ArrayBuffer>);
        while (socket.bufferedAmount > MAX_BUFFERED_BYTES && socket.readyState === WebSocket.OPEN)
          await new Promise((resolve) => setTimeout(resolve, BUFFER_CHECK_MS));
      },
      close: () => socket.close(),
    };
  }

  /** Finds the reason for a refused WebSocket with ordinary requests, whose answers a page can read. */
  async #explain({ path, headers, signal }: WireRequest): Promise<WireAnswer> {
    signal.throwIfAborted();
    const get = (target: string) => this.send({ method: 'GET', path: target, headers, signal });
    const route = await get(path);
    if (route.status !== UPGRADE_REQUIRED) return route;
    const sandbox = await get(path.replace(/\/(?:exec|commands\/[^?]*)(?:\?.*)?$/, ''));
    if (sandbox.status === NOT_FOUND) return sandbox;
    throw new ConnectionError(`the daemon at ${this.#host} refused a WebSocket`);
  }
}

/** Receives messages; a browser's WebSocket has no backpressure for them. */
function receive(socket: WebSocket, signal: AbortSignal): Bytes {
  let isCancelled = false;
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      socket.onmessage = ({ data }) => {
        if (!isCancelled) controller.enqueue(new Uint8Array(data as ArrayBuffer));
      };
      socket.addEventListener('close', ({ code, reason }) => {
        if (isCancelled) return;
        if (signal.aborted) controller.error(signal.reason);
        else if (code === CLOSED_NORMALLY) controller.close();
        else controller.error(new ConnectionError(`the daemon closed with ${code}: ${reason}`));
      });
    },
    cancel: () => {
      isCancelled = true;
      socket.close();
    },
  });
  return read(stream);
}

/** Not every browser supports async iteration of streams. */
async function* read(stream: ReadableStream<Uint8Array>): Bytes {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

async function* nothing(): Bytes {}

/** Browsers cannot stream request bodies. */
async function collect(body: Bytes | undefined): Promise<Blob | undefined> {
  if (body === undefined) return undefined;
  const parts: ConstructorParameters<typeof Blob>[0] = [];
  for await (const part of body) parts.push(part as Uint8Array<ArrayBuffer>);
  return new Blob(parts);
}
