// A host for an engine under test: directories, a placeholder kernel, and a stand-in as the VMM's program.
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
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import type { ColdBootOptions, VmmIdentity, VmPaths } from '../../host-agent/src/engines/engine.ts';
import { bundleProgram } from './bundle.ts';

const MEMORY_MIB = 4;
/** Memory size of each guest. */
export const MEMORY_BYTES = MEMORY_MIB * 2 ** 20;

type FakeProgram<Knobs> = {
  /** Its source, which runs as a bundle. */
  readonly main: string;
  /** The process must look like the real one, whose first argument is its name. */
  readonly name: string;
  /** The environment variable that names the file with its knobs. */
  readonly variable: string;
  readonly usual: Knobs;
  /** Whether a test may end while its VMMs run. */
  readonly mayStay?: boolean;
};

/** The teardown kills what is left of its processes. */
export function makeFakeHost<Knobs>(
  t: Test,
  { main, name, variable, usual, mayStay = false }: FakeProgram<Knobs>,
) {
  const dir = mkdtempSync(join(tmpdir(), 'fake-'));
  const [knobsPath, program, runDir] = [join(dir, 'knobs.json'), join(dir, 'vmm'), join(dir, 'run')];
  const logLines: Record<string, unknown>[] = [];
  const log: Logger = pino(
    { level: 'debug' },
    { write: (line: string) => void logLines.push(JSON.parse(line)) },
  );
  const bundle = bundleProgram(main);
  mkdirSync(runDir);
  for (const file of ['kernel', 'initramfs', 'root']) writeFileSync(join(dir, file), file);
  writeFileSync(
    program,
    `#!/bin/bash\nexport ${variable}='${knobsPath}'\nexec -a ${name} '${process.execPath}' '${bundle}' "$@"\n`,
    { mode: 0o755 },
  );
  let knobs = usual;
  const set = (changes: Partial<Knobs>): void => {
    knobs = { ...knobs, ...changes };
    // Programs may read the file concurrently.
    writeFileSync(`${knobsPath}.new`, JSON.stringify(knobs));
    renameSync(`${knobsPath}.new`, knobsPath);
  };
  set({});
  /** Processes with a path of this host in their arguments. */
  const processes = (): number[] =>
    readdirSync('/proc').flatMap((pid) => {
      if (!/^\d+$/.test(pid)) return [];
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(dir) ? [Number(pid)] : [];
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
    if (left.length > 0 && !mayStay) throw new Error(`processes ${left.join(', ')} were left`);
  });
  const spawned: VmmIdentity[] = [];
  const bootOptions = (paths: VmPaths): ColdBootOptions => ({
    spec: {
      vcpus: 1,
      memoryMib: MEMORY_MIB,
      kernelPath: join(dir, 'kernel'),
      initramfsPath: join(dir, 'initramfs'),
      bootArgs: '',
      disks: [
        { path: join(dir, 'root'), isReadOnly: true },
        { path: join(paths.dir, 'layer'), isReadOnly: false },
      ],
    },
    paths,
    log,
    onSpawn: (identity) => void spawned.push(identity),
  });
  /** Directories of a new VM, with a writable layer. */
  const makePaths = (vm: string): VmPaths => {
    const paths = { dir: join(dir, vm), socketDir: join(runDir, vm) };
    for (const path of Object.values(paths)) mkdirSync(path);
    writeFileSync(join(paths.dir, 'layer'), `layer of ${vm}`);
    return paths;
  };
  return { dir, runDir, program, logLines, log, set, processes, spawned, bootOptions, makePaths };
}
