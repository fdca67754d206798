// A host for engines under test: directories, a placeholder kernel, and the fake as the VMM's program.
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import { CloudHypervisorEngine } from '../../../host-agent/src/engines/cloud-hypervisor/index.ts';
import type { ForkMemory, VmmIdentity, VmPaths, VmSpec } from '../../../host-agent/src/engines/engine.ts';
import type { Guest } from '../../../host-agent/src/guest/guest.ts';
import { HELPERS } from '../helper-programs.ts';
import { type Fault, type Knobs, USUAL } from './knobs.ts';

const MAIN = resolve(import.meta.dirname, 'main.ts');
const MEMORY_MIB = 4;
/** Memory size of each guest. */
export const MEMORY_BYTES = MEMORY_MIB * 2 ** 20;

export type FakeHost = {
  readonly dir: string;
  readonly runDir: string;
  readonly program: string;
  readonly logLines: Record<string, unknown>[];
  set(knobs: Partial<Knobs>): void;
  fault(...faults: Fault[]): void;
  engine(forkMemory?: ForkMemory, probeTimeoutMs?: number): CloudHypervisorEngine;
  /** Directories of a new VM, with a writable layer. */
  makePaths(name: string): VmPaths;
  spec(paths: VmPaths): VmSpec;
  bootOptions(paths: VmPaths): {
    spec: VmSpec;
    paths: VmPaths;
    log: Logger;
    onSpawn: (identity: VmmIdentity) => void;
  };
  readonly spawned: VmmIdentity[];
  /** Processes with a path of this host in their arguments. */
  processes(): number[];
  makeSaveDir(): string;
};

/** The teardown checks that no process is left. */
export function makeFakeHost(t: Test): FakeHost {
  const dir = mkdtempSync(join(tmpdir(), 'fake-'));
  const runDir = join(dir, 'run');
  const knobsPath = join(dir, 'knobs.json');
  const program = join(dir, 'vmm');
  const logLines: Record<string, unknown>[] = [];
  const log: Logger = pino(
    { level: 'debug' },
    { write: (line: string) => void logLines.push(JSON.parse(line)) },
  );
  for (const name of ['run', 'scratch', 'locks']) mkdirSync(join(dir, name));
  for (const name of ['kernel', 'initramfs', 'root']) writeFileSync(join(dir, name), name);
  // The process must look like the real one, whose first argument is its name.
  writeFileSync(
    program,
    `#!/bin/bash\nexport FAKE_VMM_KNOBS='${knobsPath}' NODE_COMPILE_CACHE='${join(dir, 'cache')}'\nexec -a cloud-hypervisor '${process.execPath}' '${MAIN}' "$@"\n`,
    { mode: 0o755 },
  );
  let knobs: Knobs = { ...USUAL, locksDir: join(dir, 'locks') };
  const set = (changes: Partial<Knobs>): void => {
    knobs = { ...knobs, ...changes };
    // Fakes may read the file concurrently.
    writeFileSync(`${knobsPath}.new`, JSON.stringify(knobs));
    renameSync(`${knobsPath}.new`, knobsPath);
  };
  set({});
  const processes = (): number[] =>
    readdirSync('/proc').flatMap((name) => {
      if (!/^\d+$/.test(name)) return [];
      try {
        const args = readFileSync(`/proc/${name}/cmdline`, 'utf8');
        return args.includes(dir) ? [Number(name)] : [];
      } catch {
        return [];
      }
    });
  // VMMs do not keep the process alive.
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => {
    clearInterval(alive);
    const left = processes();
    for (const pid of left) process.kill(pid, 'SIGKILL');
    rmSync(dir, { recursive: true, force: true });
    if (left.length > 0) throw new Error(`processes ${left.join(', ')} were left`);
  });
  const spawned: VmmIdentity[] = [];
  const spec = (paths: VmPaths): VmSpec => ({
    vcpus: 1,
    memoryMib: MEMORY_MIB,
    kernelPath: join(dir, 'kernel'),
    initramfsPath: join(dir, 'initramfs'),
    bootArgs: '',
    disks: [
      { path: join(dir, 'root'), isReadOnly: true },
      { path: join(paths.dir, 'layer'), isReadOnly: false },
    ],
  });
  return {
    dir,
    runDir,
    program,
    logLines,
    set,
    fault: (...faults) => set({ faults }),
    engine: (forkMemory = 'auto', probeTimeoutMs) =>
      new CloudHypervisorEngine({
        program,
        forkMemory,
        kernelPath: join(dir, 'kernel'),
        initramfsPath: join(dir, 'initramfs'),
        scratchDir: join(dir, 'scratch'),
        probeTimeoutMs,
        claimProgram: HELPERS.claim,
        memfdProgram: HELPERS.memfd,
        log,
      }),
    makePaths: (name) => {
      const paths = { dir: join(dir, name), socketDir: join(runDir, name) };
      for (const path of Object.values(paths)) mkdirSync(path);
      writeFileSync(join(paths.dir, 'layer'), `layer of ${name}`);
      return paths;
    },
    spec,
    bootOptions: (paths) => ({
      spec: spec(paths),
      paths,
      log,
      onSpawn: (identity) => void spawned.push(identity),
    }),
    spawned,
    processes,
    makeSaveDir: () => mkdtempSync(join(dir, 'saved-')),
  };
}

/** The guest's own command powers off its machine. */
export function powerOff(guest: Guest): void {
  guest.exec(
    { cmd: ['poweroff'], env: {}, timeout_s: 0 },
    { output: () => undefined, exit: () => undefined },
  );
}
