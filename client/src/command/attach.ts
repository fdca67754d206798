// Connects a command in a sandbox to this terminal: output, input, window size, signals, exit code.
import { constants } from 'node:os';
import { UsageError } from '@sandboxd/api/command-line';
import type { Command } from '../commands.ts';
import type { ExecResult } from '../contract.ts';
import type { Exec, ExecOptions } from '../exec/exec.ts';
import type { Sandbox } from '../sandbox.ts';
import type { Session } from './verb.ts';

/** The exit codes that a shell uses for these outcomes. */
const EXIT = { timedOut: 124, notRun: 126, notFound: 127, signalled: 128 } as const;
const FORWARDED = ['SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;

export type AttachOptions = ExecOptions & {
  /** Forwards standard input to the command. */
  readonly isInteractive: boolean;
  readonly hasTerminal: boolean;
};

/** Runs the command and resolves with its exit code. The session's signal kills it. */
export async function attach(
  sandbox: Sandbox,
  cmd: readonly string[],
  { isInteractive, hasTerminal, ...options }: AttachOptions,
  { terminal, signal }: Session,
): Promise<number> {
  if (hasTerminal && isInteractive && !terminal.stdin.isTTY)
    throw new UsageError('-t needs a terminal on standard input; leave it out in a pipe');
  const tty = hasTerminal ? { tty: terminal.size } : {};
  const env = hasTerminal && process.env.TERM ? { TERM: process.env.TERM, ...options.env } : options.env;
  const exec = sandbox.exec(cmd, { ...options, ...tty, ...(env && { env }), stdin: true, signal });
  const connection = new Connection(exec, { isInteractive, hasTerminal }, terminal);
  try {
    for await (const { stream, data } of exec) await terminal.write(data, stream);
    return toExitCode(await exec.result(), (line) => terminal.complain(line));
  } finally {
    connection.end();
  }
}

/** The keys that leave a command: Ctrl-P Ctrl-Q, as in Docker. */
const LEAVE = Buffer.of(16, 17);

/** Attaches to a detached command; resolves with its exit code, or 0 when the user leaves it. */
export async function attachTo(
  command: Command,
  input: 'write' | 'take' | 'none',
  { terminal, signal }: Session,
): Promise<number> {
  const { tty } = await command.info({ signal });
  const attachment = await command.attach({ input, signal });
  const isInteractive = input !== 'none';
  const hasTerminal = tty !== undefined && terminal.stdin.isTTY === true;
  let hasLeft = false;
  const onLeave = (): void => {
    hasLeft = true;
    attachment.leave();
  };
  const options = { isInteractive, hasTerminal: hasTerminal && isInteractive, onLeave };
  const connection = new Connection(attachment, options, terminal);
  // The size that it has already makes programs draw the screen again.
  if (options.hasTerminal) await attachment.resize(terminal.size);
  try {
    for await (const { stream, data } of attachment) await terminal.write(data, stream);
    const { result } = attachment;
    return result === undefined ? 0 : toExitCode(result, (line) => terminal.complain(line));
  } catch (error) {
    if (hasLeft) return 0;
    throw error;
  } finally {
    connection.end();
  }
}

/** Forwards the terminal's input, window size and signals while the command runs. */
class Connection {
  readonly #undo: (() => void)[] = [];

  constructor(
    exec: Pick<Exec, 'write' | 'closeStdin' | 'resize' | 'signal'>,
    {
      isInteractive,
      hasTerminal,
      onLeave,
    }: Pick<AttachOptions, 'isInteractive' | 'hasTerminal'> & { readonly onLeave?: () => void },
    { stdin, stdout, size }: Session['terminal'],
  ) {
    // A failure here also ends the output, whose error reports the cause.
    const quietly = (work: Promise<void>): void => void work.catch(() => undefined);
    if (isInteractive) {
      let last: number | undefined;
      const onData = (bytes: Buffer): void => {
        const keys = last === LEAVE[0] ? Buffer.concat([LEAVE.subarray(0, 1), bytes]) : bytes;
        last = bytes.at(-1);
        if (onLeave !== undefined && hasTerminal && keys.includes(LEAVE)) {
          onLeave();
          return;
        }
        stdin.pause();
        quietly(exec.write(bytes).then(() => void stdin.resume()));
      };
      const onEnd = (): void => quietly(exec.closeStdin());
      stdin.on('data', onData).on('end', onEnd);
      this.#undo.push(() => stdin.off('data', onData).off('end', onEnd).pause());
    } else if (!hasTerminal && onLeave === undefined) quietly(exec.closeStdin());
    if (hasTerminal && isInteractive) {
      stdin.setRawMode(true);
      this.#undo.push(() => stdin.setRawMode(false));
    }
    if (hasTerminal) {
      let last = size;
      const onResize = (): void => {
        const { columns: cols, rows } = stdout;
        if (cols === last.cols && rows === last.rows) return;
        last = { cols, rows };
        quietly(exec.resize(last));
      };
      stdout.on('resize', onResize);
      this.#undo.push(() => stdout.off('resize', onResize));
    }
    for (const name of FORWARDED) this.#forward(name, () => quietly(exec.signal(name)));
    // The first SIGINT goes to the command; the handler in main.ts counts them.
    this.#forward('SIGINT', () => quietly(exec.signal('SIGINT')));
  }

  end(): void {
    for (const undo of this.#undo.splice(0).reverse()) undo();
  }

  #forward(name: NodeJS.Signals, send: () => void): void {
    process.on(name, send);
    this.#undo.push(() => process.off(name, send));
  }
}

/** Runs the command without input, prints output and result as one line of JSON, and resolves with the exit code. */
export async function attachJson(
  sandbox: Sandbox,
  cmd: readonly string[],
  { isInteractive, hasTerminal, ...options }: AttachOptions,
  { terminal, signal }: Session,
): Promise<number> {
  if (isInteractive || hasTerminal) throw new UsageError('--json is for commands without -i and -t');
  const { stdout, stderr, result } = await sandbox.exec(cmd, { ...options, signal }).output();
  terminal.printJson({ sandbox: sandbox.id, stdout, stderr, ...result });
  return toExitCode(result, () => undefined);
}

export function toExitCode(result: ExecResult, report: (line: string) => void): number {
  const { exit_code, signal, timed_out, oom_killed, error } = result;
  if (error !== undefined) {
    report(error);
    return /not found|no such file/i.test(error) ? EXIT.notFound : EXIT.notRun;
  }
  if (oom_killed) report('the command ran out of memory');
  if (timed_out) return EXIT.timedOut;
  const number = signal === undefined ? undefined : constants.signals[signal as NodeJS.Signals];
  return number === undefined ? Math.max(exit_code, 0) : EXIT.signalled + number;
}
