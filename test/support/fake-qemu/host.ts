// A host for the QEMU engine under test: directories, a placeholder kernel, and the stand-in as the program.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import type { ColdBootOptions, VmmIdentity, VmPaths } from '../../../host-agent/src/engines/engine.ts';
import type { QemuSetup } from '../../../host-agent/src/engines/qemu/boot.ts';
import { SealedMemories } from '../../../host-agent/src/engines/qemu/sealed-memory.ts';
import { signalProcess } from '../../../host-agent/src/lib/proc.ts';
import { HELPERS } from '../helper-programs.ts';

/** Memory size of each guest. */
export const MEMORY_BYTES = 4 * 2 ** 20;

export type QemuKnobs = {
  /** `query-status` of a guest whose VMM starts. */
  readonly firstStatus: string;
  /** State of the guest after SIGUSR1, with the text that is then on its console and in the VMM's log. */
  readonly endsIn: string;
  readonly lastWords: string;
  readonly log: string;
  /** Error of a write that the host's disk refused. */
  readonly reason?: string;
  /** Commands that are neither executed nor answered for now, and commands after them. */
  readonly held: readonly string[];
  /** Commands that are refused, with the error text. */
  readonly refused: Readonly<Record<string, string>>;
  /** What takes the place of the device state that it claims to have saved. */
  readonly saved: 'state' | 'nothing' | 'no-bytes' | 'link' | 'pipe' | 'directory' | 'endless';
  /** The agent never answers. */
  readonly isGuestDeaf: boolean;
};

const USUAL: QemuKnobs = {
  firstStatus: 'running',
  endsIn: 'internal-error',
  lastWords: '',
  log: '',
  held: [],
  refused: {},
  saved: 'state',
  isGuestDeaf: false,
};
const MAIN = resolve(import.meta.dirname, 'main.ts');

export type FakeQemuHost = {
  readonly dir: string;
  readonly setup: QemuSetup;
  readonly logLines: Record<string, unknown>[];
  readonly log: Logger;
  set(knobs: Partial<QemuKnobs>): void;
  /** Commands that the VMM has received so far. */
  commands(paths: VmPaths): string[];
  makePaths(name: string): VmPaths;
  bootOptions(paths: VmPaths): ColdBootOptions;
};

/** The teardown kills its remaining processes. */
export function makeFakeQemuHost(t: Test): FakeQemuHost {
  const dir = mkdtempSync(join(tmpdir(), 'fq-'));
  const [knobsPath, program] = [join(dir, 'knobs.json'), join(dir, 'vmm')];
  const logLines: Record<string, unknown>[] = [];
  const log = pino({ level: 'debug' }, { write: (line: string) => void logLines.push(JSON.parse(line)) });
  mkdirSync(join(dir, 'run'));
  for (const name of ['kernel', 'initramfs', 'root']) writeFileSync(join(dir, name), name);
  writeFileSync(
    program,
    `#!/bin/bash\nexport FAKE_QEMU_KNOBS='${knobsPath}'\nexec -a qemu-system-x86_64 '${process.execPath}' '${MAIN}' "$@"\n`,
    { mode: 0o755 },
  );
  let knobs = USUAL;
  const set = (changes: Partial<QemuKnobs>): void => {
    knobs = { ...knobs, ...changes };
    writeFileSync(`${knobsPath}.new`, JSON.stringify(knobs));
    renameSync(`${knobsPath}.new`, knobsPath);
  };
  set({});
  const spawned: VmmIdentity[] = [];
  // VMMs do not keep the process alive.
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => {
    clearInterval(alive);
    for (const identity of spawned) signalProcess(identity, 'SIGKILL');
    rmSync(dir, { recursive: true, force: true });
  });
  return {
    dir,
    setup: { program, accelerator: 'tcg', memories: new SealedMemories(HELPERS.memfd) },
    logLines,
    log,
    set,
    commands: ({ dir }) => {
      const path = join(dir, 'commands');
      return existsSync(path) ? readFileSync(path, 'utf8').split('\n') : [];
    },
    makePaths: (name) => {
      const paths = { dir: join(dir, name), socketDir: join(dir, 'run', name) };
      for (const path of Object.values(paths)) mkdirSync(path);
      writeFileSync(join(paths.dir, 'layer'), `layer of ${name}`);
      return paths;
    },
    bootOptions: (paths) => ({
      spec: {
        vcpus: 1,
        memoryMib: MEMORY_BYTES / 2 ** 20,
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
    }),
  };
}
