// The VM as the VMM is told of it. The VMM ignores keys that it does not know, so this type has every key that we use.
import type { Net, VmSpec } from '../engine.ts';
import { kernelCommandLine } from '../kernel-command-line.ts';
import type { CloudHypervisorFiles } from './files.ts';

const MIB = 1024 * 1024;

/** `CopyOnWrite` is not in 53.0, which refuses it by name. */
export type MemoryRestoreMode = 'CopyOnWrite' | 'OnDemand' | 'Copy';

export type DiskConfig = {
  readonly id: string;
  readonly path: string;
  readonly readonly: boolean;
  /** Past the host's page cache. */
  readonly direct: boolean;
  readonly image_type: 'Raw';
  readonly num_queues: number;
  readonly queue_size: number;
};

/** Without addresses and MTU, which only a privileged VMM could give to the tap. */
export type NetConfig = {
  readonly id: string;
  readonly tap: string;
  readonly mac: string;
  /** One for each direction. */
  readonly num_queues: number;
  readonly queue_size: number;
};

export type LandlockRule = { readonly path: string; readonly access: 'r' | 'w' | 'rw' };

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

/** Every tap is opened by it. */
const TAP_DEVICE = '/dev/net/tun';

/** Seen only within the guest, so every guest has the same; a copy's kernel has its source's anyhow. */
const GUEST_CID = 3;

/** Saved state is keyed by ids, so they are ours and not the VMM's. By the disk's index in the spec. */
export function diskId(index: number): string {
  return `disk${index}`;
}

/** The same of the network device. */
export const NET_ID = 'net0';

export function buildNetConfig({ mac, tap }: Net): NetConfig {
  return { id: NET_ID, tap, mac, num_queues: 2, queue_size: 256 };
}

/** What this engine adds to the command line of every guest's kernel. */
const KERNEL_ARGS = [
  // The VMM watches the keyboard controller's reset line.
  'reboot=k',
  // The only one that the VMM steps when a saved guest goes on.
  'clocksource=kvm-clock',
  // The VMM does not hold a guest whose writes the host's disk does not take, it hands it the error.
  'sandbox.disk-errors',
];

export type VmConfigOptions = {
  readonly spec: VmSpec;
  readonly files: CloudHypervisorFiles;
  readonly hasLandlock: boolean;
  /** Whether writable disks are used past the host's page cache. */
  readonly isDirect: boolean;
};

export function buildVmConfig({ spec, files, hasLandlock, isDirect }: VmConfigOptions): VmConfig {
  return {
    // Guests run no guests: nested virtualisation would only be more to attack.
    cpus: { boot_vcpus: spec.vcpus, max_vcpus: spec.vcpus, nested: false },
    // Private: the memory of a copy can then be a copy-on-write mapping.
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
      // The VMM would else look for other formats, and protect the first sector of what might be one.
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
 * Rules can never be widened later: a guest is saved into its own directory, and what was written moved from there; and a copy
 * may get its network device when it has been restored.
 */
export function landlockRules({ dir, socketDir }: CloudHypervisorFiles, { net }: VmSpec): LandlockRule[] {
  return [dir, socketDir, ...(net === undefined ? [] : [TAP_DEVICE])].map((path) => ({ path, access: 'rw' }));
}
