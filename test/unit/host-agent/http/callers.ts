// Who asks, for tests without a registry of keys.
import { pino } from 'pino';
import { Authenticator, type Keys } from '../../../../host-agent/src/http/authentication.ts';
import type { Found, KeyHolder } from '../../../../host-agent/src/keys/index.ts';

export const CALLER: KeyHolder = { kind: 'key', id: 'k1', key: 'ci', tenant: 'acme' };
export const KEY = { headers: { authorization: 'Bearer k' } };

/** Keys by their text, and what was noted of their use. */
export function keysOf(found: Record<string, Found> = { good: { state: 'valid', principal: CALLER } }) {
  const uses: unknown[] = [];
  const keys: Keys = {
    isClosed: true,
    find: (text) => found[text] ?? { state: 'unknown' },
    noteUse: async (...args) => void uses.push(args),
    isStillValid: () => true,
    assertDecided: () => undefined,
  };
  return { keys, uses };
}

/** Everybody has a key that says so much. */
export function authenticatorOf(principal: KeyHolder): Authenticator {
  const { keys } = keysOf();
  return new Authenticator(
    { ...keys, find: () => ({ state: 'valid', principal }) },
    pino({ level: 'silent' }),
  );
}

/** Of a daemon without keys. */
export function keyless(): Authenticator {
  const { keys } = keysOf({});
  return new Authenticator({ ...keys, isClosed: false }, pino({ level: 'silent' }));
}
