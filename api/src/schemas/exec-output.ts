// The output of a command as JSON: one object, or one line for each chunk.
import { z } from 'zod';
import { flag, word } from './answers.ts';
import { execResult } from './command.ts';

const TEXT = 'output as text, or in base64 if the _base64 flag is set';

export const execOutput = z
  .object({
    stdout: word(`${TEXT}; only the beginning if it is truncated`),
    stderr: word(`${TEXT}; only the beginning if it is truncated`),
    stdout_base64: flag('stdout is not valid UTF-8 and encoded in base64'),
    stderr_base64: flag('stderr is not valid UTF-8 and encoded in base64'),
    stdout_truncated: flag('stdout exceeded max_output_bytes'),
    stderr_truncated: flag('stderr exceeded max_output_bytes'),
    ...execResult.shape,
  })
  .describe('the output and result of a command');

const chunk = z.object({
  stream: z.enum(['stdout', 'stderr']).describe('stream to which the output was written'),
  data: word('a chunk of output, in whole characters or in base64'),
  base64: flag('the chunk is not valid UTF-8 and encoded in base64'),
});

export const execPiece = z
  .union([chunk, z.object({ result: execResult.describe('the result; the last line') })])
  .describe('one line: a chunk of output, or the result');

export type ExecOutput = z.output<typeof execOutput>;
export type ExecPiece = z.output<typeof execPiece>;
