// Defaults and bounds of a create request.
import {
  DISK_STEP_BYTES,
  MAX_BOOT_ARGS_CHARS,
  MAX_SECONDS,
  MIN_DISK_BYTES,
  MIN_MEMORY_MIB,
  type SandboxLimits,
  type ServiceSpec,
} from '@sandboxd/api';
import type { RootfsSource } from '../images/rootfs-source.ts';
import { AppError } from '../lib/errors.ts';
import type { PublishedPort } from '../network/index.ts';
import type { CreateSandboxOptions, ResolvedSandboxOptions, SandboxDefaults } from './types.ts';

/** Maximum published ports of one sandbox: each takes one or two sockets of the process that forwards them. */
const MAX_PUBLISHED = 1000;

/** AppError invalid_argument with the field, its value and the bounds. */
export function resolveSandboxOptions(
  options: CreateSandboxOptions,
  rootfs: RootfsSource,
  defaults: SandboxDefaults,
  limits: SandboxLimits,
  service?: ServiceSpec,
): ResolvedSandboxOptions {
  const diskBytes = options.diskBytes ?? Math.min(defaults.diskBytes, limits.diskBytes);
  checkRange('disk_bytes', diskBytes, MIN_DISK_BYTES, limits.diskBytes);
  const bootArgs = options.bootArgs ?? '';
  if (bootArgs.length > MAX_BOOT_ARGS_CHARS || !/^[\x20-\x7e]*$/.test(bootArgs)) {
    throw new AppError(
      'invalid_argument',
      `boot_args must be at most ${MAX_BOOT_ARGS_CHARS} printable ascii characters, not ${bootArgs.length}: ${JSON.stringify(bootArgs.slice(0, 80))}`,
    );
  }
  return {
    rootfs,
    vcpus: checkRange('vcpus', options.vcpus ?? Math.min(defaults.vcpus, limits.vcpus), 1, limits.vcpus),
    memoryMib: checkRange(
      'memory_mib',
      options.memoryMib ?? Math.min(defaults.memoryMib, limits.memoryMib),
      MIN_MEMORY_MIB,
      limits.memoryMib,
    ),
    diskBytes: Math.ceil(diskBytes / DISK_STEP_BYTES) * DISK_STEP_BYTES,
    timeoutS: checkRange('timeout_s', options.timeoutS ?? 0, 0, MAX_SECONDS),
    bootArgs,
    ...(options.idle && { idle: options.idle }),
    ...(service && { service }),
    ...resolveNetwork(options),
  };
}

/** AppError invalid_argument if copies of that guest cannot have published ports. */
export function assertCanPublish(
  publish: readonly PublishedPort[],
  count: number,
  { network }: Pick<ResolvedSandboxOptions, 'network'>,
): void {
  if (publish.length === 0) return;
  assertFewPorts(publish);
  if (count !== 1) {
    const message = `publish needs count 1, because host ports are exclusive, got ${count}`;
    throw new AppError('invalid_argument', message);
  }
  if (network !== undefined) return;
  const message = 'publish needs a snapshot that has a network, and this one has none';
  throw new AppError('invalid_argument', message);
}

/** AppError invalid_argument. */
function assertFewPorts({ length }: readonly PublishedPort[]): void {
  if (length <= MAX_PUBLISHED) return;
  throw new AppError('invalid_argument', `publish must have at most ${MAX_PUBLISHED} ports, got ${length}`);
}

/** A published port needs a network; without a requested one, its allowlist is empty. */
function resolveNetwork({
  network,
  publish = [],
}: CreateSandboxOptions): Pick<ResolvedSandboxOptions, 'network' | 'publish'> {
  if (publish.length === 0) return network === undefined ? {} : { network };
  assertFewPorts(publish);
  return { network: network ?? { allowlist: [] }, publish };
}

function checkRange(field: string, value: number, min: number, max: number): number {
  if (Number.isSafeInteger(value) && value >= min && value <= max) return value;
  throw new AppError(
    'invalid_argument',
    `${field} must be a whole number from ${min} to ${max}, not ${value}`,
  );
}
