// What a guest's console says about its end.
import { tailFile } from '../lib/tail.ts';

const CONSOLE_LINES = 60;

/** A lower-case phrase, or undefined when the console tells of no end. */
export async function readLastWords(consolePath: string): Promise<string | undefined> {
  const console = await tailFile(consolePath, CONSOLE_LINES);
  const panic = /Kernel panic - not syncing[^\n]*/.exec(console)?.[0];
  if (panic !== undefined) return `the guest panicked (${panic.toLowerCase()})`;
  const initFailure = /sandbox-init: [^\n]*/.exec(console)?.[0];
  return initFailure === undefined ? undefined : `the guest could not start (${initFailure})`;
}
