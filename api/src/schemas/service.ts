// The supervised service: its spec, its status, its output as JSON.
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
      policy: choice(RESTART_POLICIES, 'never', 'when a service that ended is started again'),
      max_retries: withDefault(
        integer(0, MAX_SECONDS, ', 0 for no limit'),
        0,
        'failures in a row after which it stays failed, 0 for no limit; only with the policy on-failure',
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
    'the environment is exactly env, plus PATH and HOME if unset, and cwd is made if missing',
  ),
  log_buffer_bytes: integerOrDefault(1, MAX_LOG_BUFFER_BYTES, DEFAULT_LOG_BUFFER_BYTES, {
    description: 'output that is kept in the guest, the newest',
  }),
  restart: withDefault(
    restart,
    { policy: 'never', max_retries: 0 },
    'whether and how often it is started again',
  ),
  stop_grace_s: integerOrDefault(0, MAX_SECONDS, DEFAULT_STOP_GRACE_S, {
    description: 'seconds from the stop signal to SIGKILL',
    note: ' seconds',
  }),
  stop_signal: choice(
    SIGNALS,
    'SIGTERM',
    'what a stop sends to the process group: a Linux signal, such as SIGTERM or SIGRTMIN+3',
    'must be a Linux signal, such as SIGTERM or SIGRTMIN+3',
  ),
  user,
};

const object = { error: 'must be a JSON object' };

type Kept = {
  readonly cmd?: readonly string[] | undefined;
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string | undefined;
  readonly user?: string | undefined;
};

/** What a sandbox has of it for as long as it lives. */
function isKeepable({ cmd = [], env, cwd = '', user = '' }: Kept): boolean {
  const texts = [...cmd, ...Object.entries(env).flat(), cwd, user];
  return texts.reduce((sum, text) => sum + text.length, 0) <= MAX_SERVICE_CHARS;
}
const SIZE_RULE = `cmd, env, cwd and user have at most ${MAX_SERVICE_CHARS} characters together`;
const SIZE_ERROR = { error: `must have at most ${MAX_SERVICE_CHARS} characters in cmd, env, cwd and user` };

export const serviceSpec = rule(
  z.object({ cmd, ...common }, object),
  SIZE_RULE,
  isKeepable,
  SIZE_ERROR,
).describe('what to run and how to keep it running');

/** What to run, checked and with its defaults. */
export type ServiceSpec = Parsed<z.output<typeof serviceSpec>>;

/** The `service` of a create, where an image may name the command. */
export const createdService = rule(
  z.object({ cmd: optionalCmd, ...common }, object),
  SIZE_RULE,
  isKeepable,
  SIZE_ERROR,
).describe(
  'the service, configured and started before the answer; with an image, what differs from the image’s own',
);

/** The same as `ServiceSpec`, but for what an image may say in its place. */
export type CreatedService = Parsed<z.output<typeof createdService>>;

export const stopRequest = z
  .object(
    {
      grace_s: integerOrDefault(0, MAX_SECONDS, undefined, {
        description:
          'seconds from the stop signal to SIGKILL, for this stop only; by default those of the spec',
        note: ' seconds',
      }),
    },
    object,
  )
  .describe('how to stop');

/** The spec as it is shown: every default filled in, what says nothing left out. */
export const shownSpec = z
  .object({
    cmd: z.array(z.string()).describe('program and arguments'),
    cwd: word('directory it runs in').optional(),
    env: environment.optional().describe('environment variables'),
    env_exact: flag('the environment is exactly env, PATH and HOME apart'),
    log_buffer_bytes: count('output that is kept in the guest'),
    restart: z
      .object({
        policy: z.enum(RESTART_POLICIES).describe('when it is started again'),
        max_retries: z.int().min(1).optional().describe('failures in a row after which it stays failed'),
      })
      .describe('whether and how often it is started again'),
    stop_grace_s: count('seconds from the stop signal to SIGKILL'),
    stop_signal: z.enum(SIGNALS).describe('what a stop sends'),
    user: word('who it runs as; root when absent').optional(),
  })
  .describe('what was configured');

export const serviceStatus = z
  .object({
    state: z.enum(SERVICE_STATES).describe('what it does now'),
    pid: z.int().min(1).optional().describe('its process in the guest, while it lives'),
    restarts: count('automatic restarts of this spec').optional(),
    spec: shownSpec.optional(),
    started_at_unix_ms: unixMs('when its process was started; only while it lives').optional(),
    uptime_ms: count('for how long its process lives').optional(),
    last_exit: execResult.optional().describe('how it ended last; -1 and error when it could not start'),
    last_exit_at_unix_ms: unixMs('when that was').optional(),
    last_exit_requested: z.boolean().optional().describe('whether it was stopped, not ended by itself'),
    live_rss_bytes: count('resident memory of its processes').optional(),
    live_peak_rss_bytes: count('the most of that').optional(),
    log_dropped_bytes: count('output that is not kept any more').optional(),
    log_first_seq: count('number of the oldest record that is kept').optional(),
    log_next_seq: count('number of the next record').optional(),
    warnings,
  })
  .describe('the service as it is now; all but the state as far as it is known');

export const serviceLogsQuery = z.object({
  follow: querySwitch('0', false, '0: the stream ends at the present instead of following'),
  from_seq: queryInteger(0, undefined, undefined, {
    description: 'one JSON page, or lines, from this record on, or from the oldest that is kept',
  }),
  ring: z
    .string()
    .regex(/^[0-9a-f]{16}$/, { error: 'must be the ring of an earlier line' })
    .optional()
    .describe('of lines: the ring that from_seq counts in; of one that is not kept any more it is ignored'),
  max_bytes: queryInteger(1, undefined, undefined, {
    description: `one JSON page of at most so much output; ${DEFAULT_OUTPUT_PAGE_BYTES} by default, more than ${MAX_OUTPUT_PAGE_BYTES} is cut to that`,
  }),
});

const record = {
  seq: count('number of the record'),
  stream: z.enum(['stdout', 'stderr']).describe('where it was written'),
  unix_ms: unixMs('when'),
  data: z.base64().describe('the bytes'),
};

/** Every line has its number, and what its kind has: a ring that begins, a gap, or output. */
export const serviceLogLine = z
  .object({
    seq: record.seq.describe('number of the record, or of the next one'),
    ring: z
      .string()
      .optional()
      .describe('what numbers count in from here on: each configured service has its own'),
    dropped_records: count('records before this one that are not kept any more').optional(),
    dropped_bytes: count('their bytes').optional(),
    stream: record.stream.optional(),
    unix_ms: record.unix_ms.optional(),
    data: record.data.optional(),
  })
  .describe('a line of the output of the service');

export const serviceLogPage = z
  .object({
    records: z.array(z.object(record)).nullable().describe('in order; null when there are none'),
    next_seq: count('from_seq of the next page'),
    first_seq: count('the oldest record that is kept'),
    dropped_records: count(
      'records that are not kept any more, between from_seq and the first one here',
    ).optional(),
    dropped_bytes: count('their bytes').optional(),
  })
  .describe('a page of the output of the service');
