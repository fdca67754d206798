// Parameters of the kernel command line that the host's engine sets. To be called after /proc is mounted.
import { addon, NO_DIRECTORY } from '../native/addon.ts';

export function hasKernelParameter(name: string): boolean {
  return addon.readText(NO_DIRECTORY, '/proc/cmdline').split(/\s/).includes(name);
}

/**
 * Whether the guest's disk reports when the host's disk is full: then the writable layer is mounted with nodelalloc,
 * which makes buffered writes slow. init.c reads the same parameter.
 */
export function readHasDiskErrors(): boolean {
  return hasKernelParameter('sandbox.disk-errors');
}

/** Whether the guest's CPU is emulated. */
export function readIsEmulated(): boolean {
  return hasKernelParameter('sandbox.emulated');
}
