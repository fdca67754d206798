// Upload and download of files.
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
  path: path.describe('absolute path of a file in the guest; with format=tar, of a file or directory'),
  max_bytes: queryInteger(1, undefined, DEFAULT_FILE_BYTES, {
    description: 'maximum number of bytes to return; X-Truncated is true if the file is longer',
  }),
  format: queryChoice(['raw', 'tar'], 'raw', {
    description: 'raw: the bytes of one file; tar: a directory or file as a tar archive',
  }),
});

export const pushFilesQuery = z.object({
  path: path.describe(
    'absolute path of the target directory in the guest; it and its parents are created if missing',
  ),
});

export const pushResult = z
  .object({
    files: count('number of regular files written'),
    bytes: count('total size of their contents in bytes'),
    warnings,
  })
  .describe('number of files and bytes written');
