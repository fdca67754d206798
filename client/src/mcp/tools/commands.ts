// Tools for commands: at once, and in the background.
import { z } from 'zod';
import type { CommandInfo, ExecResult } from '../../contract.ts';
import { Excerpt } from '../excerpt.ts';
import { json, text, tool, withoutUndefined } from '../tool.ts';
import { sandboxWord } from './sandboxes.ts';

/** Of each stream, in the answer: enough for the cause of an error, and little of a model's context. */
const HEAD_CHARS = 8 * 1024;
const TAIL_CHARS = 24 * 1024;
const DEFAULT_TIMEOUT_S = 120;
const MAX_TIMEOUT_S = 3600;
const MAX_WAIT_S = 300;
const PROGRESS_MS = 1000;
/** bash where there is one: models write its dialect. */
const SHELL = ['sh', '-c', 'command -v bash >/dev/null && exec bash -c "$0"; exec sh -c "$0"'];

const options = {
  sandbox: sandboxWord,
  command: z.string().min(1).max(100_000).describe('command line for bash, or sh'),
  cwd: z.string().max(4096).optional().describe('working directory, absolute; default: /root'),
  env: z.record(z.string(), z.string()).optional(),
  user: z.string().max(64).optional().describe('user who runs it; default: root'),
};
const commandId = z.string().min(1).max(64).describe('id of a command, from start_command');

export const runCommand = tool({
  name: 'run_command',
  description:
    'Run a command in a sandbox and wait for its end. Each call is a new shell: a directory or variable that is set ' +
    'does not stay. For servers and whatever takes long, use start_command.',
  effect: 'deletes',
  input: z.object({
    ...options,
    stdin: z.string().max(1_000_000).optional().describe('its whole input'),
    timeout_s: z.number().int().min(1).max(MAX_TIMEOUT_S).default(DEFAULT_TIMEOUT_S),
  }),
  async run({ sandbox, command, timeout_s: timeoutS, ...rest }, { scope, signal, progress }) {
    const found = await scope.sandbox(sandbox, { signal });
    const exec = found.exec([...SHELL, command], { ...withoutUndefined(rest), timeoutS, signal });
    const output = {
      stdout: new Excerpt(HEAD_CHARS, TAIL_CHARS),
      stderr: new Excerpt(HEAD_CHARS, TAIL_CHARS),
    };
    const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
    let toldAt = performance.now();
    let bytes = 0;
    for await (const { stream, data } of exec) {
      output[stream].push(decoders[stream].decode(data, { stream: true }));
      bytes += data.length;
      if (performance.now() - toldAt < PROGRESS_MS) continue;
      toldAt = performance.now();
      progress(bytes, `${bytes} bytes of output`);
    }
    const result = await exec.result();
    const streams = { stdout: `${output.stdout}`, stderr: `${output.stderr}` };
    return {
      content: [{ type: 'text', text: render(streams, result, timeoutS) }],
      structuredContent: { ...streams, ...ended(result) },
      isError: result.error !== undefined,
    };
  },
});

export const startCommand = tool({
  name: 'start_command',
  description:
    'Start a command in the background, such as a server or a long build. It goes on when this call has ended; ' +
    'read_command_output reads its output.',
  effect: 'deletes',
  input: z.object({
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
  input: z.object({ sandbox: sandboxWord }),
  async run({ sandbox }, { scope, signal }) {
    const all = await (await scope.sandbox(sandbox, { signal })).commands.list({ signal });
    return json({ commands: all.map(describe) });
  },
});

export const readCommandOutput = tool({
  name: 'read_command_output',
  description:
    'Read the output of a background command. `next` of the answer is `from` of the next call. With wait_s it waits ' +
    'so long for its end.',
  effect: 'reads',
  input: z.object({
    sandbox: sandboxWord,
    command: commandId,
    from: z.number().int().min(0).default(0).describe('position of the first output; 0: the beginning'),
    wait_s: z.number().int().min(0).max(MAX_WAIT_S).default(0),
  }),
  async run({ sandbox, command, from, wait_s: waitS }, { scope, signal, progress }) {
    const found = (await scope.sandbox(sandbox, { signal })).commands.get(command);
    const output = new Excerpt(HEAD_CHARS, TAIL_CHARS);
    const decoder = new TextDecoder();
    let next = from;
    let droppedBytes = 0;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), waitS * 1000);
    try {
      const reading = AbortSignal.any([signal, late.signal]);
      for await (const chunk of found.output({ from, follow: waitS > 0, signal: reading })) {
        output.push(decoder.decode(chunk.data, { stream: true }));
        droppedBytes += chunk.droppedBytes;
        next = chunk.seq + 1;
        progress(next, `position ${next}`);
      }
    } catch (error) {
      if (signal.aborted || !late.signal.aborted) throw error;
    } finally {
      clearTimeout(timer);
    }
    const info = describe(await found.info({ signal }));
    return json({
      ...info,
      output: `${output}`,
      next,
      ...(droppedBytes > 0 && { lost_bytes: droppedBytes }),
    });
  },
});

export const writeCommand = tool({
  name: 'write_command',
  description: 'Write to the input of a background command that was started with stdin.',
  effect: 'writes',
  input: z.object({
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
  input: z.object({ sandbox: sandboxWord, command: commandId }),
  async run({ sandbox, command }, { scope, signal }) {
    const found = (await scope.sandbox(sandbox, { signal })).commands.get(command);
    return json(describe(await found.kill({ signal })));
  },
});

function describe({ id, state, cmd, started_at, result }: CommandInfo) {
  // The shell around the command line says nothing.
  const line = SHELL.every((word, at) => cmd[at] === word) ? cmd.slice(SHELL.length) : cmd;
  return { command: id, state, line: line.join(' '), started_at, ...(result && ended(result)) };
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

function render(
  { stdout, stderr }: { readonly stdout: string; readonly stderr: string },
  { exit_code, signal, timed_out, oom_killed, error }: ExecResult,
  timeoutS: number,
): string {
  const parts: string[] = [];
  if (stdout !== '') parts.push(stdout.replace(/\n$/, ''));
  if (stderr !== '') parts.push(`[stderr]\n${stderr.replace(/\n$/, '')}`);
  if (error !== undefined) parts.push(`[not run: ${error}]`);
  else if (timed_out)
    parts.push(`[ended after ${timeoutS} s, as timeout_s says; start_command has no such limit]`);
  else if (oom_killed) parts.push('[killed: the memory of the sandbox was full]');
  else if (signal !== undefined) parts.push(`[killed by ${signal}]`);
  else parts.push(`[exit code ${exit_code}]`);
  return parts.join('\n');
}
