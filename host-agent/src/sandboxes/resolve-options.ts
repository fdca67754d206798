// Defaults and bounds of a create request.
import type { RootfsSource } from '../images/rootfs-source.ts';
import { AppError } from '../lib/errors.ts';
import type { SandboxLimits } from '../lib/sandbox-limits.ts';
import type { CreateSandboxOptions, ResolvedSandboxOptions, SandboxDefaults } from './types.ts';

const MIB = 1024 * 1024;
const MIN_DISK_BYTES = 64 * MIB;
/** 68 years; more does not fit a signed 32-bit count of seconds. */
const MAX_TIMEOUT_S = 2_147_483_647;
/** The kernel's own limit is 2048, of which the engine needs some. */
const MAX_BOOT_ARGS = 1024;

/** AppError invalid_argument naming the field, the value seen and the bounds. */
export function resolveSandboxOptions(
  options: CreateSandboxOptions,
  rootfs: RootfsSource,
  defaults: SandboxDefaults,
  limits: SandboxLimits,
): ResolvedSandboxOptions {
  const diskBytes = options.diskBytes ?? Math.min(defaults.diskBytes, limits.diskBytes);
  checkRange('disk_bytes', diskBytes, MIN_DISK_BYTES, limits.diskBytes);
  const bootArgs = options.bootArgs ?? '';
  if (bootArgs.length > MAX_BOOT_ARGS || !/^[\x20-\x7e]*$/.test(bootArgs)) {
    throw new AppError(
      'invalid_argument',
      `boot_args must be at most ${MAX_BOOT_ARGS} printable ascii characters, not ${bootArgs.length}: ${JSON.stringify(bootArgs.slice(0, 80))}`,
    );
  }
  return {
    rootfs,
    vcpus: checkRange('vcpus', options.vcpus ?? Math.min(defaults.vcpus, limits.vcpus), 1, limits.vcpus),
    memoryMib: checkRange(
      'memory_mib',
      options.memoryMib ?? Math.min(defaults.memoryMib, limits.memoryMib),
      128,
      limits.memoryMib,
    ),
    diskBytes: Math.ceil(diskBytes / MIB) * MIB,
    timeoutS: checkRange('timeout_s', options.timeoutS ?? 0, 0, MAX_TIMEOUT_S),
    bootArgs,
    ...(options.service && { service: options.service }),
  };
}

function checkRange(field: string, value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new AppError(
    'invalid_argument',
    `${field} must be a whole number from ${min} to ${max}, not ${value}`,
  );
}
