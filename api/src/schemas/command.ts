// What a command and a service have in common: what to run, where, as whom, and what came of it.
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
).describe('program and arguments, no shell line; the program is looked up in the PATH that it will have');

/** The same where an image may say what to run. */
export const optionalCmd = rule(
  texts(CMD_ERROR)
    .nullish()
    .transform((value) => (value?.length ? value : undefined)),
  'the first string, the program, is not empty',
  (value) => value?.[0] !== '',
  { error: 'must name a program first' },
).describe('program and arguments, which replace entrypoint and cmd of the image; required without an image');

export const cwd = optionalText(
  text('must be an absolute path', /^(?:\/|$)/),
  'directory in the guest to run in, an absolute path',
);

export const env = withDefault(
  environment,
  {},
  'environment variables, added to those of the profile or image',
);

/** By the guest's own files. */
export const user = optionalText(
  text('must be name|uid[:group|gid]', /^(?:[^:]+(?::[^:]+)?)?$/),
  'who to run as, name|uid[:group|gid] by the files of the guest; root by default',
);

/** Linux, by number: from 1 to 31, and those for real time from 34 on, which SIGRTMIN is to programs of every libc but musl. */
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
    peak_memory_bytes: count('most memory at one time'),
    page_faults_major: count('page faults that waited for a disk'),
    context_switches_involuntary: count('how often a CPU was taken away'),
    io_read_bytes: count('bytes read from disks'),
    io_write_bytes: count('bytes written to disks'),
  })
  .describe('what the whole process tree used');

export const execResult = z
  .object({
    exit_code: z
      .int()
      .min(-1)
      .max(255)
      .describe('exit code; -1 of a command that a signal ended or that never started, 128 + n of a service'),
    duration_ms: count('time from start to end'),
    signal: z.string().regex(/^SIG/).optional().describe('name of the signal that ended it, such as SIGKILL'),
    timed_out: flag('it was killed because its timeout_s had passed'),
    oom_killed: flag('the kernel killed a process of it for lack of memory'),
    error: word('why it did not start, or what was lost').optional(),
    code: errorCode
      .optional()
      .describe(
        'beside error: which kind it is; absent where the command is at fault, such as a program that is missing',
      ),
    usage: resourceUsage.optional(),
    warnings,
  })
  .describe('what came of a command: the payload of the exit frame');
