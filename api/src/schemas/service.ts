// The supervised service: its spec, its status, and its output as JSON.
import { z } from 'zod';
import { environment } from '../input/environment.ts';
import { choice, integer, integerOrDefault, type Parsed, rule, withDefault } from '../input/fields.ts';
import { queryInteger, querySwitch } from '../input/query.ts';
import {
  DEFAULT_LOG_BUFFER_BYTES,
  DEFAULT_OUTPUT_PAGE_BYTES,
  DEFAULT_STOP_GRACE_S,
  MAX_LOG_BUFFER_BYTES,
  MAX_OUTPUT_PAGE_BYTES,
  MAX_SECONDS,
  MAX_SERVICE_CHARS,
} from '../limits.ts';
import { count, flag, unixMs, warnings, word } from './answers.ts';
import { cmd, cwd, env, execResult, optionalCmd, SIGNALS, user } from './command.ts';

export const RESTART_POLICIES = ['never', 'on-failure', 'always'] as const;
export const SERVICE_STATES = [
  'idle',
  'starting',
  'running',
  'stopping',
  'backing_off',
  'stopped',
  'failed',
] as const;

export const restart = rule(
  z.object(
    {
      policy: choice(RESTART_POLICIES, 'never', 'when to restart the service after its exit'),
      max_retries: withDefault(
        integer(0, MAX_SECONDS, ', 0 for no limit'),
        0,
        'consecutive failures after which the state stays failed, 0 for no limit; only with the policy on-failure',
      ),
    },
    { error: 'must be an object of policy and max_retries' },
  ),
  'max_retries above 0 needs the policy on-failure',
  ({ policy, max_retries }) => policy === 'on-failure' || max_retries === 0,
  { error: 'must not have max_retries unless its policy is on-failure' },
);

const common = {
  cwd,
  env,
  env_exact: withDefault(
    z.boolean({ error: 'must be true or false' }),
    false,
    'use only env as environment, plus PATH and HOME if unset, and create cwd if it is missing',
  ),
  log_buffer_bytes: integerOrDefault(1, MAX_LOG_BUFFER_BYTES, DEFAULT_LOG_BUFFER_BYTES, {
    description: 'size of the ring buffer in the guest that stores the newest output, bytes',
  }),
  restart: withDefault(restart, { policy: 'never', max_retries: 0 }, 'restart policy'),
  stop_grace_s: integerOrDefault(0, MAX_SECONDS, DEFAULT_STOP_GRACE_S, {
    description: 'seconds from the stop signal to SIGKILL',
    note: ' seconds',
  }),
  stop_signal: choice(
    SIGNALS,
    'SIGTERM',
    'signal that a stop sends to the process group: a Linux signal, such as SIGTERM or SIGRTMIN+3',
    'must be a Linux signal, such as SIGTERM or SIGRTMIN+3',
  ),
  user,
};

const object = { error: 'must be a JSON object' };

type SpecTexts = {
  readonly cmd?: readonly string[] | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
  readonly user?: string | undefined;
};

/** The daemon stores the spec in memory for the lifetime of the sandbox, so its size is limited. */
function hasAllowedSize({ cmd = [], env, cwd = '', user = '' }: SpecTexts): boolean {
  const texts = [...cmd, ...Object.entries(env).flat(), cwd, user];
  return texts.reduce((sum, text) => sum + text.length, 0) <= MAX_SERVICE_CHARS;
}
const SIZE_RULE = `cmd, env, cwd and user have at most ${MAX_SERVICE_CHARS} characters together`;
const SIZE_ERROR = { error: `must have at most ${MAX_SERVICE_CHARS} characters in cmd, env, cwd and user` };

export const serviceSpec = rule(
  z.object({ cmd, ...common }, object),
  SIZE_RULE,
  hasAllowedSize,
  SIZE_ERROR,
).describe('the program of the service and how to supervise it');

/** A validated spec with its defaults. */
export type ServiceSpec = Parsed<z.output<typeof serviceSpec>>;

/** The `service` of a create request. An image may define the command. */
export const createdService = rule(
  z.object({ cmd: optionalCmd, ...common }, object),
  SIZE_RULE,
  hasAllowedSize,
  SIZE_ERROR,
).describe(
  'the service, which is configured and started before the response; with an image, the fields override those ' +
    'of the image',
);

/** A `ServiceSpec` without the fields that an image may define. */
export type CreatedService = Parsed<z.output<typeof createdService>>;

export const stopRequest = z
  .object(
    {
      grace_s: integerOrDefault(0, MAX_SECONDS, undefined, {
        description: 'seconds from the stop signal to SIGKILL for this stop; the spec has the default',
        note: ' seconds',
      }),
    },
    object,
  )
  .describe('how to stop the service');

/** The spec in responses: with all defaults, without empty fields. */
export const shownSpec = z
  .object({
    cmd: z.array(z.string()).describe('program and arguments'),
    cwd: word('working directory').optional(),
    env: environment.optional().describe('environment variables'),
    env_exact: flag('only env is used as environment, apart from PATH and HOME'),
    log_buffer_bytes: count('size of the output buffer in the guest, bytes'),
    restart: z
      .object({
        policy: z.enum(RESTART_POLICIES).describe('when the service is restarted'),
        max_retries: z
          .int()
          .min(1)
          .optional()
          .describe('consecutive failures after which the state stays failed'),
      })
      .describe('restart policy'),
    stop_grace_s: count('seconds from the stop signal to SIGKILL'),
    stop_signal: z.enum(SIGNALS).describe('signal that a stop sends'),
    user: word('user and group; root if absent').optional(),
  })
  .describe('the configured service');

export const serviceStatus = z
  .object({
    state: z.enum(SERVICE_STATES).describe('current state'),
    pid: z.int().min(1).optional().describe('process id in the guest; only while the process runs'),
    restarts: count('number of automatic restarts of this spec').optional(),
    spec: shownSpec.optional(),
    started_at_unix_ms: unixMs('start time of the process; only while it runs').optional(),
    uptime_ms: count('run time of the process in milliseconds').optional(),
    last_exit: execResult
      .optional()
      .describe('result of the last run; exit_code -1 and error if the process could not start'),
    last_exit_at_unix_ms: unixMs('time of the last exit').optional(),
    last_exit_requested: z.boolean().optional().describe('true if a stop caused the last exit'),
    live_rss_bytes: count('resident memory of its processes, bytes').optional(),
    live_peak_rss_bytes: count('peak of live_rss_bytes').optional(),
    log_dropped_bytes: count('bytes of output that the buffer has dropped').optional(),
    log_first_seq: count('sequence number of the oldest stored record').optional(),
    log_next_seq: count('sequence number of the next record').optional(),
    warnings,
  })
  .describe('the status of the service; only state is always present');

export const serviceLogsQuery = z.object({
  follow: querySwitch(
    '0',
    false,
    '0: the stream ends after the stored output instead of following new output',
  ),
  from_seq: queryInteger(0, undefined, undefined, {
    description:
      'return one JSON page, or lines, starting with this record or, if it was dropped, with the oldest stored one',
  }),
  ring: z
    .string()
    .regex(/^[0-9a-f]{16}$/, { error: 'must be the ring of an earlier line' })
    .optional()
    .describe(
      'for lines: the ring to which from_seq belongs; if that ring no longer exists, from_seq is ignored',
    ),
  max_bytes: queryInteger(1, undefined, undefined, {
    description:
      `return one JSON page with at most this many bytes of output; default ${DEFAULT_OUTPUT_PAGE_BYTES}, maximum ` +
      `${MAX_OUTPUT_PAGE_BYTES}`,
  }),
});

const record = {
  seq: count('sequence number of the record'),
  stream: z.enum(['stdout', 'stderr']).describe('stream to which the output was written'),
  unix_ms: unixMs('time of the output'),
  data: z.base64().describe('the bytes in base64'),
};

/** Every line has `seq`. The other fields depend on its kind: start of a ring, gap, or output. */
export const serviceLogLine = z
  .object({
    seq: record.seq.describe('sequence number of the record, or of the next record'),
    ring: z
      .string()
      .optional()
      .describe(
        'id of the ring to which the following sequence numbers belong; each configured service has its own ring',
      ),
    dropped_records: count('number of dropped records before this one').optional(),
    dropped_bytes: count('bytes of output in the dropped records').optional(),
    stream: record.stream.optional(),
    unix_ms: record.unix_ms.optional(),
    data: record.data.optional(),
  })
  .describe('one line of service output');

export const serviceLogPage = z
  .object({
    records: z.array(z.object(record)).nullable().describe('records in order; null if there are none'),
    next_seq: count('from_seq of the next page'),
    first_seq: count('sequence number of the oldest stored record'),
    dropped_records: count(
      'number of dropped records between from_seq and the first record of this page',
    ).optional(),
    dropped_bytes: count('bytes of output in the dropped records').optional(),
  })
  .describe('a page of service output');
