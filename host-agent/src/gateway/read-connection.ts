// A connection of the guest that is read: the requests that it has open, and the way to its server.
import { once } from 'node:events';
import type { Duplex } from 'node:stream';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import type { ConnectionRecord } from '../network/connection-record.ts';
import type { ReadRequest, RequestVerdict } from '../network/request-verdict.ts';
import { DialError, type Gate, type Handed } from './gate.ts';
import type { Settings } from './settings.ts';

export type Protocol = 'h2' | 'http/1.1';

/** Why there is no server for a request, in words for its client and the log. */
export class NoServer extends Error {
  readonly status: 403 | 502;

  constructor(status: 403 | 502, reason: string) {
    super(reason);
    this.status = status;
  }
}

/** A request that goes on, or waits for its server. */
export type OpenRequest = {
  readonly request: ReadRequest;
  /** Whether the secrets that it has are still for its server; absent: it has none. */
  readonly holds?: (() => boolean) | undefined;
  /** The policy does not allow it any more, or its secrets changed. */
  readonly cancel: () => void;
};

/** Why a change ends requests. */
export const CHANGED = 'the policy or a secret changed';

type Report = (record: ConnectionRecord) => void;

const HANDSHAKE_MS = 10_000;
const DIAL_REASONS: ReadonlyMap<string, readonly [403 | 502, string]> = new Map([
  ['unreachable', [502, 'no address of the name answered']],
  ['not-allowed', [403, 'the policy does not allow its server any more, or its name has no address']],
  ['no-answer', [502, 'no daemon answered']],
  ['spoke', [502, 'the server spoke before it was asked']],
]);

export class ReadConnection {
  readonly handed: Handed;
  readonly requests = new Set<OpenRequest>();
  readonly #socket: Duplex;
  readonly #gate: Gate;
  readonly #settings: Settings;
  readonly #report: Report;
  readonly #servers = new Set<Duplex>();
  #isOver = false;

  constructor(handed: Handed, socket: Duplex, gate: Gate, settings: Settings, report: Report) {
    this.handed = handed;
    this.#socket = socket;
    this.#gate = gate;
    this.#settings = settings;
    this.#report = report;
    socket.once('close', () => this.destroy());
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  get scheme(): 'http' | 'https' {
    return this.handed.kind === 'tls' ? 'https' : 'http';
  }

  /** As a request names it. */
  get authority(): string {
    const { name, port, kind } = this.handed;
    return port === (kind === 'tls' ? 443 : 80) ? name : `${name}:${port}`;
  }

  judge(request: ReadRequest): RequestVerdict {
    return this.#settings.judge(this.handed, request);
  }

  /** What a change does not allow ends, by its policy or its secrets. Returns the number of requests. */
  settle(): number {
    const isRead = this.#settings.isRead(this.handed);
    const over = [...this.requests].filter(
      ({ request, holds }) => !isRead || !this.judge(request).isAllowed || holds?.() === false,
    );
    for (const { cancel } of over) cancel();
    if (!isRead) this.destroy();
    return over.length;
  }

  /** Of a request, or of a connection that has none. */
  report(fields: Omit<ConnectionRecord, 'protocol' | 'name' | 'port'>): void {
    const { kind: protocol, name, port } = this.handed;
    const { generation } = this.#settings;
    this.#report({ ...fields, protocol, name, port, ...(generation !== undefined && { generation }) });
  }

  /** A new connection to the server: its own, as no two of the guest share one. Rejects with NoServer. */
  async connect(protocols: readonly Protocol[]): Promise<Duplex> {
    const socket = await this.#gate.dial(this.handed.id).catch((error: unknown) => {
      const [status, reason] = DIAL_REASONS.get(error instanceof DialError ? error.reason : '') ?? [
        502 as const,
        'the connection has ended',
      ];
      throw new NoServer(status, reason);
    });
    // A server gets nothing of a connection that has ended, not even a hello.
    this.#assertOpen(this.#keep(socket));
    if (this.handed.kind === 'http') return socket;
    const server = await this.#secure(socket, protocols);
    this.#assertOpen(server);
    return server;
  }

  /** If it has ended, destroys its server and throws NoServer. */
  #assertOpen(server: Duplex): void {
    if (!this.#isOver) return;
    server.destroy();
    throw new NoServer(502, 'the connection has ended');
  }

  /** Idempotent. */
  destroy(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    for (const each of this.#servers) each.destroy();
    this.#socket.destroy();
  }

  #keep<T extends Duplex>(server: T): T {
    this.#servers.add(server);
    server.once('close', () => this.#servers.delete(server));
    return server;
  }

  async #secure(socket: Duplex, protocols: readonly Protocol[]): Promise<TLSSocket> {
    const { name } = this.handed;
    const server = connectTls({
      socket,
      servername: name,
      ALPNProtocols: [...protocols],
      secureContext: this.#settings.trust,
      rejectUnauthorized: true,
    });
    const timer = setTimeout(() => server.destroy(new Error('it took too long')), HANDSHAKE_MS);
    try {
      await once(server, 'secureConnect');
    } catch (error) {
      server.destroy();
      throw new NoServer(502, describeTlsError(error));
    } finally {
      clearTimeout(timer);
    }
    server.on('error', () => server.destroy());
    return server;
  }
}

function describeTlsError(error: unknown): string {
  const { code = '', message = '' } = error instanceof Error ? (error as NodeJS.ErrnoException) : {};
  if (/CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE/.test(code))
    return 'the server refused the TLS handshake; where it wants a certificate of the client, use tls: passthrough';
  if (
    /^(?:CERT_|DEPTH_|SELF_SIGNED|UNABLE_TO|ERR_TLS_CERT|HOSTNAME|INVALID_|ERR_SSL_(?:EE|CA|CERT))/.test(code)
  )
    return `the certificate of the server is not valid: ${code.toLowerCase().replaceAll('_', ' ')}`;
  return `TLS to the server failed: ${(code || message).toLowerCase().replaceAll('_', ' ').slice(0, 100)}`;
}
