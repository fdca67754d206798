// Tools for commands: at once, and in the background.
import { z } from 'zod';
import type { CommandInfo, ExecResult } from '../../contract.ts';
import type { Chunk, ExecOptions } from '../../exec/exec.ts';
import type { Sandbox } from '../../sandbox.ts';
import { Excerpt } from '../excerpt.ts';
import { json, listed, text, toCut, tool, toPlain, withoutUndefined } from '../tool.ts';
import { sandboxWord } from './sandboxes.ts';

/** Of each stream, in the answer: enough for the cause of an error, and little of a model's context. */
const HEAD_CHARS = 8 * 1024;
const TAIL_CHARS = 24 * 1024;
const DEFAULT_TIMEOUT_S = 120;
const MAX_TIMEOUT_S = 3600;
const MAX_WAIT_S = 300;
/** A daemon that does not end an answer about stored output. */
const MAX_READ_MS = 10_000;
/** What follows the first output within this time is in the same answer. */
const GATHER_MS = 300;
const MAX_LINE_CHARS = 200;
/** The kernel takes no argument of 128 KiB. */
const MAX_COMMAND_BYTES = 120_000;
/** bash where there is one: models write its dialect. A command line may begin with a hyphen. */
const SHELL = ['sh', '-c', 'command -v bash >/dev/null && exec bash -c -- "$0"; exec sh -c -- "$0"'];

const options = {
  sandbox: sandboxWord,
  command: z
    .string()
    .min(1)
    .max(MAX_COMMAND_BYTES)
    .refine((line) => Buffer.byteLength(line) <= MAX_COMMAND_BYTES, {
      error: `longer than ${MAX_COMMAND_BYTES} bytes: write it to a file, and run that`,
    })
    .describe('command line for bash, or sh'),
  cwd: z
    .string()
    .max(4096)
    .optional()
    .describe('working directory, absolute; default: that of the profile or image'),
  env: z.record(z.string(), z.string()).optional(),
  user: z.string().max(64).optional().describe('user who runs it; default: root'),
};
const commandId = z
  .string()
  .regex(/^cmd_[0-9a-v]{13}$/)
  .describe('id of a command, from start_command');

export const runCommand = tool({
  name: 'run_command',
  description:
    'Run a command in a sandbox and wait for its end. Each call is a new shell: a directory or variable that is set ' +
    'does not stay. For servers and whatever takes long, use start_command.',
  effect: 'deletes',
  input: z.strictObject({
    ...options,
    stdin: z.string().max(1_000_000).optional().describe('its whole input'),
    timeout_s: z.number().int().min(1).max(MAX_TIMEOUT_S).default(DEFAULT_TIMEOUT_S),
  }),
  async run({ sandbox, command, timeout_s: timeoutS, ...rest }, { scope, signal, progress }) {
    const found = await scope.sandbox(sandbox, { signal });
    const { chunks, result: ended } = await start(found, command, {
      ...withoutUndefined(rest),
      timeoutS,
      signal,
    });
    const output = {
      stdout: new Excerpt(HEAD_CHARS, TAIL_CHARS),
      stderr: new Excerpt(HEAD_CHARS, TAIL_CHARS),
    };
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    let bytes = 0;
    for await (const { stream, data } of chunks) {
      output[stream].push(decoders[stream].decode(data, { stream: true }));
      bytes += data.length;
      progress(`${bytes} bytes of output`);
    }
    const result = await ended();
    for (const stream of ['stdout', 'stderr'] as const) output[stream].push(decoders[stream].decode());
    const parts: string[] = [];
    const [stdout, stderr] = [toPlain(`${output.stdout}`), toPlain(`${output.stderr}`)];
    if (stdout !== '') parts.push(stdout.replace(/\n$/, ''));
    if (stderr !== '') parts.push(`[stderr]\n${stderr.replace(/\n$/, '')}`);
    parts.push(`[${toEnd(result, `${timeoutS} s, as timeout_s says; start_command has no such limit`)}]`);
    return { ...text(parts.join('\n')), isError: result.error !== undefined };
  },
});

type StartOptions = Omit<ExecOptions, 'stdin' | 'signal'> & {
  readonly stdin?: string;
  readonly signal: AbortSignal;
};

type Started = { readonly chunks: AsyncIterable<Chunk>; result(): Promise<ExecResult> };

/** Input goes to a detached command by a request of its own, as not every transport sends while it receives. */
async function start(
  sandbox: Sandbox,
  line: string,
  { stdin, signal, ...options }: StartOptions,
): Promise<Started> {
  if (stdin === undefined) {
    const exec = sandbox.exec([...SHELL, line], { ...options, signal });
    return { chunks: exec, result: () => exec.result() };
  }
  const command = await sandbox.commands.start([...SHELL, line], { ...options, stdin: true, signal });
  const kill = (): void => void command.kill().catch(() => undefined);
  if (signal.aborted) kill();
  signal.addEventListener('abort', kill, { once: true });
  // A command may end, or stop reading, before it has read all of its input.
  command.write(stdin, { close: true, signal }).catch(() => undefined);
  return {
    chunks: command.output({ signal }),
    async result() {
      const result = await command.wait({ signal });
      signal.removeEventListener('abort', kill);
      return result;
    },
  };
}

export const startCommand = tool({
  name: 'start_command',
  description:
    'Start a command in the background, such as a server or a long build. It goes on when this call has ended; ' +
    'read_command_output reads its output.',
  effect: 'deletes',
  input: z.strictObject({
    ...options,
    stdin: z.boolean().optional().describe('keep its input open, for write_command'),
  }),
  async run({ sandbox, command, ...rest }, { scope, signal }) {
    const found = await scope.sandbox(sandbox, { signal });
    const started = await found.commands.start([...SHELL, command], { ...withoutUndefined(rest), signal });
    return json({ command: started.id, sandbox: found.id });
  },
});

export const listCommands = tool({
  name: 'list_commands',
  description: 'List the commands of a sandbox that run, or have ended within the last hour.',
  effect: 'reads',
  input: z.strictObject({ sandbox: sandboxWord }),
  async run({ sandbox }, { scope, signal }) {
    const all = await (await scope.sandbox(sandbox, { signal })).commands.list({ signal });
    return json(listed('commands', all.map(describe)));
  },
});

export const readCommandOutput = tool({
  name: 'read_command_output',
  description:
    'Read the output of a background command. The end of the answer has the state of the command, and `from` of the ' +
    'next call.',
  effect: 'reads',
  input: z.strictObject({
    sandbox: sandboxWord,
    command: commandId,
    from: z.number().int().min(0).default(0).describe('position of the first output; 0: the beginning'),
    wait_s: z.number().int().min(0).max(MAX_WAIT_S).default(0).describe('wait so long for its end'),
    wait_for: z.enum(['end', 'output']).default('end').describe('output: wait for new output only'),
  }),
  async run({ sandbox, command, from, wait_s: waitS, wait_for: waitFor }, { scope, signal, progress }) {
    const found = (await scope.sandbox(sandbox, { signal })).commands.get(command);
    const output = new Excerpt(HEAD_CHARS, TAIL_CHARS);
    const decoder = new TextDecoder();
    let next = from;
    let droppedBytes = 0;
    const late = new AbortController();
    const abort = () => late.abort();
    const timers = [setTimeout(abort, waitS > 0 ? waitS * 1000 : MAX_READ_MS)];
    try {
      const reading = AbortSignal.any([signal, late.signal]);
      for await (const chunk of found.output({ from, follow: waitS > 0, signal: reading })) {
        output.push(decoder.decode(chunk.data, { stream: true }));
        droppedBytes += chunk.droppedBytes;
        next = chunk.seq + 1;
        progress(`position ${next}`);
        if (waitFor === 'output' && timers.length === 1) timers.push(setTimeout(abort, GATHER_MS));
      }
    } catch (error) {
      if (signal.aborted || !late.signal.aborted) throw error;
    } finally {
      for (const timer of timers) clearTimeout(timer);
    }
    output.push(decoder.decode());
    const { state, result } = await found.info({ signal });
    const end = result === undefined ? state : toEnd(result, 'its time limit');
    const lost = droppedBytes > 0 ? `; ${droppedBytes} bytes were lost` : '';
    const plain = toPlain(`${output}`).replace(/\n$/, '');
    return text(`${plain}${plain === '' ? '' : '\n'}[${end}; next: from ${next}${lost}]`);
  },
});

export const writeCommand = tool({
  name: 'write_command',
  description: 'Write to the input of a background command that was started with stdin: true.',
  effect: 'deletes',
  input: z.strictObject({
    sandbox: sandboxWord,
    command: commandId,
    input: z.string().max(1_000_000).describe('text; a line ends with \\n'),
    close: z.boolean().default(false).describe('end its input after it'),
  }),
  async run({ sandbox, command, input, close }, { scope, signal }) {
    const found = (await scope.sandbox(sandbox, { signal })).commands.get(command);
    await found.write(input, { close, signal });
    return text('written');
  },
});

export const endCommand = tool({
  name: 'end_command',
  description: 'End a command with all that it started, first gently.',
  effect: 'deletes',
  input: z.strictObject({ sandbox: sandboxWord, command: commandId }),
  async run({ sandbox, command }, { scope, signal }) {
    const found = (await scope.sandbox(sandbox, { signal })).commands.get(command);
    return json(describe(await found.kill({ signal })));
  },
});

function describe({ id, state, cmd, started_at, result }: CommandInfo) {
  // The shell around the command line says nothing.
  const line = SHELL.every((word, at) => cmd[at] === word) ? cmd.slice(SHELL.length) : cmd;
  return {
    command: id,
    state,
    line: toCut(line.join(' '), MAX_LINE_CHARS),
    started_at,
    ...(result && ended(result)),
  };
}

function ended({ exit_code, signal, timed_out, oom_killed, error, duration_ms }: ExecResult) {
  return {
    exit_code,
    ...(signal !== undefined && { signal }),
    ...(timed_out && { timed_out }),
    ...(oom_killed && { oom_killed }),
    ...(error !== undefined && { error }),
    duration_ms,
  };
}

function toEnd({ exit_code, signal, timed_out, oom_killed, error }: ExecResult, limit: string): string {
  if (error !== undefined) return `not run: ${toCut(error, 1000)}`;
  if (timed_out) return `ended after ${limit}`;
  if (oom_killed) return 'killed: the memory of the sandbox was full';
  return signal === undefined ? `exit code ${exit_code}` : `killed by ${signal}`;
}
