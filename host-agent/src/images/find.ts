// Finds the image that a text names: a reference in any spelling, a digest, or the prefix of a digest.
import { AppError } from '../lib/errors.ts';
import type { ImageRecord } from './record.ts';
import { formatReference, parseReference } from './reference.ts';

export type StoredImage = { readonly id: string; readonly record: ImageRecord };

const DIGEST_PREFIX = /^(?:sha256:)?([\da-f]{1,64})$/;

/** Undefined when no image matches. AppError conflict for an ambiguous digest prefix. */
export function findImage(images: readonly StoredImage[], text: string): StoredImage | undefined {
  const reference = parseReference(text);
  if (reference !== undefined) {
    const name = formatReference(reference);
    const named = images.find(({ record }) => record.refs.includes(name));
    if (named !== undefined) return named;
  }
  const prefix = DIGEST_PREFIX.exec(text)?.[1];
  if (prefix === undefined) return undefined;
  const found = images.filter(({ id }) => id.startsWith(prefix));
  if (found.length < 2) return found[0];
  const ids = found.map(({ id }) => `sha256:${id.slice(0, 16)}`).join(', ');
  throw new AppError(
    'conflict',
    `${text} is the beginning of the digests of ${found.length} images (${ids}); send more of it`,
  );
}

/** Whether the text is neither a reference nor a digest prefix, so that no image can have this name. */
export function isMeaningless(text: string): boolean {
  return parseReference(text) === undefined && !DIGEST_PREFIX.test(text);
}

/** Whether the text can be pulled from a registry; other names exist only on this daemon. */
export function isPullable(text: string): boolean {
  return !text.startsWith('sha256:') && parseReference(text) !== undefined;
}
