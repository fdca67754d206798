// The text of a key, and its stored hash.
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

const SHAPE = /^sbk_[A-Za-z0-9_-]{32}$/;
const RANDOM_BYTES = 24;
/** Leading characters of the hash: the key's id, by which it is looked up and shown. It does not reveal the key. */
const ID_CHARS = 16;

export function mintKey(): string {
  return `sbk_${randomBytes(RANDOM_BYTES).toString('base64url')}`;
}

export function isKeyText(text: string): boolean {
  return SHAPE.test(text);
}

/**
 * SHA-256 in hexadecimal. A slow hash protects guessable secrets; 192 random bits cannot be guessed, and each request
 * computes this hash.
 */
export function hashKey(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

export function toKeyId(hash: string): string {
  return hash.slice(0, ID_CHARS);
}

/** Constant-time comparison. */
export function areSameHash(a: string, b: string): boolean {
  return timingSafeEqual(Buffer.from(a, 'hex'), Buffer.from(b, 'hex'));
}
