// QEMU's command line as a pure function. The device order is the guest's PCI order and so the names of its disks.
import { AGENT_PORT_NAME } from '@sandboxd/proto';
import type { Disk, GuestMemory, VmSpec } from '../engine.ts';

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
  readonly memory: GuestMemory;
  /** Descriptor, inherited by the process, of the device state to start from. */
  readonly incomingFd?: number;
  readonly qmpSocketPath: string;
  readonly agentSocketPath: string;
  readonly consolePath: string;
};

/**
 * `sandbox.emulated` tells the guest agent. Emulated code is translated again wherever else it is found: with random addresses all
 * of libc for every command, and a run of `true` takes 2.2 to 2.6 times as long (docs/measurements/bulk-bytes.md). What is lost
 * protects a guest's programs from each other.
 */
const EMULATION_ARGS = ['sandbox.emulated', 'norandmaps'];

/** Kernel command line: console for diagnosis, a panic ends the VM at once, nothing probed that is not there. */
export function kernelCommandLine(spec: VmSpec, accelerator: Accelerator): string {
  const base = [
    'console=ttyS0',
    'quiet',
    'loglevel=4',
    'panic=-1',
    'reboot=t',
    // No PS/2, no floppy, no legacy UARTs beyond the console: each costs probing time under emulation.
    'i8042.noaux',
    'i8042.nokbd',
    'i8042.nopnp',
    '8250.nr_uarts=1',
    'tsc=reliable',
    'no_timer_check',
    'random.trust_cpu=on',
    'cryptomgr.notests',
    'rcupdate.rcu_expedited=1',
    'mitigations=auto',
    ...(accelerator === 'tcg' ? EMULATION_ARGS : []),
  ];
  return spec.bootArgs === '' ? base.join(' ') : `${base.join(' ')} ${spec.bootArgs}`;
}

/** Name of a disk's block node, by its index in the spec. */
export function diskNode(index: number): string {
  return `disk${index}`;
}

/** What follows `-qmp`; also how a VMM of an earlier daemon is known. */
export function qmpArgument(socketPath: string): string {
  return `unix:${escapeComma(socketPath)},server=on,wait=off`;
}

function kernelArgs(spec: VmSpec, accelerator: Accelerator): string[] {
  return [
    '-kernel',
    spec.kernelPath,
    '-initrd',
    spec.initramfsPath,
    '-append',
    kernelCommandLine(spec, accelerator),
  ];
}

function diskArgs(disk: Disk, index: number): string[] {
  const node = diskNode(index);
  const file = JSON.stringify({
    driver: 'raw',
    'node-name': node,
    'read-only': disk.isReadOnly,
    // The writable layer never outlives its VM's memory, so flushes of the guest need not reach the platter.
    cache: { direct: false, 'no-flush': !disk.isReadOnly },
    discard: 'unmap',
    'detect-zeroes': 'off',
    // Unlike shared root filesystems, a layer in use by another VMM must be refused.
    file: { driver: 'file', filename: disk.path, locking: 'auto', aio: 'threads' },
  });
  return ['-blockdev', file, '-device', `virtio-blk-pci,drive=${node},id=vblk${index}`];
}

export function buildQemuArgs(options: QemuArgsOptions): string[] {
  const { spec, accelerator } = options;
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
    memoryObject(options.memory, spec.memoryMib),
    // A saved guest has its kernel in its memory.
    ...(options.incomingFd === undefined ? kernelArgs(spec, accelerator) : []),
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
    ...spec.disks.flatMap(diskArgs),
    '-device',
    'virtio-rng-pci',
    '-qmp',
    qmpArgument(options.qmpSocketPath),
    // A reset is the guest's end (a panic resets); the VMM then exits.
    '-no-reboot',
    // Saved device state has no configuration section: the manifest beside it pins what that would check.
    '-global',
    'migration.send-configuration=off',
    ...(options.incomingFd === undefined ? [] : ['-incoming', `fd:${options.incomingFd}`]),
  ];
}

/** Guest memory as one mapping of something that can be read, copied or mapped again without the VMM's help. */
function memoryObject(memory: GuestMemory, sizeMib: number): string {
  if (memory.kind === 'anonymous') return `memory-backend-memfd,id=ram,size=${sizeMib}M,share=on`;
  const share = memory.kind === 'file' ? 'on' : 'off';
  return `memory-backend-file,id=ram,size=${sizeMib}M,mem-path=${escapeComma(memory.path)},share=${share}`;
}

/** Commas separate QEMU's options and are doubled in values. */
function escapeComma(value: string): string {
  return value.replaceAll(',', ',,');
}
