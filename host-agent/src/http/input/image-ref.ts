// How images are named: as Docker writes references, by a digest, or by the beginning of one.
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { show } from '../context.ts';
import { optional, text } from './read-fields.ts';

const MAX_REF_CHARS = 512;
const HOST =
  /(?:[a-zA-Z\d](?:[a-zA-Z\d-]*[a-zA-Z\d])?(?:\.[a-zA-Z\d](?:[a-zA-Z\d-]*[a-zA-Z\d])?)*|\[[\da-fA-F:]+\])(?::\d+)?/;
const COMPONENT = /[a-z\d]+(?:(?:[._]|__|-+)[a-z\d]+)*/;
const DIGEST = /[a-zA-Z][a-zA-Z\d]*(?:[-_+.][a-zA-Z][a-zA-Z\d]*)*:[\da-fA-F]{32,}/;
const REFERENCE = new RegExp(
  `^(?:${HOST.source}/)?${COMPONENT.source}(?:/${COMPONENT.source})*(?::\\w[\\w.-]{0,127})?(?:@${DIGEST.source})?$`,
);

const refError = 'must be an image reference such as nginx:alpine, or a digest';
const formsError = 'must have exactly one of oci and path';

/** `image` of a create. */
export const imageSchema = z
  .object(
    {
      oci: optional(text(refError).refine(isImageRef, { error: refError }), ''),
      path: optional(
        text('must be an absolute path').refine((path) => path.startsWith('/'), {
          error: 'must be an absolute path',
        }),
        '',
      ),
    },
    { error: 'must be an object' },
  )
  .refine(({ oci, path }) => (oci === undefined) !== (path === undefined), { error: formsError });

/** The reference of a path; AppError invalid_argument when it can be none. */
export function checkImageRef(ref: string): void {
  if (isImageRef(ref)) return;
  throw new AppError('invalid_argument', `image reference ${show(ref)} ${refError}`);
}

/** For every operation on images of a daemon that has none. */
export function imagesAreOff(): AppError {
  return new AppError('unsupported', 'image support is not enabled on this daemon; create from a profile');
}

function isImageRef(ref: string): boolean {
  return ref.length <= MAX_REF_CHARS && REFERENCE.test(ref);
}
