// What a guest's console and a VMM's log say about their end.
import { tailFile } from '../lib/tail.ts';

const CONSOLE_LINES = 60;
/** A guest may print lines of any length. */
const MAX_PHRASE = 200;

/** A lower-case phrase, or undefined when the console tells of no end. */
export async function readLastWords(consolePath: string): Promise<string | undefined> {
  const console = await tailFile(consolePath, CONSOLE_LINES);
  const panic = /Kernel panic - not syncing[^\n]*/.exec(console)?.[0].slice(0, MAX_PHRASE);
  if (panic !== undefined) return `the guest panicked (${panic.toLowerCase()})`;
  const initFailure = /sandbox-init: [^\n]*/.exec(console)?.[0].slice(0, MAX_PHRASE);
  return initFailure === undefined ? undefined : `the guest could not start (${initFailure})`;
}

/**
 * The last line, if any, with which the guest's kernel says that one of its tasks has waited for long without a chance to be
 * ended: for a disk that does not answer, most often. Its agent may answer all the same. With the time, so that no two
 * are equal.
 */
export async function readBlockedTask(consolePath: string): Promise<string | undefined> {
  const lines = (await tailFile(consolePath, Number.POSITIVE_INFINITY)).split('\n');
  const line = lines.findLast((text) => /INFO: task .{1,64}? blocked for more than \d+ seconds/.test(text));
  return line?.slice(0, MAX_PHRASE);
}

/** A lower-case phrase with the code and the last that the VMM wrote. */
export async function explainExitCode(exitCode: number, logPath: string): Promise<string> {
  const last = (await tailFile(logPath, 1)).slice(0, MAX_PHRASE);
  return `the VMM exited with code ${exitCode}${exitCode === 0 || last === '' ? '' : ` (${last})`}`;
}
