// Resource ids: a prefix and 13 lower-case base32hex characters made of 8 random bytes.
import { randomBytes } from 'node:crypto';

const ALPHABET = '0123456789abcdefghijklmnopqrstuv';

export type IdKind = 'sbx' | 'snap';

/** base32hex, no padding, most significant bit first. */
export function toBase32Hex(bytes: Uint8Array): string {
  let text = '';
  let bits = 0;
  let value = 0;
  for (const byte of bytes) {
    value = (value << 8) | byte;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(value >>> bits) & 31];
    }
    value &= (1 << bits) - 1;
  }
  return bits === 0 ? text : text + ALPHABET[(value << (5 - bits)) & 31];
}

export function newId(kind: IdKind): string {
  return `${kind}_${toBase32Hex(randomBytes(8))}`;
}

export function isId(kind: IdKind, text: string): boolean {
  return (
    text.length === kind.length + 14 && text.startsWith(`${kind}_`) && /^[0-9a-v]{13}$/.test(text.slice(-13))
  );
}
