// Connections of HTTP/2 to ports of guests. Clients do not share them; one ends soon after its last stream, so that
// what allowed its streams does not hold the guest longer.

import type { OutgoingHttpHeaders } from 'node:http';
import { type ClientHttp2Session, type ClientHttp2Stream, connect } from 'node:http2';
import type { Duplex } from 'node:stream';
import { guardFirstBytes } from '../lib/http2-sessions.ts';
import type { Budget } from './grpc-body.ts';
import type { SandboxPorts } from './port-host.ts';

const CONNECT_MS = 120_000;
/** Of an answer that the client has not read. */
const WINDOW_BYTES = 32 * 1024;
/** How long a connection without streams is kept. */
const KEPT_MS = 2000;
/** How long a guest may take to close its side. */
const LINGER_MS = 1000;

export class GuestSession {
  readonly budget: Budget = { heldBytes: 0 };
  readonly #session: ClientHttp2Session;
  readonly #connection: Duplex;
  readonly #onRetire: () => void;
  #streamCount = 0;
  #isRetired = false;
  #isEnded = false;
  #timer: NodeJS.Timeout | undefined;

  /** `onRetire` is called once, when it takes no further streams. */
  constructor(connection: Duplex, onRetire: () => void) {
    this.#connection = connection;
    this.#onRetire = onRetire;
    this.#session = connect('http://guest', {
      createConnection: () => connection,
      settings: { enablePush: false, initialWindowSize: WINDOW_BYTES },
    });
    guardFirstBytes(this.#session, connection);
    this.#session.on('error', () => this.#session.destroy());
    this.#session.once('goaway', () => this.retire());
    this.#session.once('close', () => this.retire());
    this.#rest();
  }

  /** Throws for headers that cannot be sent. */
  request(headers: OutgoingHttpHeaders, endStream: boolean): ClientHttp2Stream {
    const stream = this.#session.request(headers, { endStream });
    this.#streamCount += 1;
    clearTimeout(this.#timer);
    stream.once('close', () => {
      this.#streamCount -= 1;
      this.#rest();
    });
    return stream;
  }

  /** Ends it when its last stream ends. */
  retire(): void {
    if (!this.#isRetired) {
      this.#isRetired = true;
      this.#onRetire();
    }
    this.#rest();
  }

  /** Ends its streams as well. */
  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    clearTimeout(this.#timer);
    this.#session.destroy();
    if (this.#connection.closed) return;
    const timer = setTimeout(() => this.#connection.destroy(), LINGER_MS).unref();
    this.#connection.once('close', () => clearTimeout(timer));
  }

  #rest(): void {
    if (this.#streamCount > 0) return;
    clearTimeout(this.#timer);
    if (this.#isRetired) this.end();
    else this.#timer = setTimeout(() => this.retire(), KEPT_MS).unref();
  }
}

/** Those of one connection of a client. */
export class GuestSessions {
  /** Of each port that which takes further streams. */
  readonly #byPort = new Map<string, Promise<GuestSession>>();
  readonly #open = new Set<GuestSession>();
  #isEnded = false;

  /** AppErrors of `connectPort`. */
  get(sandbox: SandboxPorts, port: number): Promise<GuestSession> {
    const key = toKey(sandbox, port);
    const known = this.#byPort.get(key);
    if (known !== undefined) return known;
    const forget = (): void => {
      if (this.#byPort.get(key) === opened) this.#byPort.delete(key);
    };
    const opened = sandbox
      .connectPort(port, { signal: AbortSignal.timeout(CONNECT_MS) })
      .then((connection) => {
        const session = new GuestSession(connection, forget);
        this.#open.add(session);
        connection.once('close', () => {
          this.#open.delete(session);
          session.retire();
        });
        if (this.#isEnded) session.end();
        return session;
      });
    this.#byPort.set(key, opened);
    opened.catch(forget);
    return opened;
  }

  /** The next stream to the port gets another connection. */
  retire(sandbox: SandboxPorts, port: number): void {
    const key = toKey(sandbox, port);
    const session = this.#byPort.get(key);
    this.#byPort.delete(key);
    session?.then(
      (opened) => opened.retire(),
      () => undefined,
    );
  }

  end(): void {
    this.#isEnded = true;
    for (const session of this.#open) session.end();
  }
}

function toKey({ id }: SandboxPorts, port: number): string {
  return `${id}:${port}`;
}
