// The command line: which command the words ask for, and what the exit code says.
import { BuilderError } from '@sandboxd/rootfs-builder';
import { ConfigError } from '../config/index.ts';
import { isAppError, toError } from '../lib/errors.ts';
import { type Command, type Group, parseWords, UsageError } from './command.ts';
import { renderCommand, renderCommands, renderGroup } from './help.ts';
import { serve } from './serve.ts';
import { COMMANDS, GROUPS } from './table.ts';

const EXIT = { failed: 1, usage: 2, interrupted: 130 } as const;
const HELP_WORDS: readonly (string | undefined)[] = ['--help', '-h', 'help'];
/** A command that was told to stop and does not is ended; one that removes a tree may need a while. */
const STOP_TIMEOUT_MS = 30_000;

/** Runs what the words behind the program's name ask for, and sets the exit code. */
export async function runCommandLine(words: readonly string[]): Promise<void> {
  try {
    await dispatch(words);
  } catch (error) {
    if (error instanceof ConfigError) return fail(EXIT.usage, ...error.problems);
    if (error instanceof UsageError) return fail(EXIT.usage, error.message);
    // A failed call of the system says by itself what failed and where; the stack of anything else is worth having.
    const isExpected = error instanceof BuilderError || isAppError(error) || 'syscall' in toError(error);
    fail(EXIT.failed, isExpected ? toError(error).message : (toError(error).stack ?? String(error)));
  }
}

async function dispatch(words: readonly string[]): Promise<void> {
  const [first, ...rest] = words;
  // Flags alone are the daemon's, as they are behind `serve`.
  if (first === undefined || first.startsWith('-'))
    return serve(words, { commandsHelp: renderCommands(COMMANDS, GROUPS) });
  if (first === 'serve') return serve(rest);
  if (first === 'help') return serve(['--help'], { commandsHelp: renderCommands(COMMANDS, GROUPS) });
  const command = COMMANDS.find(({ name }) => name === first);
  if (command !== undefined) return runOrExplain(command, `sandboxd ${first}`, rest);
  const group = GROUPS.find(({ name }) => name === first);
  if (group === undefined) {
    const known = ['serve', ...[...COMMANDS, ...GROUPS].map(({ name }) => name)].join(', ');
    throw new UsageError(`there is no command "${first}"; known are ${known} (\`sandboxd --help\`)`);
  }
  await runGroup(group, rest);
}

async function runGroup(group: Group, [word, ...rest]: readonly string[]): Promise<void> {
  if (HELP_WORDS.includes(word)) return print(renderGroup(group));
  const command = group.commands.find(({ name }) => name === word);
  if (command === undefined) {
    const problem = word === undefined ? 'a command is missing' : `there is no command "${word}"`;
    const known = group.commands.map(({ name }) => name).join(', ');
    throw new UsageError(`${problem} behind \`sandboxd ${group.name}\`; known are ${known}`);
  }
  await runOrExplain(command, `sandboxd ${group.name} ${command.name}`, rest);
}

async function runOrExplain(command: Command, path: string, words: readonly string[]): Promise<void> {
  if (words.some((each) => each === '--help' || each === '-h')) return print(renderCommand(path, command));
  await runCommand(command, path, words);
}

/** A signal lets the command remove what it has begun. */
async function runCommand(command: Command, path: string, words: readonly string[]): Promise<void> {
  const input = parseWords(command, path, words);
  const stop = new AbortController();
  const onSignal = () => {
    if (stop.signal.aborted) process.exit(EXIT.interrupted);
    stop.abort();
    setTimeout(() => process.exit(EXIT.interrupted), STOP_TIMEOUT_MS).unref();
  };
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, onSignal);
  try {
    await command.run(input, stop.signal);
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    fail(EXIT.interrupted, 'interrupted');
  }
}

function fail(code: number, ...problems: string[]): void {
  for (const problem of problems) process.stderr.write(`sandboxd: ${problem}\n`);
  process.exitCode = code;
}

function print(text: string): void {
  process.stdout.write(text);
}
