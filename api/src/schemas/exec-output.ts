// The output of a one-way exec as JSON: all of it in one object, or a line for each piece.
import { z } from 'zod';
import { flag, word } from './answers.ts';
import { execResult } from './command.ts';

const TEXT = 'what it wrote, as text; in base64 where the flag beside it says so';

export const execOutput = z
  .object({
    stdout: word(`${TEXT}; the beginning, where it is cut`),
    stderr: word(`${TEXT}; the beginning, where it is cut`),
    stdout_base64: flag('stdout is no UTF-8, and so in base64'),
    stderr_base64: flag('stderr is no UTF-8, and so in base64'),
    stdout_truncated: flag('there was more than max_output_bytes on stdout'),
    stderr_truncated: flag('there was more than max_output_bytes on stderr'),
    ...execResult.shape,
  })
  .describe('what a command wrote and what came of it');

const piece = z.object({
  stream: z.enum(['stdout', 'stderr']).describe('where it was written'),
  data: word('a piece as it came, of whole characters, or in base64'),
  base64: flag('the piece is no UTF-8, and so in base64'),
});

export const execPiece = z
  .union([piece, z.object({ result: execResult.describe('what came of it; the last line') })])
  .describe('a line: a piece of output, or the result');

export type ExecOutput = z.output<typeof execOutput>;
export type ExecPiece = z.output<typeof execPiece>;
