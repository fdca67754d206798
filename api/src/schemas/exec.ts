// The ExecReq: body of POST exec, first message of a WebSocket; and the JSON that frames carry.
import { z } from 'zod';
import { integer, optional, type Parsed, withDefault } from '../input/fields.ts';
import { queryInteger, querySwitch } from '../input/query.ts';
import {
  DEFAULT_EXEC_OUTPUT_BYTES,
  MAX_EXEC_OUTPUT_BYTES,
  MAX_EXEC_TIMEOUT_S,
  MAX_TTY_CELLS,
} from '../limits.ts';
import { word } from './answers.ts';
import { cmd, cwd, env, user } from './command.ts';

export const terminalSize = z.object(
  {
    cols: integer(1, MAX_TTY_CELLS).describe('columns'),
    rows: integer(1, MAX_TTY_CELLS).describe('rows'),
  },
  { error: 'must be an object of cols and rows' },
);

const SECONDS_ERROR = 'must be an integer of seconds, 0 for none';

export const execRequest = z
  .object(
    {
      cmd,
      cwd,
      env,
      user,
      timeout_s: withDefault(
        z.int({ error: SECONDS_ERROR }).min(0, { error: SECONDS_ERROR }),
        0,
        `seconds until the whole process group gets SIGKILL; 0, or more than ${MAX_EXEC_TIMEOUT_S}, is never`,
      ),
      tty: optional(terminalSize, 'a terminal of this size instead of pipes: all output is stdout'),
    },
    { error: 'must be a JSON object' },
  )
  .describe('a command to run');

/** A command, checked and with its defaults. */
export type ExecRequest = Parsed<z.output<typeof execRequest>>;

export const execQuery = z.object({
  stdin: querySwitch(
    '1',
    true,
    '1: frames in both directions on this connection, right behind request and answer',
  ),
  max_output_bytes: queryInteger(1, MAX_EXEC_OUTPUT_BYTES, DEFAULT_EXEC_OUTPUT_BYTES, {
    description: 'with Accept: application/json, most bytes of stdout, and of stderr, in the answer',
  }),
});

/** What a one-way exec can answer; the first is for whoever does not ask. */
export const EXEC_FORMS = ['application/octet-stream', 'application/x-ndjson', 'application/json'] as const;
export type ExecForm = (typeof EXEC_FORMS)[number];

/** Payload of a resize frame. */
export const resizeFrame = terminalSize.describe('the new size of the terminal');
/** Payload of a signal frame. */
export const signalFrame = z
  .object({ signal: word('name of a Linux signal, such as SIGINT') })
  .describe('a signal for the process group of the command');
