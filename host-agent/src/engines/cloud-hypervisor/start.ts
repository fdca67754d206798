// Starts a VMM process, with the files that it needs only for the start; and in one a VM, from its kernel.
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, symlink } from 'node:fs/promises';
import type { VmmKind } from '../control.ts';
import type { BootOptions, GuestMemory, Vm } from '../engine.ts';
import { KVM_PATH } from '../host-facts.ts';
import type { Jail, View } from '../jail/jail.ts';
import { isDirect, startVmm as startProcess } from '../start.ts';
import { VmmApi } from './api.ts';
import { type CloudHypervisorFiles, VMM_NAME, vmmArguments, vmmFiles } from './files.ts';
import { buildVmConfig } from './vm-config.ts';

/** With this device, forks can load their memory on demand. */
const USERFAULTFD_PATH = '/dev/userfaultfd';

/** What was found to work on this host. */
export type VmmSetup = {
  readonly kind: VmmKind;
  /** Absolute path. */
  readonly program: string;
  readonly jail?: Jail | undefined;
  readonly hasLandlock: boolean;
  /** Whether the format of its saved state is known. */
  readonly knowsState: boolean;
};

/**
 * Starts a VMM without a VM; then `prepare` and `run` create a running VM in it. `reads` are additional files that its
 * jail must show.
 */
export async function startVmm(
  options: BootOptions,
  { kind, program, jail }: VmmSetup,
  memory: GuestMemory,
  reads: readonly string[],
  isFinal: boolean,
  prepare: (files: CloudHypervisorFiles) => Promise<void>,
  run: (api: VmmApi, files: CloudHypervisorFiles) => Promise<void>,
): Promise<Vm> {
  options.signal?.throwIfAborted();
  const files = vmmFiles(options.paths);
  await using undo = new AsyncDisposableStack();
  undo.defer(() => rm(files.startDir, { recursive: true, force: true }));
  await rm(files.startDir, { recursive: true, force: true });
  await mkdir(files.startDir, { mode: 0o700 });
  // A killed VMM leaves its sockets, and the next one refuses to replace the guest's socket.
  for (const path of files.socketPaths) await rm(path, { force: true });
  await prepare(files);
  const api = new VmmApi(files.controlSocketPath);
  return await startProcess(kind, options, {
    program,
    argv0: VMM_NAME,
    args: vmmArguments(files),
    memory,
    isFinal,
    jail,
    view: viewOf(options, files, reads),
    run: () => run(api, files),
  });
}

/** The VMM creates its sockets itself, and saves into a directory of its own within `dir`. */
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

/**
 * Moves the console file from where the VMM opened it to its final path: the VMM would truncate it on a guest reset.
 */
export async function keepConsole(files: CloudHypervisorFiles): Promise<void> {
  await rename(files.earlyConsolePath, files.consolePath);
}

// Cold boot of a VM from its kernel.

/** For opening disks and loading the kernel; only an overloaded host takes longer. */
const CALL_TIMEOUT_MS = 60_000;

export function bootVm(options: BootOptions, setup: VmmSetup): Promise<Vm> {
  const { spec, signal } = options;
  return startVmm(
    options,
    setup,
    { kind: 'anonymous', isBooted: true },
    [spec.kernelPath],
    false,
    (files) => symlink(spec.kernelPath, files.startKernelPath),
    async (api, files) => {
      const call = { timeoutMs: CALL_TIMEOUT_MS, signal };
      // `vm.create` validates only the format; invalid disks are reported by `vm.boot`.
      await api.put(
        'vm.create',
        buildVmConfig({
          spec,
          files,
          hasLandlock: setup.hasLandlock,
          isDirect: isDirect(options, setup.jail),
        }),
        call,
      );
      await keepConsole(files);
      await api.put('vm.boot', undefined, call);
      await rm(files.startDir, { recursive: true });
    },
  );
}
