// Resource ids: a prefix and 13 lower-case base32hex characters (8 random bytes).
import { randomBytes } from 'node:crypto';
import { base32hexnopad } from '@scure/base';

type IdKind = 'sbx' | 'snap' | 'cmd';

/** 13 unguessable characters. */
export function randomSuffix(): string {
  return base32hexnopad.encode(randomBytes(8)).toLowerCase();
}

export function newId(kind: IdKind): string {
  return `${kind}_${randomSuffix()}`;
}

export function isId(kind: IdKind, text: string): boolean {
  return (
    text.length === kind.length + 14 && text.startsWith(`${kind}_`) && /^[0-9a-v]{13}$/.test(text.slice(-13))
  );
}
