// Files into a sandbox and out of it.
import { z } from 'zod';
import { queryChoice, queryInteger } from '../input/query.ts';
import { DEFAULT_FILE_BYTES } from '../limits.ts';
import { count, warnings } from './answers.ts';

const PATH_ERROR = '{name} must be an absolute path of the guest, got {value}';
const MISSING_ERROR = 'the query parameter {name} is missing; give an absolute path of the guest';
const NUL_ERROR = '{name} must be an absolute path of the guest without a NUL character, got {value}';

const path = z
  .string({ error: MISSING_ERROR })
  .min(1, { error: MISSING_ERROR, abort: true })
  .regex(/^(?:\/|$)/, { error: PATH_ERROR })
  .regex(/^[^\0]*$/, { error: NUL_ERROR });

export const readFileQuery = z.object({
  path: path.describe('absolute path of a file in the guest; with format=tar of a directory, too'),
  max_bytes: queryInteger(1, undefined, DEFAULT_FILE_BYTES, {
    description: 'most bytes of the file that are returned; X-Truncated says that there are more',
  }),
  format: queryChoice(['raw', 'tar'], 'raw', {
    description: 'raw: the bytes of one file; tar: a directory, or one file, as an archive',
  }),
});

export const pushFilesQuery = z.object({
  path: path.describe('absolute path of the directory in the guest; made with its parents when missing'),
});

export const pushResult = z
  .object({
    files: count('regular files that were written'),
    bytes: count('bytes of their contents'),
    warnings,
  })
  .describe('what was written');
