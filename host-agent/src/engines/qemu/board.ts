// The machine that QEMU emulates, which differs between architectures in its name, its properties and its CPU.
import { ARCHITECTURE, type Architecture } from '@sandboxd/proto';

export type Board = {
  readonly program: string;
  /** The Debian package that has the program. */
  readonly package: string;
  /** Value of `-machine`, without the memory. */
  readonly machine: string;
  /** Value of `-cpu` for emulated guests. */
  readonly emulatedCpu: string;
  /** Additions to the guest's kernel command line. */
  readonly kernelArgs: readonly string[];
};

export const BOARDS: Readonly<Record<Architecture['name'], Board>> = {
  amd64: {
    program: 'qemu-system-x86_64',
    package: 'qemu-system-x86',
    machine: 'q35,usb=off,vmport=off,smbus=off,sata=off,graphics=off,hpet=off',
    /**
     * All features of the emulator except those that slow down guests: with ERMS and FSRM the kernel copies by
     * `rep movsb`, which is emulated byte by byte; with SMAP every copy from and to user space flushes translations.
     * Without them the raw channel went from 60 to 500 MiB/s and an exec's output from 39 to 80 MiB/s.
     */
    emulatedCpu: 'max,-erms,-fsrm,-smap',
    kernelArgs: ['reboot=t', 'tsc=reliable'],
  },
  arm64: {
    program: 'qemu-system-aarch64',
    package: 'qemu-system-arm',
    // Without ACPI the kernel reads the device tree, for which it needs no firmware.
    machine: 'virt,gic-version=max,acpi=off,usb=off,graphics=off',
    // Pointer authentication by a fast function instead of the architecture's, whose emulation is slow.
    emulatedCpu: 'max,pauth-impdef=on',
    kernelArgs: [],
  },
};

export const BOARD = BOARDS[ARCHITECTURE.name];
