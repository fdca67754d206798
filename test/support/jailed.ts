// Runs a test program in a jail, in place of a VMM.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { Jail, leaveJail, type View } from '../../host-agent/src/engines/jail/jail.ts';
import { type ProcessEnd, spawnVmm, type VmmProcess } from '../../host-agent/src/engines/vmm-process.ts';
import { compileGuestProgram } from './guest-program.ts';
import { HELPERS } from './helper-programs.ts';

/** Separate from the range of daemons. */
export const TEST_UIDS = { base: 1_879_200_000, count: 1000 };

/** Maximum file size of a jailed program. */
export const JAILED_FILE_BYTES = 2 ** 20;
export const TEST_CGROUPS = { path: '/sandboxd', cpuShare: 0, ioBytesPerS: 0, dir: '/' };

type Jailed = { readonly uid: number; readonly process: VmmProcess; readonly logPath: string };

/** Builds test/guest/attacks.c at a path that a jail can mount; `root` holds all files of the test. */
export async function openAttacks(jail?: Jail) {
  const dir = await mkdtemp('/tmp/jailed-');
  await compileGuestProgram('attacks', dir);
  const program = join(dir, 'attacks');
  const own =
    jail ??
    (await Jail.open({
      program: HELPERS.jail,
      uids: TEST_UIDS,
      cgroups: TEST_CGROUPS,
    }));
  let count = 0;
  const start = async (
    path: string,
    args: readonly string[],
    view: View,
    namespace?: string,
  ): Promise<Jailed> => {
    const logPath = join(dir, `log-${count++}`);
    const cell = await own.enter({
      program: path,
      argv0: 'vmm',
      args,
      view,
      namespace,
      vcpus: 1,
      memoryMib: 128,
      maxFileBytes: JAILED_FILE_BYTES,
      descriptors: 3,
    });
    const process = await spawnVmm(cell.program, cell.args, logPath);
    await own.confirm(cell, process);
    void process.ended.then(() => leaveJail(cell));
    return { uid: cell.uid, process, logPath };
  };
  return {
    dir,
    start,
    /** The outcome of each attack, by its name: `done`, or the error. */
    attack: async (
      kinds: readonly string[],
      view: View,
      namespace?: string,
    ): Promise<ReadonlyMap<string, string>> => {
      const { process, logPath } = await start(program, kinds, view, namespace);
      const { exitCode, signal } = await end(process);
      const text = await readFile(logPath, 'utf8');
      if (exitCode !== 0) throw new Error(`the attacks ended with ${exitCode ?? signal}: ${text}`);
      return parseOutcomes(text);
    },
    /** The same attacks with the daemon's privileges; never of the kind `self`. */
    attackAsDaemon: async (kinds: readonly string[]): Promise<ReadonlyMap<string, string>> =>
      parseOutcomes((await promisify(execFile)(program, kinds)).stdout),
    [Symbol.asyncDispose]: () => rm(dir, { recursive: true, force: true }),
  };
}

/** Parses a line for each attack: name, colon, outcome. A repeated attack counts as done if it succeeded once. */
export function parseOutcomes(text: string): ReadonlyMap<string, string> {
  const outcomes = new Map<string, string>();
  for (const line of text.trim().split('\n')) {
    const at = line.lastIndexOf(': ');
    const name = line.slice(0, at);
    if (outcomes.get(name) !== 'done') outcomes.set(name, line.slice(at + 2));
  }
  return outcomes;
}

/** The process's exit; waiting for it does not keep the test alive. */
export async function end(process: VmmProcess): Promise<ProcessEnd> {
  const alive = setInterval(() => undefined, 1000);
  return await process.ended.finally(() => clearInterval(alive));
}
