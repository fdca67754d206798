// Derives the reason of a guest's end from its console and the VMM's log.
import { tailFile } from '../lib/tail.ts';

const CONSOLE_LINES = 60;
/** A guest may print lines of any length. */
const MAX_PHRASE = 200;

/** A lower-case phrase; undefined if the console shows no end. */
export async function readLastWords(consolePath: string): Promise<string | undefined> {
  const console = await tailFile(consolePath, CONSOLE_LINES);
  const panic = /Kernel panic - not syncing[^\n]*/.exec(console)?.[0].slice(0, MAX_PHRASE);
  if (panic !== undefined) return `the guest panicked (${panic.toLowerCase()})`;
  const initFailure = /sandbox-init: [^\n]*/.exec(console)?.[0].slice(0, MAX_PHRASE);
  return initFailure === undefined ? undefined : `the guest could not start (${initFailure})`;
}

/**
 * The guest kernel's last message about a task that has been blocked for long (hung task), usually by a disk that does
 * not answer. The agent may still answer. The message includes its time, so that no two are equal.
 */
export async function readBlockedTask(consolePath: string): Promise<string | undefined> {
  const lines = (await tailFile(consolePath, Number.POSITIVE_INFINITY)).split('\n');
  const line = lines.findLast((text) => /INFO: task .{1,64}? blocked for more than \d+ seconds/.test(text));
  return line?.slice(0, MAX_PHRASE);
}

/** A lower-case phrase with the exit code and the last line of the VMM's log. */
export async function explainExitCode(exitCode: number, logPath: string): Promise<string> {
  const last = (await tailFile(logPath, 1)).slice(0, MAX_PHRASE);
  return `the VMM exited with code ${exitCode}${exitCode === 0 || last === '' ? '' : ` (${last})`}`;
}
