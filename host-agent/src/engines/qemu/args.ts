// QEMU's command line as a pure function. The device order determines the guest's PCI order and so its disk names.
import { AGENT_PORT_NAME } from '@sandboxd/proto';
import type { Disk, GuestMemory, Net, VmSpec } from '../engine.ts';
import { kernelCommandLine } from '../kernel-command-line.ts';
import { BOARD } from './board.ts';
import { controlArgument, escapeComma } from './files.ts';

/** Best first. */
export const ACCELERATORS = ['kvm', 'tcg'] as const;
export type Accelerator = (typeof ACCELERATORS)[number];

/** Cache of translated code per guest. Without a limit, each TCG guest uses up to 1 GiB. */
const TCG_CACHE_MIB = 64;
/**
 * Memory of the VMM of a booted guest besides that guest's: translated code of the kernel's boot, which copies never
 * run, and what belongs to it. 157 MiB were seen.
 */
export const TCG_BOOTED_OVERHEAD_MIB = 176;

/** The CPU of an emulated guest. */
export const TCG_CPU = BOARD.emulatedCpu;

type QemuArgsOptions = {
  readonly spec: VmSpec;
  readonly accelerator: Accelerator;
  /** Whether writable disks bypass the host's page cache. */
  readonly isDirect?: boolean;
  readonly memory: GuestMemory;
  /** Inherited descriptor of memory that is mapped privately; absent: the file of `memory` is used. */
  readonly memoryFd?: number | undefined;
  /** Inherited descriptor of the device state to restore. */
  readonly incomingFd?: number;
  /** The guest is loaded, but not run. */
  readonly waits?: boolean;
  readonly controlSocketPath: string;
  readonly agentSocketPath: string;
  readonly consolePath: string;
};

/**
 * `sandbox.emulated` informs the guest agent. The emulator caches translations by address: with address space
 * randomization, libc is translated again for every command, and `true` takes 2.2 to 2.6 times as long
 * (docs/measurements/bulk-bytes.md). Randomization protects a guest's programs only from each other.
 */
const EMULATION_ARGS = ['sandbox.emulated', 'norandmaps'];

/** Name of a disk's block node, by its index in the spec. */
export function diskNode(index: number): string {
  return `disk${index}`;
}

/**
 * The kernel's command line is set over QMP before the machine is created: every user of the host can read QEMU's own
 * command line.
 */
function kernelArgs(spec: VmSpec): string[] {
  return ['-kernel', spec.kernelPath, '-initrd', spec.initramfsPath, '-preconfig'];
}

export function qemuCommandLine(spec: VmSpec, accelerator: Accelerator): string {
  return kernelCommandLine(spec, [...BOARD.kernelArgs, ...(accelerator === 'tcg' ? EMULATION_ARGS : [])]);
}

function diskArgs(disk: Disk, index: number, isDirect: boolean): string[] {
  const node = diskNode(index);
  const file = JSON.stringify({
    driver: 'raw',
    'node-name': node,
    'read-only': disk.isReadOnly,
    // The writable layer never outlives its VM's memory, so guest flushes need not reach the disk.
    cache: { direct: isDirect && !disk.isReadOnly, 'no-flush': !disk.isReadOnly },
    discard: 'unmap',
    'detect-zeroes': 'off',
    // Locking refuses a layer in use by another VMM, unless a jail grants all locks. Files that all VMMs read are not
    // locked: any VMM could hold such a lock forever.
    file: { driver: 'file', filename: disk.path, locking: disk.isReadOnly ? 'off' : 'auto', aio: 'threads' },
  });
  return ['-blockdev', file, '-device', `virtio-blk-pci,drive=${node},id=vblk${index}`];
}

/**
 * Every guest has the device, so that a fork can get a network even if its source had none. Without a network it has no
 * backend, and the agent binds no driver to it. The tap is up and persistent, so no script must run; no firmware boots
 * from the device; and the VMM sends no announcements for a forked guest.
 */
function netArgs(net: Net | undefined): string[] {
  const device = 'virtio-net-pci,id=vnet0,romfile=,guest_announce=off';
  if (net === undefined) return ['-device', device];
  return [
    '-netdev',
    `tap,id=net0,ifname=${escapeComma(net.tap)},script=no,downscript=no`,
    '-device',
    `${device},netdev=net0,mac=${net.mac}`,
    '-global',
    'migration.announce-rounds=0',
  ];
}

export function buildQemuArgs(options: QemuArgsOptions): string[] {
  const { spec, accelerator, isDirect = false } = options;
  return [
    // No configuration of the distribution or the user, and no default devices.
    '-no-user-config',
    '-nodefaults',
    '-display',
    'none',
    '-sandbox',
    'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny',
    '-machine',
    `${BOARD.machine},memory-backend=ram`,
    '-accel',
    accelerator === 'tcg' ? `tcg,tb-size=${TCG_CACHE_MIB}` : 'kvm',
    '-cpu',
    accelerator === 'tcg' ? TCG_CPU : 'host',
    '-smp',
    String(spec.vcpus),
    '-m',
    `${spec.memoryMib}M`,
    '-object',
    memoryObject(options, spec.memoryMib),
    // A saved guest has its kernel in its memory.
    ...(options.incomingFd === undefined ? kernelArgs(spec) : []),
    // Append mode: the engine may truncate the file while the guest writes.
    '-chardev',
    `file,id=console,path=${escapeComma(options.consolePath)},append=on`,
    '-serial',
    'chardev:console',
    '-chardev',
    `socket,id=agent,path=${escapeComma(options.agentSocketPath)},server=on,wait=off`,
    '-device',
    'virtio-serial-pci,id=vserial,max_ports=2',
    '-device',
    `virtserialport,bus=vserial.0,nr=1,chardev=agent,name=${AGENT_PORT_NAME}`,
    ...spec.disks.flatMap((disk, index) => diskArgs(disk, index, isDirect)),
    '-device',
    'virtio-rng-pci',
    ...netArgs(spec.net),
    '-qmp',
    controlArgument(options.controlSocketPath),
    // A reset ends the VM (a panic resets); the VMM then exits.
    '-no-reboot',
    // Saved device state has no configuration section: our manifest pins what that would check.
    '-global',
    'migration.send-configuration=off',
    ...(options.incomingFd === undefined ? [] : ['-incoming', `fd:${options.incomingFd}`]),
    ...(options.waits ? ['-S'] : []),
  ];
}

/** Guest memory as one mapping that can be read, copied or mapped again without the VMM's help. */
function memoryObject({ memory, memoryFd }: QemuArgsOptions, sizeMib: number): string {
  if (memory.kind === 'anonymous') return `memory-backend-memfd,id=ram,size=${sizeMib}M,share=on`;
  const share = memory.kind === 'file' ? 'on' : 'off';
  // QEMU has no option for a memory descriptor here: its own names for descriptors are not resolved in mem-path.
  const path = memoryFd === undefined ? escapeComma(memory.path) : `/dev/fd/${memoryFd}`;
  return `memory-backend-file,id=ram,size=${sizeMib}M,mem-path=${path},share=${share}`;
}
