// The command line: selects the command, runs it and sets the exit code.
import { EXIT, HELP_FLAG, parseInput, renderFlags, renderRow, UsageError } from '@sandboxd/api/command-line';
import { BuilderError } from '@sandboxd/rootfs-builder';
import { ConfigError } from '../config/index.ts';
import { errnoOf, isAppError, toError } from '../lib/errors.ts';
import type { Command, Group } from './command.ts';
import { serve } from './serve.ts';
import { COMMANDS, GROUPS } from './table.ts';

const HELP_WORDS: readonly (string | undefined)[] = ['--help', '-h', 'help'];
/** A command that ignores the stop is ended after this time; the removal of a directory tree may be slow. */
const STOP_TIMEOUT_MS = 30_000;

/** Runs the command that the arguments name, and sets the exit code. */
export async function runCommandLine(args: readonly string[]): Promise<void> {
  const output = watchOutput();
  try {
    await dispatch(args, output.signal);
    await output.written();
  } catch (error) {
    // The reason of the stop matters more than the command's own error.
    if (output.signal.aborted) return failOutput(output.signal.reason);
    if (error instanceof ConfigError) return fail(EXIT.usage, ...error.problems);
    if (error instanceof UsageError) return fail(EXIT.usage, error.message);
    // A failed system call names its cause and path; other unexpected errors are printed with their stack.
    const isExpected = error instanceof BuilderError || isAppError(error) || 'syscall' in toError(error);
    fail(EXIT.failed, isExpected ? toError(error).message : (toError(error).stack ?? String(error)));
  }
}

/** Aborts when standard output or error cannot be written: the reader has closed the pipe, or a disk is full. */
function watchOutput() {
  const failure = new AbortController();
  for (const stream of [process.stdout, process.stderr]) stream.on('error', (error) => failure.abort(error));
  const written = async (): Promise<void> => {
    await new Promise((resolve) => process.stdout.write('', resolve));
    failure.signal.throwIfAborted();
  };
  return { signal: failure.signal, written };
}

async function dispatch(args: readonly string[], output: AbortSignal): Promise<void> {
  const [first, ...rest] = args;
  // Flags without a command belong to `serve`.
  if (first === undefined || first.startsWith('-'))
    return serve(args, { commandsHelp: renderCommands(COMMANDS, GROUPS) });
  if (first === 'serve') return serve(rest);
  if (first === 'help') return serve(['--help'], { commandsHelp: renderCommands(COMMANDS, GROUPS) });
  const command = COMMANDS.find(({ name }) => name === first);
  if (command !== undefined) return runOrExplain(command, `sandboxd ${first}`, rest, output);
  const group = GROUPS.find(({ name }) => name === first);
  if (group === undefined) {
    const known = ['serve', ...[...COMMANDS, ...GROUPS].map(({ name }) => name)].join(', ');
    throw new UsageError(`there is no command "${first}"; known are ${known} (\`sandboxd --help\`)`);
  }
  await runGroup(group, rest, output);
}

async function runGroup(
  group: Group,
  [word, ...rest]: readonly string[],
  output: AbortSignal,
): Promise<void> {
  if (HELP_WORDS.includes(word)) return print(renderGroup(group));
  const command = group.commands.find(({ name }) => name === word);
  if (command === undefined) {
    const problem = word === undefined ? 'a command is missing' : `there is no command "${word}"`;
    const known = group.commands.map(({ name }) => name).join(', ');
    throw new UsageError(`${problem} behind \`sandboxd ${group.name}\`; known are ${known}`);
  }
  await runOrExplain(command, `sandboxd ${group.name} ${command.name}`, rest, output);
}

async function runOrExplain(
  command: Command,
  path: string,
  args: readonly string[],
  output: AbortSignal,
): Promise<void> {
  if (args.some((each) => each === '--help' || each === '-h')) return print(renderCommand(path, command));
  await runCommand(command, path, args, output);
}

/** A signal or a failed output aborts the command, which then cleans up. */
async function runCommand(
  command: Command,
  path: string,
  args: readonly string[],
  output: AbortSignal,
): Promise<void> {
  const input = parseInput(path, command, args);
  const stop = new AbortController();
  const onSignal = () => {
    if (stop.signal.aborted) process.exit(EXIT.interrupted);
    stop.abort();
    setTimeout(() => process.exit(EXIT.interrupted), STOP_TIMEOUT_MS).unref();
  };
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, onSignal);
  try {
    await command.run(input, AbortSignal.any([stop.signal, output]));
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    fail(EXIT.interrupted, 'interrupted');
  }
}

function fail(code: number, ...problems: string[]): void {
  for (const problem of problems) process.stderr.write(`sandboxd: ${problem}\n`);
  process.exitCode = code;
}

function failOutput(error: unknown): void {
  if (errnoOf(error) === 'EPIPE') process.exitCode = EXIT.brokenPipe;
  else fail(EXIT.failed, `the output cannot be written: ${toError(error).message}`);
}

function print(text: string): void {
  process.stdout.write(text);
}

function renderCommands(single: readonly Command[], groups: readonly Group[]): string {
  const lines = groups.flatMap(({ name, commands }) =>
    commands.map((command) => renderRow(`${name} ${command.name}`, command.summary)),
  );
  return [
    'Commands:',
    renderRow('serve', 'run the daemon in the foreground; the default command'),
    ...single.map(({ name, summary }) => renderRow(name, summary)),
    ...lines,
    '',
    '`sandboxd <command> --help` describes one command.',
    '',
  ].join('\n');
}

function renderGroup({ name, summary, commands }: Group): string {
  return [
    `Usage: sandboxd ${name} <command> [--flag value]…`,
    '',
    summary,
    '',
    ...commands.map((command) => renderRow(command.name, command.summary)),
    '',
    `\`sandboxd ${name} <command> --help\` lists the flags of one.`,
    '',
  ].join('\n');
}

function renderCommand(path: string, { operands, summary, flags }: Command): string {
  return [
    `Usage: ${[path, operands].filter((part) => part !== '').join(' ')} [--flag value]…`,
    '',
    summary,
    '',
    ...renderFlags({ ...flags, ...HELP_FLAG }),
    '',
  ].join('\n');
}
