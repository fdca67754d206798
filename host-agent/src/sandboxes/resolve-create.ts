// Resolves the options of creates and forks. A create takes two steps: nothing is pulled before the client is known to
// be allowed to have the sandbox.
import {
  DISK_STEP_BYTES,
  MAX_BOOT_ARGS_CHARS,
  MAX_PUBLISHED_PORTS,
  MAX_SECONDS,
  MIN_DISK_BYTES,
  MIN_MEMORY_MIB,
  type SandboxLimits,
  type ServiceSpec,
} from '@sandboxd/api';
import { type FindOptions, type FoundRootfs, type RootfsFinder, toUnknownRootfs } from '../images/index.ts';
import type { RootfsSource } from '../images/rootfs-source.ts';
import { assertOperation, type Principal } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { PublishedPort } from '../network/index.ts';
import { resolvePolicy } from '../network/resolve-policy.ts';
import type { Inherited } from './metadata.ts';
import type { SandboxPresets } from './network-changes.ts';
import { resolveService } from './service.ts';
import type { CreateSandboxOptions, ResolvedSandboxOptions, SandboxDefaults } from './types.ts';

export type CreateContext = {
  readonly roots: Pick<RootfsFinder, 'find'>;
  readonly defaults: SandboxDefaults;
  readonly limits: SandboxLimits;
  readonly presets: SandboxPresets;
};

/** Complete for a baked profile; for others, what the request alone determines. AppError invalid_argument. */
export async function validateCreate(
  options: CreateSandboxOptions,
  { roots, defaults, limits, presets }: CreateContext,
  signal: AbortSignal,
): Promise<ResolvedSandboxOptions> {
  const request = options.rootfs ?? { kind: 'profile', name: defaults.profile };
  const found = request.kind === 'profile' ? await roots.find(request, 'never', { signal }) : undefined;
  const rootfs = found?.rootfs ?? toUnknownRootfs(request);
  const network = options.network && resolvePolicy(options.network, presets);
  const service = resolveService(options.service, undefined);
  const resolved = resolveSandboxOptions({ ...options, network }, rootfs, defaults, limits, service);
  return withProfileService(resolved, found);
}

/**
 * The rest, which may pull or bake. AppError as of that, and forbidden if the image must be pulled, or starts a
 * service, and the client may not do that.
 */
export async function resolveRootfs(
  validated: ResolvedSandboxOptions,
  { service: requested, pull = 'missing', env = {} }: CreateSandboxOptions,
  { roots }: CreateContext,
  findOptions: FindOptions,
  principal: Principal,
): Promise<ResolvedSandboxOptions> {
  const { kind, name, isPath, digest } = validated.rootfs;
  if (kind === 'agent' || digest !== '') return validated;
  const mode = kind === 'image' ? pull : 'missing';
  const onMake = () => assertOperation(principal, 'images');
  const pullOptions = kind === 'image' ? { ...findOptions, onMake } : findOptions;
  const found = await roots.find({ kind, name, ...(isPath && { isPath }) }, mode, pullOptions);
  const service = resolveService(requested, found.service, Object.keys(env));
  if (service !== undefined) assertOperation(principal, 'exec');
  const { service: _, ...options } = validated;
  return withProfileService({ ...options, rootfs: found.rootfs, ...(service && { service }) }, found);
}

/** The operator chose the service of a profile, so it needs no operation; one of the request replaces it. */
function withProfileService(options: ResolvedSandboxOptions, found?: FoundRootfs): ResolvedSandboxOptions {
  if (options.service !== undefined || found?.profileService === undefined) return options;
  const { spec: service, readyPort } = found.profileService;
  return { ...options, service, readyPort };
}

/** AppError invalid_argument with the field, its value and the bounds. */
export function resolveSandboxOptions(
  options: Omit<CreateSandboxOptions, 'network'> & Pick<ResolvedSandboxOptions, 'network'>,
  rootfs: RootfsSource,
  defaults: SandboxDefaults,
  limits: SandboxLimits,
  service?: ServiceSpec,
): ResolvedSandboxOptions {
  const diskBytes = options.diskBytes ?? Math.min(defaults.diskBytes, limits.diskBytes);
  checkRange('disk_bytes', diskBytes, MIN_DISK_BYTES, limits.diskBytes);
  const bootArgs = options.bootArgs ?? '';
  if (bootArgs.length > MAX_BOOT_ARGS_CHARS || !/^[\x20-\x7e]*$/.test(bootArgs)) {
    const shown = JSON.stringify(bootArgs.slice(0, 80));
    throw new AppError(
      'invalid_argument',
      `boot_args must be at most ${MAX_BOOT_ARGS_CHARS} printable ascii characters, ` +
        `not ${bootArgs.length}: ${shown}`,
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
    ...(options.timeoutAction && { timeoutAction: options.timeoutAction }),
    ...(options.autoResume === false && { autoResume: false }),
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

/** AppError conflict if the id of a place is that of a sandbox, exhausted if the create may make none. */
export function assertNew(
  { id, onlyExisting }: Pick<CreateSandboxOptions, 'id' | 'onlyExisting'>,
  sandboxes: { has(id: string): boolean },
): void {
  if (onlyExisting)
    throw new AppError('exhausted', 'the sandbox that had this name ends just now; try again', {
      retryAfterS: 1,
    });
  if (id !== undefined && sandboxes.has(id))
    throw new AppError('conflict', `there is a sandbox ${id} already`);
}

/** AppError invalid_argument. */
export function assertOneName(name: string | undefined, count: number): void {
  if (name === undefined || count === 1) return;
  throw new AppError('invalid_argument', `name needs count 1, because names are unique, got ${count}`);
}

/** AppError invalid_argument. */
export function assertFewPorts({ length }: readonly PublishedPort[]): void {
  if (length <= MAX_PUBLISHED_PORTS) return;
  throw new AppError(
    'invalid_argument',
    `publish must have at most ${MAX_PUBLISHED_PORTS} ports, got ${length}`,
  );
}

/** A published port needs a network; without a requested one, its allowlist is empty. */
function resolveNetwork({
  network,
  publish = [],
}: Pick<ResolvedSandboxOptions, 'network' | 'publish'>): Pick<ResolvedSandboxOptions, 'network' | 'publish'> {
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

/**
 * Everything except what belongs to one boot or continues in the guest's memory: the kernel has read its arguments,
 * and the service runs. The timeout starts again. `publish`: the copy's own ports.
 */
export function inheritOptions(
  saved: ResolvedSandboxOptions & { readonly inherited?: Inherited | undefined },
  publish: readonly PublishedPort[] = [],
): ResolvedSandboxOptions {
  const { service: _, readyPort: _port, publish: _ports, inherited: _inherited, ...options } = saved;
  return { ...options, bootArgs: '', ...(publish.length > 0 && { publish }) };
}
