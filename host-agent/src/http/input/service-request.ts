// The service spec (PUT service, `service` of a create) and the other bodies of the service's routes.
import { z } from 'zod';
import { RESTART_POLICIES, type ServiceSpec } from '../../guest/service-types.ts';
import { cwdSchema, envSchema, userSchema } from './exec-request.ts';
import { integer, optional, text } from './read-fields.ts';

const MAX_SECONDS = 2 ** 31 - 1;
const DEFAULT_STOP_GRACE_S = 10;
const DEFAULT_LOG_BUFFER_BYTES = 2 * 2 ** 20;
const MAX_LOG_BUFFER_BYTES = 16 * 2 ** 20;

/** Linux, by number from 1 on. */
const SIGNALS = (
  'SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM ' +
  'SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO ' +
  'SIGPWR SIGSYS'
).split(' ');

const cmdError = 'must be a non-empty array of strings, the program first';
const secondsError = ' seconds, 0 for the default';

const restartSchema = z
  .object(
    {
      policy: optional(
        z.enum(RESTART_POLICIES, { error: `must be one of ${RESTART_POLICIES.join(', ')}` }),
        '',
      ),
      max_retries: optional(integer(0, MAX_SECONDS, ', 0 for no limit')),
    },
    { error: 'must be an object of policy and max_retries' },
  )
  .refine(({ policy, max_retries = 0 }) => policy === 'on-failure' || max_retries === 0, {
    error: 'must not have max_retries unless its policy is on-failure',
  });

export const serviceSchema = z.object(
  {
    cmd: z
      .array(text('must be a string'), { error: cmdError })
      .min(1, { error: cmdError })
      .refine(([program]) => program !== '', { error: 'must name a program first' }),
    cwd: cwdSchema,
    env: envSchema,
    env_exact: optional(z.boolean({ error: 'must be true or false' })),
    log_buffer_bytes: optional(integer(1, MAX_LOG_BUFFER_BYTES), 0),
    restart: optional(restartSchema),
    stop_grace_s: optional(integer(0, MAX_SECONDS, secondsError), 0),
    stop_signal: optional(
      z.enum(SIGNALS, { error: 'must be a Linux signal from 1 to 31, such as SIGTERM' }),
      '',
    ),
    user: userSchema,
  },
  { error: 'must be a JSON object' },
);

export const stopSchema = z.object(
  { grace_s: optional(integer(0, MAX_SECONDS, secondsError), 0) },
  { error: 'must be a JSON object' },
);

export function toServiceSpec(fields: z.infer<typeof serviceSchema>): ServiceSpec {
  const { cmd, cwd, env = {}, user } = fields;
  return {
    cmd,
    env,
    isEnvExact: fields.env_exact ?? false,
    ...(cwd === undefined ? {} : { cwd }),
    ...(user === undefined ? {} : { user }),
    stopSignal: fields.stop_signal ?? 'SIGTERM',
    stopGraceS: fields.stop_grace_s ?? DEFAULT_STOP_GRACE_S,
    restart: {
      policy: fields.restart?.policy ?? 'never',
      maxRetries: fields.restart?.max_retries ?? 0,
    },
    logBufferBytes: fields.log_buffer_bytes ?? DEFAULT_LOG_BUFFER_BYTES,
  };
}
