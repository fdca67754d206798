// The VM configuration in the VMM's API. The VMM ignores unknown keys, so this type declares every key that we use.
import type { Net, VmSpec } from '../engine.ts';
import { kernelCommandLine } from '../kernel-command-line.ts';
import type { CloudHypervisorFiles } from './files.ts';

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
