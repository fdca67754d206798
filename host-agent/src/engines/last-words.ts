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

/** A lower-case phrase with the code and the last that the VMM wrote. */
export async function explainExitCode(exitCode: number, logPath: string): Promise<string> {
  const last = (await tailFile(logPath, 1)).slice(0, MAX_PHRASE);
  return `the VMM exited with code ${exitCode}${exitCode === 0 || last === '' ? '' : ` (${last})`}`;
}
