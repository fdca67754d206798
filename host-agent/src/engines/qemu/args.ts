// QEMU's command line as a pure function. The device order is the guest's PCI order and so the names of its disks.
import { AGENT_PORT_NAME } from '@sandboxd/proto';
import type { Disk, GuestMemory, Net, VmSpec } from '../engine.ts';
import { kernelCommandLine } from '../kernel-command-line.ts';
import { controlArgument, escapeComma } from './files.ts';

/** Best first. */
export const ACCELERATORS = ['kvm', 'tcg'] as const;
export type Accelerator = (typeof ACCELERATORS)[number];

/** Translated code that one guest may cache. Without a cap each TCG guest takes up to 1 GiB. */
const TCG_CACHE_MIB = 64;

/**
 * Everything the emulator has, but for what makes its guests slow: with ERMS and FSRM the kernel copies by `rep movsb`,
 * which is emulated byte by byte, and with SMAP every copy from and to user space flushes translations. Without them
 * the bare channel went from 60 to 500 MiB/s and an exec's output from 39 to 80 MiB/s.
 */
export const TCG_CPU = 'max,-erms,-fsrm,-smap';

export type QemuArgsOptions = {
  readonly spec: VmSpec;
  readonly accelerator: Accelerator;
  /** Whether writable disks are used past the host's page cache. */
  readonly isDirect?: boolean;
  readonly memory: GuestMemory;
  /** Descriptor, inherited by the process, of memory that is mapped privately; absent: it is the file of `memory`. */
  readonly memoryFd?: number | undefined;
  /** Descriptor, inherited by the process, of the device state to start from. */
  readonly incomingFd?: number;
  readonly controlSocketPath: string;
  readonly agentSocketPath: string;
  readonly consolePath: string;
};

/**
 * `sandbox.emulated` tells the guest agent. Emulated code is translated again wherever else it is found: with random addresses all
 * of libc for every command, and a run of `true` takes 2.2 to 2.6 times as long (docs/measurements/bulk-bytes.md). What is lost
 * protects a guest's programs from each other.
 */
const EMULATION_ARGS = ['sandbox.emulated', 'norandmaps'];

/** What this engine adds to the command line of every guest's kernel. */
const KERNEL_ARGS = ['reboot=t', 'tsc=reliable'];

/** Name of a disk's block node, by its index in the spec. */
export function diskNode(index: number): string {
  return `disk${index}`;
}

/** The machine is not made before it is told the kernel's command line: its own is for every user of the host to read. */
function kernelArgs(spec: VmSpec): string[] {
  return ['-kernel', spec.kernelPath, '-initrd', spec.initramfsPath, '-preconfig'];
}

export function qemuCommandLine(spec: VmSpec, accelerator: Accelerator): string {
  return kernelCommandLine(spec, [...KERNEL_ARGS, ...(accelerator === 'tcg' ? EMULATION_ARGS : [])]);
}

function diskArgs(disk: Disk, index: number, isDirect: boolean): string[] {
  const node = diskNode(index);
  const file = JSON.stringify({
    driver: 'raw',
    'node-name': node,
    'read-only': disk.isReadOnly,
    // The writable layer never outlives its VM's memory, so flushes of the guest need not reach the platter.
    cache: { direct: isDirect && !disk.isReadOnly, 'no-flush': !disk.isReadOnly },
    discard: 'unmap',
    'detect-zeroes': 'off',
    // A layer in use by another VMM must be refused, where no jail grants all locks. What all VMMs read any of them could lock for good.
    file: { driver: 'file', filename: disk.path, locking: disk.isReadOnly ? 'off' : 'auto', aio: 'threads' },
  });
  return ['-blockdev', file, '-device', `virtio-blk-pci,drive=${node},id=vblk${index}`];
}

/**
 * Every guest has the device, so that a copy of one without a network can have one. Without it is joined to nothing, and the
 * agent lets no driver have it. The tap is there and up, so no script of the distribution's has to run; no firmware boots from
 * the device, and nothing is announced by it in the name of the guest that was copied.
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
    // Nothing that the distribution or the user configured, and no default devices.
    '-no-user-config',
    '-nodefaults',
    '-display',
    'none',
    '-sandbox',
    'on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny',
    '-machine',
    'q35,usb=off,vmport=off,smbus=off,sata=off,graphics=off,hpet=off,memory-backend=ram',
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
    // Append mode: the engine may cut the file while the guest writes on.
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
    // A reset is the guest's end (a panic resets); the VMM then exits.
    '-no-reboot',
    // Saved device state has no configuration section: the manifest beside it pins what that would check.
    '-global',
    'migration.send-configuration=off',
    ...(options.incomingFd === undefined ? [] : ['-incoming', `fd:${options.incomingFd}`]),
  ];
}

/** Guest memory as one mapping of something that can be read, copied or mapped again without the VMM's help. */
function memoryObject({ memory, memoryFd }: QemuArgsOptions, sizeMib: number): string {
  if (memory.kind === 'anonymous') return `memory-backend-memfd,id=ram,size=${sizeMib}M,share=on`;
  const share = memory.kind === 'file' ? 'on' : 'off';
  // This program has no other way to be given a descriptor for memory: its own names for them are not looked up here.
  const path = memoryFd === undefined ? escapeComma(memory.path) : `/dev/fd/${memoryFd}`;
  return `memory-backend-file,id=ram,size=${sizeMib}M,mem-path=${path},share=${share}`;
}
