// Puts an exec into the sandbox's log: what was run, what it said, how it ended. Never what it was given to read.
import type { ExecEvents } from '../guest/exec-types.ts';
import { joinText, NOTHING, type SandboxLog } from '../logs/index.ts';

/** A longer command line is cut in the log. */
const MAX_COMMAND_CHARS = 16_384;

export function logExecStart(log: SandboxLog, cmd: readonly string[]): void {
  const text = cmd.join(' ');
  const cut = text.length > MAX_COMMAND_CHARS ? `${text.slice(0, MAX_COMMAND_CHARS)}…` : text;
  log.event('exec', `exec: ${cut}`);
}

/** The same events, each recorded before it is passed on. Nothing of this waits for the disk. */
export function logExecEvents(log: SandboxLog, events: ExecEvents): ExecEvents {
  const held = { stdout: NOTHING, stderr: NOTHING };
  const append = (stream: 'stdout' | 'stderr', data: Buffer): void => {
    if (data.length > 0) log.append({ source: 'exec', stream, timeMs: Date.now(), data });
  };
  return {
    started: (pid) => events.started?.(pid),
    output: (stream, chunk) => {
      const joined = joinText(held[stream], chunk);
      held[stream] = joined.held;
      append(stream, joined.whole);
      events.output(stream, chunk);
    },
    exit: (outcome) => {
      append('stdout', held.stdout);
      append('stderr', held.stderr);
      log.event('exec', `exit ${outcome.exitCode}`);
      events.exit(outcome);
    },
    drain: () => events.drain?.(),
  };
}
