// Who asks, by the key that came with the request, whatever carries it. Nothing of a body is read for that.

import type { IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import {
  Attempts,
  assertAccess,
  type Found,
  type KeyRegistry,
  OPERATOR,
  type Principal,
} from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import { findRoute, toPath } from './known-routes.ts';
import { OpenRequests } from './open-requests.ts';

/** Where the daemon's keys are. */
export type Keys = Pick<KeyRegistry, 'isClosed' | 'find' | 'noteUse' | 'isStillValid'>;

export type Credentials = {
  readonly authorization: string | undefined;
  /** Sec-WebSocket-Protocol: a browser can give a WebSocket no other header. */
  readonly protocols: string | undefined;
  readonly address: string;
};

/** What a protocol of a WebSocket begins with whose rest is a key, as Kubernetes has it. */
const PROTOCOL_PREFIX = 'bearer.';
/** Answers to wrong keys that are held back at once, of all addresses. */
const MAX_HELD = 256;

export class Authenticator {
  readonly #keys: Keys;
  readonly #log: Logger;
  readonly #attempts: Attempts;
  /** Requests of callers who got in. */
  readonly open: OpenRequests;
  #held = 0;

  constructor(keys: Keys, log: Logger, attempts = new Attempts()) {
    this.#keys = keys;
    this.#log = log;
    this.#attempts = attempts;
    this.open = new OpenRequests((principal) => keys.isStillValid(principal));
  }

  /** OPERATOR on a daemon without keys. AppError unauthenticated, for a wrong key the later the more there were. */
  async authenticate(credentials: Credentials): Promise<Principal> {
    if (!this.#keys.isClosed) return OPERATOR;
    const { address } = credentials;
    const text = readKey(credentials);
    if (text === undefined) {
      throw new AppError('unauthenticated', 'no key came with the request; send Authorization: Bearer <key>');
    }
    const found = this.#keys.find(text);
    if (found.state !== 'valid') {
      await this.#holdBack(address);
      throw new AppError('unauthenticated', explain(found));
    }
    this.#keys.noteUse(found.principal, address).catch((err: unknown) => {
      this.#log.warn({ err }, 'cannot write down that a key was used');
    });
    return found.principal;
  }

  /** For a request that the app will see only after more of it was taken. AppError unauthenticated, forbidden. */
  async admit({ method = '', url, headers, socket }: IncomingMessage): Promise<void> {
    const route = findRoute(method, toPath(url));
    if (route?.access === 'public') return;
    const principal = await this.authenticate({
      authorization: headers.authorization,
      protocols: headers['sec-websocket-protocol'],
      address: socket.remoteAddress ?? 'local',
    });
    if (route !== undefined) assertAccess(principal, route);
  }

  async #holdBack(address: string): Promise<void> {
    const { delayMs, done } = this.#attempts.failed(address);
    const isHeld = delayMs > 0 && this.#held < MAX_HELD;
    if (isHeld) {
      this.#held += 1;
      await sleep(delayMs, undefined, { ref: false });
      this.#held -= 1;
    }
    done();
  }
}

/** The protocol that a WebSocket is answered with: not the one with the key if there is another. */
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

/** Only who has the key learns that it was one. */
function explain(found: Found): string {
  if (found.state === 'expired')
    return `the key expired at ${new Date(found.atMs).toISOString()}; ask for another one`;
  if (found.state === 'revoked')
    return `the key was revoked at ${new Date(found.atMs).toISOString()}; ask for another one`;
  return 'the key is none of this daemon; send Authorization: Bearer <key>, the key as it was shown at its creation';
}
