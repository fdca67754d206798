// Authenticates requests by their key, for every transport, before a body is read.
import type { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import {
  Attempts,
  assertAccess,
  type Found,
  type KeyHolder,
  type KeyRegistry,
  OPERATOR,
  type Principal,
} from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import { findRoute, toPath } from './serve-routes.ts';
import { addressOfClient } from './server/client-address.ts';

/** The part of the key registry that authentication needs. */
export type Keys = Pick<KeyRegistry, 'isClosed' | 'find' | 'noteUse' | 'isStillValid' | 'assertDecided'>;

export type Credentials = {
  readonly authorization: string | undefined;
  /** Sec-WebSocket-Protocol: the only header that a browser can set for a WebSocket. */
  readonly protocols: string | undefined;
  readonly address: string;
};

/** Prefix of the WebSocket subprotocol that carries a key, as in Kubernetes. */
const PROTOCOL_PREFIX = 'bearer.';
/** Maximum number of delayed answers to wrong keys at a time, over all addresses. */
const MAX_DELAYED = 256;

export class Authenticator {
  readonly #keys: Keys;
  readonly #log: Logger;
  readonly #attempts: Attempts;
  /** Open requests of authenticated principals. */
  readonly open: OpenRequests;
  #delayed = 0;

  constructor(keys: Keys, log: Logger, attempts = new Attempts()) {
    this.#keys = keys;
    this.#log = log;
    this.#attempts = attempts;
    this.open = new OpenRequests((principal) => keys.isStillValid(principal));
  }

  /** Whether every client is the operator, because there are no keys. */
  get isOpen(): boolean {
    return !this.#keys.isClosed;
  }

  isStillValid(principal: KeyHolder): boolean {
    return this.#keys.isStillValid(principal);
  }

  /** AppError exhausted while it is not known whether clients need keys; see `KeyRegistry`. */
  assertDecided(): void {
    this.#keys.assertDecided(false);
  }

  /**
   * OPERATOR on a daemon without keys. AppError unauthenticated, whose delay grows with the number of wrong keys;
   * `exhausted` while a host of a fleet does not know the keys.
   */
  async authenticate(credentials: Credentials): Promise<Principal> {
    if (!this.#keys.isClosed) return OPERATOR;
    const { address } = credentials;
    const text = readKey(credentials);
    if (text === undefined) {
      this.#keys.assertDecided(false);
      throw new AppError('unauthenticated', 'no key came with the request; send Authorization: Bearer <key>');
    }
    const found = this.#keys.find(text);
    if (found.state !== 'valid') {
      await this.delayAnswer(address);
      if (found.state === 'unknown') this.#keys.assertDecided(true);
      throw new AppError('unauthenticated', explain(found));
    }
    this.#keys.noteUse(found.principal, address).catch((err: unknown) => {
      this.#log.warn({ err }, 'cannot record the use of a key');
    });
    return found.principal;
  }

  /** Checks a request before its body is read and the app sees it. AppError unauthenticated, forbidden. */
  async admit(request: IncomingMessage): Promise<void> {
    const { method = '', url, headers } = request;
    const route = findRoute(method, toPath(url));
    if (route?.access === 'public') return;
    const principal = await this.authenticate({
      authorization: headers.authorization,
      protocols: headers['sec-websocket-protocol'],
      address: addressOfClient(request),
    });
    if (route !== undefined) assertAccess(principal, route);
  }

  /** Call it before the answer to a wrong key or token. */
  async delayAnswer(address: string): Promise<void> {
    const { delayMs, done } = this.#attempts.failed(address);
    const isDelayed = delayMs > 0 && this.#delayed < MAX_DELAYED;
    if (isDelayed) {
      this.#delayed += 1;
      await sleep(delayMs, undefined, { ref: false });
      this.#delayed -= 1;
    }
    done();
  }
}

/** Selects the subprotocol of a WebSocket. Prefers one that does not carry a key. */
export function chooseProtocol(offered: ReadonlySet<string>): string | false {
  const [first, ...rest] = offered;
  const plain = [first, ...rest].find((protocol) => !protocol?.startsWith(PROTOCOL_PREFIX));
  return plain ?? first ?? false;
}

function readKey({ authorization, protocols }: Credentials): string | undefined {
  if (authorization !== undefined) return /^bearer +(\S+) *$/i.exec(authorization)?.[1] ?? '';
  const offered = protocols?.split(',').map((protocol) => protocol.trim());
  return offered?.find((protocol) => protocol.startsWith(PROTOCOL_PREFIX))?.slice(PROTOCOL_PREFIX.length);
}

/** The reason for a refusal. Only a client that has the key learns that it expired or was revoked. */
function explain(found: Found): string {
  if (found.state === 'expired')
    return `the key expired at ${new Date(found.atMs).toISOString()}; ask for another one`;
  if (found.state === 'revoked')
    return `the key was revoked at ${new Date(found.atMs).toISOString()}; ask for another one`;
  return 'this daemon has no such key; send Authorization: Bearer <key>, the key as it was shown at its creation';
}

// The open requests of keys. Closes the connections of keys that have expired or were revoked.
const CHECK_MS = 2000;

type Open = { readonly principal: KeyHolder; readonly socket: Duplex };

export class OpenRequests {
  readonly #isStillValid: (principal: KeyHolder) => boolean;
  readonly #checkMs: number;
  readonly #open = new Set<Open>();
  #timer: NodeJS.Timeout | undefined;

  constructor(isStillValid: (principal: KeyHolder) => boolean, checkMs = CHECK_MS) {
    this.#isStillValid = isStillValid;
    this.#checkMs = checkMs;
  }

  /** `lifetime` emits `close` at the end of the request. Does nothing if the client has left already. */
  add(principal: KeyHolder, socket: Duplex, lifetime: EventEmitter & { readonly destroyed?: boolean }): void {
    if (socket.destroyed || lifetime.destroyed === true) return;
    const open = { principal, socket };
    this.#open.add(open);
    lifetime.once('close', () => this.#open.delete(open));
    this.#timer ??= setInterval(() => this.#check(), this.#checkMs).unref();
  }

  #check(): void {
    const known = new Map<string, boolean>();
    for (const { principal, socket } of this.#open) {
      const isValid = known.get(principal.id) ?? this.#isStillValid(principal);
      known.set(principal.id, isValid);
      if (!isValid) socket.destroy();
    }
    if (this.#open.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}
