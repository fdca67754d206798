// Starting a VMM process with what it needs only for that.
import { mkdir, rename, rm, symlink } from 'node:fs/promises';
import type { BootOptions, Vm } from '../engine.ts';
import { startVmm as startProcess } from '../start.ts';
import { VmmApi } from './api.ts';
import { CLOUD_HYPERVISOR } from './control.ts';
import { type CloudHypervisorFiles, vmmArguments, vmmFiles } from './files.ts';

/** What was found to work on this host. */
export type VmmSetup = {
  /** Absolute path. */
  readonly program: string;
  /** Command that the program is an argument of; may be empty. */
  readonly launcher: readonly string[];
  readonly hasLandlock: boolean;
};

/** Starts a VMM without a VM, then has `prepare` and `run` make it one that runs. */
export async function startVmm(
  options: BootOptions,
  { program, launcher }: VmmSetup,
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
  await symlink(program, files.startProgramPath);
  const [command = '', ...args] = [...launcher, files.startProgramPath, ...vmmArguments(files)];
  const api = new VmmApi(files.controlSocketPath);
  return await startProcess(CLOUD_HYPERVISOR, options, {
    program: command,
    args,
    memory: { kind: 'anonymous' },
    run: () => run(api, files),
  });
}

/** The console as the VMM opened it, moved to where it stays: the VMM would empty it when the guest resets itself. */
export async function keepConsole(files: CloudHypervisorFiles): Promise<void> {
  await rename(files.earlyConsolePath, files.consolePath);
}
