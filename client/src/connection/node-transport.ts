// Transport over Node's HTTP modules. It does not use fetch, which aborts an answer after five minutes of silence, has
// no Unix sockets, and cannot send while it receives.
import { randomBytes } from 'node:crypto';
import { Agent, type ClientRequest, IncomingMessage, type RequestOptions, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import type { LookupFunction, Socket } from 'node:net';
import { type Duplex as NodeDuplex, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { CertificateError, ConnectionError, SandboxdError } from '../errors.ts';
import type { Bytes, Duplex, Transport, TransportOptions, WireAnswer, WireRequest } from './transport.ts';

/** Error codes of a connection that was never established. */
const UNSENT = /^(?:ECONNREFUSED|ENOENT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|EACCES)$/;
/** Error codes of OpenSSL and Node for an untrusted certificate. */
const UNTRUSTED = /CERT|SELF_SIGNED|UNABLE_TO|INVALID_CA|HOSTNAME_MISMATCH/;
/** Node's messages for a connection that closed before the end of an answer. */
const BROKEN_OFF = /^(?:aborted|socket hang up|read ECONNRESET|write (?:EPIPE|ECONNRESET))$/;
/** Error codes when the server does not use TLS. */
const NO_TLS = /^(?:EPROTO|ERR_SSL_(?:WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG))$/;

export class NodeTransport implements Transport {
  readonly #host: string;
  readonly #target: RequestOptions & { ca?: string };
  readonly #isTls: boolean;
  readonly #agent: Agent;
  /** Path prefix when a proxy serves the daemon below a path. */
  readonly #prefix: string;

  constructor({ host, ca }: TransportOptions) {
    this.#host = host;
    if (host.startsWith('unix:')) {
      this.#isTls = false;
      this.#prefix = '';
      this.#target = { socketPath: host.slice('unix:'.length), host: 'localhost' };
    } else {
      const { protocol, hostname, port, pathname } = parseHost(host);
      this.#isTls = protocol === 'https:';
      this.#prefix = pathname.replace(/\/$/, '');
      const isLoopback = hostname === 'localhost';
      this.#target = {
        ...{ host: hostname.replace(/^\[|\]$/g, ''), port },
        ...(isLoopback && { lookup: lookUpLoopback, autoSelectFamily: true }),
        ...(ca !== undefined && { ca }),
      };
    }
    // Idle connections do not keep the process alive.
    this.#agent = this.#isTls ? new TlsAgent({ keepAlive: true }) : new Agent({ keepAlive: true });
  }

  async send(wire: WireRequest): Promise<WireAnswer> {
    const { request: sent, answer } = this.#start(wire, this.#agent);
    const { body } = wire;
    let failure: unknown;
    if (body === undefined || typeof body === 'string' || body instanceof Uint8Array) sent.end(body);
    else {
      const source = Readable.from(body).once('error', (error) => {
        failure = error;
      });
      // An answer before the end of the body is a refusal; the rest of the body is not sent.
      pipeline(source, sent).catch((error: unknown) => sent.destroy(error as Error));
    }
    const incoming = await answer.catch((error: unknown) => {
      throw failure ?? error;
    });
    return this.#toAnswer(incoming, wire.signal);
  }

  async open(wire: WireRequest & { readonly body: string }): Promise<Duplex | WireAnswer> {
    // The answer of a hijacked connection has no request id, so the client chooses the id.
    const requestId = `req_${randomBytes(8).toString('hex')}`;
    const headers = { ...wire.headers, 'x-request-id': requestId };
    const { request: sent, answer } = this.#start({ ...wire, headers }, false);
    sent.end(wire.body);
    const incoming = await answer;
    const answered = this.#toAnswer(incoming, wire.signal);
    return answered.status === 200
      ? {
          requestId,
          commandId: answered.header('x-command-id'),
          ...toDuplex(sent, incoming.socket, answered.body),
        }
      : answered;
  }

  async tunnel(wire: WireRequest): Promise<NodeDuplex | WireAnswer> {
    const headers = { ...wire.headers, connection: 'Upgrade', upgrade: 'tcp' };
    // Either direction may end first.
    const { request: sent, answer } = this.#start({ ...wire, headers, body: '' }, false, {
      allowHalfOpen: true,
    });
    const upgraded = new Promise<Socket>((resolve) => {
      sent.once('upgrade', (_incoming, socket: Socket, head: Buffer) => {
        if (head.length > 0) socket.unshift(head);
        resolve(socket);
      });
    });
    sent.end();
    const opened = await Promise.race([upgraded, answer]);
    return opened instanceof IncomingMessage ? this.#toAnswer(opened, wire.signal) : opened;
  }

  #start(
    { method, path, headers, body, signal }: WireRequest,
    agent: Agent | false,
    socketOptions: { readonly allowHalfOpen?: boolean } = {},
  ) {
    const length = typeof body === 'string' ? { 'content-length': String(Buffer.byteLength(body)) } : {};
    const options = {
      ...this.#target,
      ...socketOptions,
      method,
      path: `${this.#prefix}${path}`,
      agent,
      headers: { ...headers, ...length },
    };
    const sent = this.#isTls ? tlsRequest(options) : request(options);
    const onAbort = (): void => void sent.destroy(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    sent.once('close', () => signal.removeEventListener('abort', onAbort));
    sent.once('socket', (socket: Socket) => socket.setNoDelay());
    const answer = new Promise<IncomingMessage>((resolve, reject) => {
      sent.once('response', (incoming) => {
        const onLate = (): void => void incoming.destroy(signal.reason);
        signal.addEventListener('abort', onLate, { once: true });
        incoming.once('close', () => signal.removeEventListener('abort', onLate));
        resolve(incoming);
      });
      sent.on('error', (error) => reject(signal.aborted ? signal.reason : this.#toError(error)));
      if (signal.aborted) onAbort();
    });
    return { request: sent, answer };
  }

  #toAnswer(incoming: IncomingMessage, signal: AbortSignal): WireAnswer {
    return {
      status: incoming.statusCode ?? 0,
      header: (name) => incoming.headers[name]?.toString(),
      body: this.#read(incoming, signal),
    };
  }

  async *#read(incoming: IncomingMessage, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    try {
      yield* incoming;
    } catch (error) {
      throw signal.aborted
        ? signal.reason
        : this.#toError(error as Error, incoming.headers['x-request-id']?.toString());
    }
  }

  #toError(error: Error & { readonly code?: string }, requestId?: string): ConnectionError {
    const { code = '', message } = error;
    // Keeps Node's message up to the semicolon, as the rest is advice for developers, and OpenSSL's reason without its
    // numbers.
    const reason = /:SSL routines:[^:]*:([^:]+):/.exec(message)?.[1] ?? (message.split(';', 1)[0] || code);
    const why = BROKEN_OFF.test(reason) ? 'the connection broke off' : reason;
    const toMessage = (what: string) => `${what} at ${this.#host}: ${why}`;
    if (this.#isTls && UNTRUSTED.test(code))
      return new CertificateError(toMessage('cannot trust the daemon'), { cause: error });
    if (this.#isTls && NO_TLS.test(code)) {
      const message = `${toMessage('cannot speak TLS with the daemon')}; is it http://?`;
      return new ConnectionError(message, { cause: error });
    }
    const isUnsent = UNSENT.test(code);
    return new ConnectionError(toMessage(isUnsent ? 'cannot reach the daemon' : 'lost the daemon'), {
      cause: error,
      isUnsent,
      requestId,
    });
  }
}

/** Returns both loopback addresses, because /etc/hosts may have only one. */
const lookUpLoopback: LookupFunction = (_name, { all }, done) => {
  if (all !== true) return done(null, '127.0.0.1', 4);
  done(null, [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ]);
};

/** SandboxdError for an invalid address, such as one without a scheme. */
function parseHost(host: string): URL {
  // URL drops or rewrites other characters, which would give another host.
  const url = /^[!-~]+$/.test(host) && !host.includes('\\') && URL.canParse(host) ? new URL(host) : undefined;
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.hostname !== '') return url;
  throw new SandboxdError(`host must be http://…, https://… or unix:/path, not ${JSON.stringify(host)}`);
}

function toDuplex(sent: ClientRequest, socket: Socket, output: Bytes): Duplex {
  return {
    output,
    async write(bytes) {
      if (socket.destroyed || socket.write(bytes)) return;
      await new Promise<void>((resolve) => {
        const done = (): void => {
          socket.off('drain', done).off('close', done);
          resolve();
        };
        socket.on('drain', done).on('close', done);
      });
    },
    close: () => void sent.destroy(),
  };
}
