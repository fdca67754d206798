// Starts a VMM process, with the files that it needs only for the start; and in one a VM, from its kernel.
import { existsSync } from 'node:fs';
import { mkdir, rename, rm, symlink } from 'node:fs/promises';
import type { VmmKind } from '../control.ts';
import type { BootOptions, GuestMemory, Net, Vm, VmSpec } from '../engine.ts';
import { KVM_PATH } from '../host-facts.ts';
import type { Jail, View } from '../jail/jail.ts';
import { kernelCommandLine } from '../kernel-command-line.ts';
import { isDirect, startVmm as startProcess } from '../start.ts';
import { VmmApi } from './api.ts';
import { type CloudHypervisorFiles, VMM_NAME, vmmArguments, vmmFiles } from './saved-files.ts';

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

// The VM configuration in the VMM's API. The VMM ignores unknown keys, so this type declares every key that we use.

const MIB = 1024 * 1024;

/** `CopyOnWrite` is not in 53.0, which refuses it by name. */
export type MemoryRestoreMode = 'CopyOnWrite' | 'OnDemand' | 'Copy';

type DiskConfig = {
  readonly id: string;
  readonly path: string;
  readonly readonly: boolean;
  /** Bypasses the host's page cache. */
  readonly direct: boolean;
  readonly image_type: 'Raw';
  readonly num_queues: number;
  readonly queue_size: number;
};

/** Without IP address and MTU, which only a privileged VMM could set on the tap. */
export type NetConfig = {
  readonly id: string;
  readonly tap: string;
  readonly mac: string;
  /** One queue for each direction. */
  readonly num_queues: number;
  readonly queue_size: number;
};

type LandlockRule = { readonly path: string; readonly access: 'r' | 'w' | 'rw' };

export type VmConfig = {
  readonly cpus: { readonly boot_vcpus: number; readonly max_vcpus: number; readonly nested: boolean };
  readonly memory: { readonly size: number; readonly shared: boolean };
  readonly payload: { readonly kernel: string; readonly initramfs: string; readonly cmdline: string };
  readonly disks: readonly DiskConfig[];
  readonly net?: readonly NetConfig[];
  readonly vsock: { readonly id: string; readonly cid: number; readonly socket: string };
  readonly serial: { readonly mode: 'File'; readonly file: string };
  readonly console: { readonly mode: 'Off' };
  readonly landlock_enable: boolean;
  readonly landlock_rules?: readonly LandlockRule[];
};

/** The device that opens any tap. */
const TAP_DEVICE = '/dev/net/tun';

/** Visible only within the guest, so all guests share it; a fork's kernel keeps its source's CID anyway. */
const GUEST_CID = 3;

/** Saved state is keyed by device ids, so we set them ourselves. By the disk's index in the spec. */
export function diskId(index: number): string {
  return `disk${index}`;
}

/** Id of the network device. */
export const NET_ID = 'net0';

export function buildNetConfig({ mac, tap }: Net): NetConfig {
  return { id: NET_ID, tap, mac, num_queues: 2, queue_size: 256 };
}

/** This engine's additions to the guest's kernel command line. */
const KERNEL_ARGS = [
  // The VMM watches the keyboard controller's reset line.
  'reboot=k',
  // The only clock source that the VMM adjusts when a saved guest is resumed.
  'clocksource=kvm-clock',
  // The VMM does not pause a guest whose writes fail on the host; it reports a disk error to the guest.
  'sandbox.disk-errors',
];

type VmConfigOptions = {
  readonly spec: VmSpec;
  readonly files: CloudHypervisorFiles;
  readonly hasLandlock: boolean;
  /** Whether writable disks bypass the host's page cache. */
  readonly isDirect: boolean;
};

export function buildVmConfig({ spec, files, hasLandlock, isDirect }: VmConfigOptions): VmConfig {
  return {
    // Nested virtualization is off: it would only add attack surface.
    cpus: { boot_vcpus: spec.vcpus, max_vcpus: spec.vcpus, nested: false },
    // Private memory allows a fork to map it copy-on-write.
    memory: { size: spec.memoryMib * MIB, shared: false },
    payload: {
      kernel: files.startKernelPath,
      initramfs: spec.initramfsPath,
      cmdline: kernelCommandLine(spec, KERNEL_ARGS),
    },
    disks: spec.disks.map(({ path, isReadOnly }, index) => ({
      id: diskId(index),
      path,
      readonly: isReadOnly,
      direct: isDirect && !isReadOnly,
      // Otherwise the VMM would detect other formats, and protect the first sector of a presumed one.
      image_type: 'Raw',
      num_queues: 1,
      queue_size: 128,
    })),
    ...(spec.net !== undefined && { net: [buildNetConfig(spec.net)] }),
    vsock: { id: 'vsock0', cid: GUEST_CID, socket: files.vsockPath },
    serial: { mode: 'File', file: files.earlyConsolePath },
    console: { mode: 'Off' },
    landlock_enable: hasLandlock,
    ...(hasLandlock && { landlock_rules: landlockRules(files, spec) }),
  };
}

/**
 * Rules cannot be extended later. A guest is saved into its own directory and the files are moved from there; a fork
 * may get its network device after the restore.
 */
export function landlockRules({ dir, socketDir }: CloudHypervisorFiles, { net }: VmSpec): LandlockRule[] {
  return [dir, socketDir, ...(net === undefined ? [] : [TAP_DEVICE])].map((path) => ({ path, access: 'rw' }));
}
