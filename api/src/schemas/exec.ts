// The exec request: body of POST exec, and first message of a WebSocket. Also the JSON payloads of frames.
import { z } from 'zod';
import { integer, integerOrDefault, optional, type Parsed, withDefault } from '../input/fields.ts';
import { queryInteger, querySwitch } from '../input/query.ts';
import {
  DEFAULT_EXEC_OUTPUT_BYTES,
  DEFAULT_OUTPUT_BUFFER_BYTES,
  MAX_EXEC_OUTPUT_BYTES,
  MAX_EXEC_TIMEOUT_S,
  MAX_OUTPUT_BUFFER_BYTES,
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

const FLAG_ERROR = { error: 'must be true or false' };

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
        `seconds after which the whole process group gets SIGKILL; 0, or more than ${MAX_EXEC_TIMEOUT_S}, means never`,
      ),
      tty: optional(
        terminalSize,
        'run in a terminal of this size instead of with pipes; all output is then stdout',
      ),
      detach: optional(
        z.boolean(FLAG_ERROR),
        'true: the response comes when the command has started; the command does not depend on its client, and ' +
          'the guest stores its output',
      ),
      stdin: optional(
        z.boolean(FLAG_ERROR),
        'with detach, true: the input of the command stays open for later requests; with a terminal it always does',
      ),
      output_buffer_bytes: integerOrDefault(1, MAX_OUTPUT_BUFFER_BYTES, undefined, {
        description: `with detach: bytes of the newest output that the guest stores; default ${DEFAULT_OUTPUT_BUFFER_BYTES}`,
      }),
    },
    { error: 'must be a JSON object' },
  )
  .describe('a command to run');

/** A validated request with its defaults. */
export type ExecRequest = Parsed<z.output<typeof execRequest>>;

const commandId = querySwitch(
  '1',
  true,
  '1: an interactive response says the id of the command: in the header X-Command-Id, or in the first frame of a ' +
    'WebSocket',
);

export const execWebSocketQuery = z.object({ command_id: commandId });

export const execQuery = z.object({
  command_id: commandId,
  stdin: querySwitch(
    '1',
    true,

    '1: interactive; the connection carries frames in both directions, directly after the request and the ' +
      'response head',
  ),
  max_output_bytes: queryInteger(1, MAX_EXEC_OUTPUT_BYTES, DEFAULT_EXEC_OUTPUT_BYTES, {
    description:
      'with Accept: application/json, maximum number of bytes of stdout, and of stderr, in the response',
  }),
});

/** Response formats of a non-interactive exec. The first one is the default. */
export const EXEC_FORMS = ['application/octet-stream', 'application/x-ndjson', 'application/json'] as const;
export type ExecForm = (typeof EXEC_FORMS)[number];

/** Payload of a resize frame. */
export const resizeFrame = terminalSize.describe('new size of the terminal');
/** Payload of a signal frame. */
export const signalFrame = z
  .object({ signal: word('name of a Linux signal, such as SIGINT') })
  .describe('a signal for the process group of the command');
