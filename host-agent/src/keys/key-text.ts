// A key as its holder has it, and what is kept of it.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const SHAPE = /^sbk_[A-Za-z0-9_-]{32}$/;
const RANDOM_BYTES = 24;
/** Of the hash, what a key is looked up by and shown as: it tells nothing of the key. */
const ID_CHARS = 16;

export function mintKey(): string {
  return `sbk_${randomBytes(RANDOM_BYTES).toString('base64url')}`;
}

export function isKeyText(text: string): boolean {
  return SHAPE.test(text);
}

/**
 * SHA-256 as hexadecimal digits. A slow hash would protect what can be guessed: nobody guesses 192 random bits, however
 * fast a try is, and each request pays for this one.
 */
export function hashKey(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

export function toKeyId(hash: string): string {
  return hash.slice(0, ID_CHARS);
}

/** In a time that does not depend on where they differ. */
export function areSameHash(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(a, 'hex'), Buffer.from(b, 'hex'));
}
