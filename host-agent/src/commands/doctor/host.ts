// The host as checks see it: its files, its programs, and this daemon's settings. Tests give a made-up one.
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Config } from '../../config/index.ts';
import { runProgram } from '../../lib/programs.ts';

export type Level = 'ok' | 'warning' | 'fault';

/** One line of the report. */
export type Finding = {
  readonly name: string;
  readonly level: Level;
  /** What was seen, a lower-case phrase. */
  readonly seen: string;
  /** What to do; of all but `ok`. */
  readonly advice?: string;
};

export type Host = {
  /** Text of a file by its absolute path; undefined where it cannot be read. */
  readonly read: (path: string) => string | undefined;
  /** Names in a directory, sorted; none where it cannot be read. */
  readonly list: (path: string) => readonly string[];
  /** Whether a path is there and may be read and written. */
  readonly isUsable: (path: string) => boolean;
  /** What a program prints; undefined where it is absent or fails. */
  readonly run: (program: string, ...args: string[]) => Promise<string | undefined>;
  readonly config: Config;
};

/** Checks of one area; one that throws is a fault of that area. */
export type Group = { readonly name: string; readonly check: (host: Host) => Promise<readonly Finding[]> };

const RUN_TIMEOUT_MS = 20_000;

/** `root` is where its files are, for tests. */
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
