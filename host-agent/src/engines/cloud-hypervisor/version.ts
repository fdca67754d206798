// Determines the VMM's version, and whether it is supported.

import { errnoOf, toError } from '../../lib/errors.ts';
import { runProgram } from '../../lib/programs.ts';

/** The first version that drains its disks before a snapshot and refuses an incomplete snapshot. */
const OLDEST_MAJOR = 53;
const TIMEOUT_MS = 10_000;

type ProgramVersion =
  | { readonly isUsable: true; readonly version: string }
  | { readonly isUsable: false; readonly reason: string };

export async function readVersion(program: string): Promise<ProgramVersion> {
  try {
    const { stdout } = await runProgram(program, ['--version'], { timeout: TIMEOUT_MS });
    return judgeVersion(program, stdout);
  } catch (error) {
    const reason =
      errnoOf(error) === 'ENOENT'
        ? `${program} is not installed; docs/install.md says how to get it`
        : `${program} does not run: ${toError(error).message.trim()}`;
    return { isUsable: false, reason };
  }
}

/** Parses the output of `--version`; only its first line is about the program. */
export function judgeVersion(program: string, text: string): ProgramVersion {
  const line = text.split('\n', 1)[0] ?? '';
  const match = /\bv?((\d+)\.\d\S*)/.exec(line);
  if (match === null) return { isUsable: false, reason: `${program} tells no version: ${line.slice(0, 80)}` };
  const [, version = '', major] = match;
  if (Number(major) < OLDEST_MAJOR) {
    return {
      isUsable: false,
      reason: `${program} is version ${version}; at least ${OLDEST_MAJOR}.0 is needed`,
    };
  }
  return { isUsable: true, version };
}
