// Connections of the gateway to hosts: kept for requests, and one for each connection that is taken over.
import {
  type ClientRequest,
  Agent as HttpAgent,
  type IncomingMessage,
  request as requestHttp,
} from 'node:http';
import { Agent as HttpsAgent, request as requestHttps } from 'node:https';
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { AppError, errnoOf, toError } from '../../lib/errors.ts';
import type { Host } from '../catalogue.ts';

const CONNECT_MS = 3000;
const MAX_ANSWER_HEAD_BYTES = 64 * 1024;
/** Answers that are read whole are JSON: a list of a host is the longest. */
const MAX_ANSWER_BYTES = 64 * 2 ** 20;

export type HostTls = {
  /** Authority of the hosts' certificates; absent: those that the machine trusts. */
  readonly ca?: string | undefined;
  /** The gateway's own, for hosts that ask for one. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
};

export type HostRequest = {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Without Host. */
  readonly headers: readonly string[];
  /** Absent: that of the host. */
  readonly host?: string | undefined;
};

/** What a request that is in memory, and its answer, take. */
export type HostExchange = {
  /** Bytes of the answer, as they come; what it throws ends the exchange. */
  readonly add?: (bytes: number) => void;
  /** The host may have something of the request from now on. */
  readonly onConnect?: () => void;
  /** The body is with the kernel, and is not read again. */
  readonly onSent?: () => void;
};

export type HostAnswer = { readonly answer: IncomingMessage; readonly body: Buffer };

export class HostConnections {
  readonly #tls: HostTls;
  readonly #plain = new HttpAgent({ keepAlive: true });
  readonly #secure: HttpsAgent;

  constructor(tls: HostTls) {
    this.#tls = tls;
    this.#secure = new HttpsAgent({ keepAlive: true, ...toOptions(tls) });
  }

  /** The caller ends it. Its errors are explained by `toHostError`. */
  open({ url }: Host, { method, path, headers, host = url.host }: HostRequest): ClientRequest {
    const isTls = url.protocol === 'https:';
    const options = {
      method,
      path,
      host: toHostName(url),
      port: url.port || (isTls ? 443 : 80),
      headers: ['Host', host, ...headers],
      agent: isTls ? this.#secure : this.#plain,
      setHost: false,
      maxHeaderSize: MAX_ANSWER_HEAD_BYTES,
    };
    const outgoing = isTls ? requestHttps(options) : requestHttp(options);
    outgoing.maxHeadersCount = 0;
    outgoing.setNoDelay(true);
    outgoing.once('socket', (socket) => limitConnect(socket, isTls ? 'secureConnect' : 'connect'));
    return outgoing;
  }

  /** A request whose body and answer are in memory. AppError upstream when the host does not answer in time. */
  async send(
    host: Host,
    request: HostRequest,
    body: { readonly bytes: Buffer } | undefined,
    signal: AbortSignal,
    { add, onConnect, onSent }: HostExchange = {},
  ): Promise<HostAnswer> {
    const outgoing = this.open(host, request);
    const onAbort = (): void => void outgoing.destroy(toError(signal.reason));
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      if (signal.aborted) onAbort();
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        outgoing.once('response', resolve).on('error', reject);
        outgoing.once('upgrade', (_, socket) => {
          socket.destroy();
          reject(new Error('it answered with 101'));
        });
        if (onConnect !== undefined)
          outgoing.once('socket', (socket) =>
            socket.connecting ? socket.once('connect', onConnect) : onConnect(),
          );
        if (onSent !== undefined) outgoing.once('finish', onSent);
        outgoing.end(body?.bytes);
      });
      return { answer, body: await readAll(answer, add) };
    } catch (error) {
      outgoing.destroy();
      throw toHostError(host, error);
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  /** A connection of its own. AppError upstream. */
  connect(host: Host, protocol: 'h2' | 'http/1.1' = 'http/1.1'): Promise<Socket> {
    const { url } = host;
    const isTls = url.protocol === 'https:';
    const address = { host: toHostName(url), port: Number(url.port || (isTls ? 443 : 80)), noDelay: true };
    const ready = isTls ? 'secureConnect' : 'connect';
    const options = { ...address, ...toOptions(this.#tls), ALPNProtocols: [protocol] };
    const socket = isTls
      ? connectTls({ ...options, ...(isIP(address.host) === 0 && { servername: address.host }) })
      : connectTcp({ ...address, allowHalfOpen: true });
    limitConnect(socket, ready);
    return new Promise((resolve, reject) => {
      const onError = (error: Error): void => reject(toHostError(host, error));
      socket.once('error', onError);
      socket.once(ready, () => {
        socket.off('error', onError);
        resolve(socket);
      });
    });
  }

  close(): void {
    this.#plain.destroy();
    this.#secure.destroy();
  }
}

function toOptions({ ca, cert, key }: HostTls) {
  return {
    minVersion: 'TLSv1.2' as const,
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert, key }),
  };
}

function toHostName({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, '');
}

function limitConnect(socket: Socket, event: 'connect' | 'secureConnect'): void {
  if (!socket.connecting) return;
  const timer = setTimeout(
    () => socket.destroy(new Error(`no connection within ${CONNECT_MS / 1000} s`)),
    CONNECT_MS,
  );
  const done = (): void => clearTimeout(timer);
  socket.once(event, done).once('close', done);
}

async function readAll(answer: IncomingMessage, add?: (bytes: number) => void): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  for await (const chunk of answer) {
    chunks.push(chunk);
    sizeBytes += chunk.length;
    add?.(chunk.length);
    if (sizeBytes > MAX_ANSWER_BYTES) throw new Error('its answer is too long');
  }
  if (!answer.complete) throw new Error('its answer was cut off');
  return Buffer.concat(chunks);
}

/** AppError upstream, which names the host. */
export function toHostError({ name, isReady }: Pick<Host, 'name' | 'isReady'>, error: unknown): AppError {
  const reason = errnoOf(error) ?? toError(error).message;
  const lost = isReady ? '' : '; the fleet has not heard of it either: it may be lost';
  return new AppError('upstream', `the host ${name} does not answer: ${reason}${lost}`, {
    cause: error,
  });
}
