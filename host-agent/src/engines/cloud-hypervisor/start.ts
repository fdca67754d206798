// Starting a VMM process with what it needs only for that.
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import type { VmmKind } from '../control.ts';
import type { BootOptions, Vm } from '../engine.ts';
import type { Jail, View } from '../jail/jail.ts';
import { KVM_PATH } from '../kvm-device.ts';
import { startVmm as startProcess } from '../start.ts';
import { VmmApi } from './api.ts';
import { type CloudHypervisorFiles, VMM_NAME, vmmArguments, vmmFiles } from './files.ts';

/** With it copies get their memory on demand. */
const USERFAULTFD_PATH = '/dev/userfaultfd';

/** What was found to work on this host. */
export type VmmSetup = {
  readonly kind: VmmKind;
  /** Absolute path. */
  readonly program: string;
  readonly jail?: Jail | undefined;
  readonly hasLandlock: boolean;
  /** Whether the form of its saved state is known. */
  readonly knowsState: boolean;
};

/** Starts a VMM without a VM, then has `prepare` and `run` make it one that runs. `reads` is what its jail has to show beside the spec's files. */
export async function startVmm(
  options: BootOptions,
  { kind, program, jail }: VmmSetup,
  reads: readonly string[],
  prepare: (files: CloudHypervisorFiles) => Promise<void>,
  run: (api: VmmApi, files: CloudHypervisorFiles) => Promise<void>,
): Promise<Vm> {
  options.signal?.throwIfAborted();
  const files = vmmFiles(options.paths);
  await using undo = new AsyncDisposableStack();
  undo.defer(() => rm(files.startDir, { recursive: true, force: true }));
  await rm(files.startDir, { recursive: true, force: true });
  await mkdir(files.startDir, { mode: 0o700 });
  // A VMM that was killed left them, and the next refuses to replace the guest's.
  for (const path of files.socketPaths) await rm(path, { force: true });
  await prepare(files);
  const api = new VmmApi(files.controlSocketPath);
  return await startProcess(kind, options, {
    program,
    argv0: VMM_NAME,
    args: vmmArguments(files),
    memory: { kind: 'anonymous' },
    jail,
    view: viewOf(options, files, reads),
    run: () => run(api, files),
  });
}

/** It makes its sockets itself, and is saved into a directory of its own within `dir`. */
function viewOf({ spec }: BootOptions, files: CloudHypervisorFiles, reads: readonly string[]): View {
  const disks = (isReadOnly: boolean) =>
    spec.disks.filter((disk) => disk.isReadOnly === isReadOnly).map(({ path }) => path);
  return {
    reads: [spec.initramfsPath, ...reads, ...disks(true)],
    holds: [files.dir, files.startDir],
    writes: [files.eventsPath, files.earlyConsolePath, files.socketDir, ...disks(false)],
    devices: [KVM_PATH, ...[USERFAULTFD_PATH].filter(existsSync)],
  };
}

/** The console as the VMM opened it, moved to where it stays: the VMM would empty it when the guest resets itself. */
export async function keepConsole(files: CloudHypervisorFiles): Promise<void> {
  await rename(files.earlyConsolePath, files.consolePath);
}
