// Names of images in the bucket: each leads to an image, or nowhere since a delete.
import { z } from 'zod';
import { type AppError, firstLine, isAppError } from '../lib/errors.ts';
import { imageIdSchema } from './manifest.ts';
import type { Bucket } from './s3/bucket.ts';
import { damaged, type StoreKeys } from './store-keys.ts';

export const NAMES = 'names/';
const MAX_NAME_BYTES = 8192;

const named = z.looseObject({
  ref: z.string(),
  /** Absent: it leads nowhere since a delete, and an older pull does not bring it back. */
  id: imageIdSchema.optional(),
  /** When what it leads to was asked for, or deleted, by the clock of that host. */
  atMs: z.number(),
});
export type Named = z.output<typeof named>;

export type FoundName = {
  /** Undefined: it is larger than any of ours, and was not read. */
  readonly etag: string | undefined;
  readonly agoMs: number;
  /** Undefined: it cannot be read. */
  readonly name: Named | undefined;
  readonly problem?: unknown;
};

/** Who reads the bucket learns no name. */
export function pathOfName(keys: StoreKeys, ref: string): string {
  return `${NAMES}${keys.tenant(undefined).nameOf(Buffer.from(`name of an image\n${ref}`))}`;
}

export function sealName(keys: StoreKeys, name: Named): Buffer {
  return keys.seal(pathOfName(keys, name.ref), Buffer.from(JSON.stringify(name)));
}

export function isDamage(error: unknown): error is AppError {
  return isAppError(error) && error.code === 'internal';
}

export async function readName(
  bucket: Bucket,
  keys: StoreKeys,
  path: string,
  signal: AbortSignal,
): Promise<FoundName | undefined> {
  const sealed = await bucket.read(path, MAX_NAME_BYTES, signal).catch((error: unknown) => {
    if (isDamage(error)) return error;
    throw error;
  });
  if (sealed === undefined) return undefined;
  if (isDamage(sealed)) {
    const there = await bucket.head(path, signal);
    return there && { etag: undefined, agoMs: there.agoMs, name: undefined, problem: sealed };
  }
  const { body, etag, agoMs } = sealed;
  try {
    return { etag, agoMs, name: named.parse(JSON.parse(keys.open(path, body).toString())) };
  } catch (cause) {
    const problem = damaged(`${path} cannot be used: ${firstLine(cause)}`, cause);
    return { etag, agoMs, name: undefined, problem };
  }
}
