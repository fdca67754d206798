// Fields that commands and services share: program, directory, environment, user and result.
import { z } from 'zod';
import { environment } from '../input/environment.ts';
import { optionalText, rule, text, texts, withDefault } from '../input/fields.ts';
import { count, errorCode, flag, warnings, word } from './answers.ts';

const CMD_ERROR = 'must be a non-empty array of strings, the program first';

/** Program and arguments; required. */
export const cmd = rule(
  texts(CMD_ERROR, 1),
  'the first string, the program, is not empty',
  ([program]) => program !== '',
  { error: 'must name a program first' },
).describe(
  'program and arguments, not a shell command line; the program is searched in the PATH of the command',
);

/** Program and arguments; optional because an image may define them. */
export const optionalCmd = rule(
  texts(CMD_ERROR)
    .nullish()
    .transform((value) => (value?.length ? value : undefined)),
  'the first string, the program, is not empty',
  (value) => value?.[0] !== '',
  { error: 'must name a program first' },
).describe(
  'program and arguments; they replace entrypoint and cmd of the image and are required without an image',
);

export const cwd = optionalText(
  text('must be an absolute path', /^(?:\/|$)/),
  'working directory in the guest, an absolute path',
);

export const env = withDefault(
  environment,
  {},
  'environment variables, added to those of the profile or image',
);

/** Resolved with /etc/passwd and /etc/group of the guest. */
export const user = optionalText(
  text('must be name|uid[:group|gid]', /^(?:[^:]+(?::[^:]+)?)?$/),
  'user and group, name|uid[:group|gid], as /etc/passwd and /etc/group of the guest define them; root by default',
);

/** Linux signals by number: 1 to 31, then real-time signals from 34 on. SIGRTMIN is 34 in every libc but musl (35). */
export const SIGNALS = [
  ...[
    'SIGHUP',
    'SIGINT',
    'SIGQUIT',
    'SIGILL',
    'SIGTRAP',
    'SIGABRT',
    'SIGBUS',
    'SIGFPE',
    'SIGKILL',
    'SIGUSR1',
    'SIGSEGV',
  ],
  ...[
    'SIGUSR2',
    'SIGPIPE',
    'SIGALRM',
    'SIGTERM',
    'SIGSTKFLT',
    'SIGCHLD',
    'SIGCONT',
    'SIGSTOP',
    'SIGTSTP',
    'SIGTTIN',
  ],
  ...[
    'SIGTTOU',
    'SIGURG',
    'SIGXCPU',
    'SIGXFSZ',
    'SIGVTALRM',
    'SIGPROF',
    'SIGWINCH',
    'SIGIO',
    'SIGPWR',
    'SIGSYS',
  ],
  ...[
    'SIGRTMIN',
    'SIGRTMIN+1',
    'SIGRTMIN+2',
    'SIGRTMIN+3',
    'SIGRTMIN+4',
    'SIGRTMIN+5',
    'SIGRTMIN+6',
    'SIGRTMIN+7',
    'SIGRTMIN+8',
    'SIGRTMIN+9',
    'SIGRTMIN+10',
  ],
  ...[
    'SIGRTMIN+11',
    'SIGRTMIN+12',
    'SIGRTMIN+13',
    'SIGRTMIN+14',
    'SIGRTMIN+15',
    'SIGRTMIN+16',
    'SIGRTMIN+17',
    'SIGRTMIN+18',
    'SIGRTMIN+19',
    'SIGRTMIN+20',
  ],
  ...[
    'SIGRTMIN+21',
    'SIGRTMIN+22',
    'SIGRTMIN+23',
    'SIGRTMIN+24',
    'SIGRTMIN+25',
    'SIGRTMIN+26',
    'SIGRTMIN+27',
    'SIGRTMIN+28',
    'SIGRTMIN+29',
    'SIGRTMIN+30',
  ],
] as const;

export const resourceUsage = z
  .object({
    cpu_user_ms: count('CPU time in user space'),
    cpu_sys_ms: count('CPU time in the kernel'),
    peak_memory_bytes: count('peak memory in bytes'),
    page_faults_major: count('major page faults, which wait for a disk'),
    context_switches_involuntary: count('involuntary context switches'),
    io_read_bytes: count('bytes read from disk'),
    io_write_bytes: count('bytes written to disk'),
  })
  .describe('resource usage of the whole process tree');

export const execResult = z
  .object({
    exit_code: z
      .int()
      .min(-1)
      .max(255)
      .describe(
        'exit code; after signal n or a failed start, -1 for a command; after signal n, 128 + n for a service',
      ),
    duration_ms: count('run time in milliseconds'),
    signal: z
      .string()
      .regex(/^SIG/)
      .optional()
      .describe('name of the signal that killed it, such as SIGKILL'),
    timed_out: flag('it was killed because timeout_s expired'),
    oom_killed: flag('the OOM killer of the kernel killed one of its processes'),
    error: word('why it did not start, or why its result is unknown').optional(),
    code: errorCode
      .optional()
      .describe('code of error; absent if the command caused the error, for example a missing program'),
    usage: resourceUsage.optional(),
    warnings,
  })
  .describe('the result of a command: the payload of the exit frame');
