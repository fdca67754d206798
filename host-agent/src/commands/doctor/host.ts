// The host as the checks see it: files, programs, and the daemon's settings. Tests use a fake.
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config/index.ts';
import type { Finding, Level } from '../../lib/findings.ts';
import { runProgram } from '../../lib/programs.ts';

export type { Finding, Level };

export type Host = {
  /** Text of a file by its absolute path; undefined when it cannot be read. */
  readonly read: (path: string) => string | undefined;
  /** Sorted names in a directory; empty when it cannot be read. */
  readonly list: (path: string) => readonly string[];
  /** Whether a path exists and is readable and writable. */
  readonly isUsable: (path: string) => boolean;
  /** The output of a program; undefined when it is missing or fails. */
  readonly run: (program: string, ...args: string[]) => Promise<string | undefined>;
  readonly config: Config;
};

/** The checks of one area; an exception becomes a fault of that area. */
export type Group = { readonly name: string; readonly check: (host: Host) => Promise<readonly Finding[]> };

const RUN_TIMEOUT_MS = 20_000;

/** `root` is the root of the examined files, for tests. */
export function realHost(config: Config, root = '/'): Host {
  return {
    read: (path) => {
      try {
        return readFileSync(join(root, path), 'utf8').trim();
      } catch {
        return undefined;
      }
    },
    list: (path) => {
      try {
        return readdirSync(join(root, path)).sort();
      } catch {
        return [];
      }
    },
    isUsable: (path) => {
      try {
        accessSync(join(root, path), constants.R_OK | constants.W_OK);
        return true;
      } catch {
        return false;
      }
    },
    run: (program, ...args) =>
      runProgram(program, args, { timeout: RUN_TIMEOUT_MS, maxBuffer: 2 ** 26 }).then(
        ({ stdout }) => stdout,
        () => undefined,
      ),
    config,
  };
}

export const ok = (name: string, seen: string): Finding => ({ name, level: 'ok', seen });
export const warning = (name: string, seen: string, advice: string): Finding => ({
  ...{ name, level: 'warning', seen, advice },
});
export const fault = (name: string, seen: string, advice: string): Finding => ({
  ...{ name, level: 'fault', seen, advice },
});
