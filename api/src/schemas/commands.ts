// Commands by id: their status, their output as lines, and requests to them.
import { z } from 'zod';
import { choice } from '../input/fields.ts';
import { queryChoice, queryInteger, querySwitch } from '../input/query.ts';
import { DEFAULT_KILL_GRACE_S, MAX_COMMAND_LINE_BYTES, MAX_SECONDS } from '../limits.ts';
import { count, dateTime, flag, unixMs, warnings, word } from './answers.ts';
import { execResult, SIGNALS } from './command.ts';
import { commandId } from './id.ts';

const COMMAND_STATES = ['running', 'exited'] as const;

export const command = z
  .object({
    id: commandId,
    state: z.enum(COMMAND_STATES).describe('current state'),
    cmd: z.array(z.string()).describe('program and arguments'),
    cmd_truncated: flag(`only the first ${MAX_COMMAND_LINE_BYTES} bytes of cmd are shown`),
    detached: z
      .boolean()
      .describe('it does not depend on its client; output, attach and stdin are only for such a command'),
    pid: z.int().min(1).optional().describe('process id in the guest; absent if it never started'),
    stdin: flag('its input is open'),
    tty: z
      .object({ cols: count('columns'), rows: count('rows') })
      .optional()
      .describe('size of its terminal; absent without a terminal'),
    started_at: dateTime('time of its start'),
    exited_at: dateTime('time of its end').optional(),
    result: execResult.optional().describe('the result; only after its end'),
    output: z
      .object({
        first_seq: count('sequence number of the oldest stored record'),
        next_seq: count('sequence number of the next record'),
        dropped_bytes: count('bytes of output that are no longer stored'),
      })
      .optional()
      .describe('its stored output; only of a detached command'),
    warnings,
  })
  .describe('a command of a sandbox');

export const commandList = z
  .object({ commands: z.array(command).describe('oldest first') })
  .describe('the commands of a sandbox that run, or have ended within the last hour');

/** Every line has `seq`. The other fields depend on its kind: output, a gap, or the end. */
export const commandLine = z
  .object({
    seq: count('sequence number of the record; in other lines, of the next record'),
    stream: z.enum(['stdout', 'stderr']).optional().describe('stream to which the output was written'),
    unix_ms: unixMs('time of the output').optional(),
    data: word('the output as text, or in base64 if the base64 flag is set').optional(),
    base64: flag('the data is not valid UTF-8 and encoded in base64'),
    dropped_records: count('number of dropped records before this one').optional(),
    dropped_bytes: count('bytes of output in the dropped records').optional(),
    state: z.enum(COMMAND_STATES).optional().describe('state of the command; in the last line'),
    result: execResult.optional().describe('the result; in the last line, if the command has ended'),
  })
  .describe('one line: output, dropped output, or the end of the answer');

export type CommandBody = z.output<typeof command>;
export type CommandLine = z.output<typeof commandLine>;

/** Forms of the stored output, in the order of precedence; without Accept it is the last one. */
export const COMMAND_FORMS = [
  'application/x-ndjson',
  'text/event-stream',
  'application/octet-stream',
] as const;

const from = queryInteger(0, undefined, 0, {
  description:
    'sequence number of the first record; if it is no longer stored, the output starts with the oldest stored one',
});

export const commandOutputQuery = z.object({
  from,
  follow: querySwitch(
    '1',
    true,
    '1: the answer continues with new output until the command ends, instead of ending after the stored output',
  ),
  last_event_id: z
    .string()
    .regex(/^\d{0,16}$/, { error: 'must be the id of an earlier event' })
    .optional()
    .meta({ description: 'continue after this record, as Last-Event-ID does' }),
});

export const ATTACH_INPUTS = ['write', 'take', 'none'] as const;

export const attachQuery = z.object({
  from,
  input: queryChoice(ATTACH_INPUTS, 'write', {
    description:
      'write: the client writes to the command; 409 if another one does. take: it writes in place of another one. ' +
      'none: it only reads',
  }),
});

export const attachDuplexQuery = attachQuery.extend({
  stdin: querySwitch(
    '1',
    true,
    '1: the connection carries frames in both directions, directly after the request and the response head; ' +
      'without it the client only reads',
  ),
});

export const stdinQuery = z.object({
  close: querySwitch(
    '1',
    true,
    '1: the input is closed after these bytes; a terminal gets its end character',
  ),
});

export const waitQuery = z.object({
  timeout_s: queryInteger(0, MAX_SECONDS, undefined, {
    description: 'seconds after which the answer comes although the command still runs; default: never',
  }),
});

export const killQuery = z.object({
  grace_s: queryInteger(0, MAX_SECONDS, DEFAULT_KILL_GRACE_S, {
    description: 'seconds from SIGTERM to SIGKILL; 0: SIGKILL at once',
  }),
});

const signals = choice(
  SIGNALS,
  'SIGTERM',
  'name of a Linux signal for the process group of the command',
  'must be a Linux signal, such as SIGTERM or SIGRTMIN+3',
);
export const signalRequest = z
  .object({ signal: signals }, { error: 'must be a JSON object' })
  .describe('a signal for a command');
