// Resolves a create in two steps: nothing is pulled before the client is known to be allowed to have the sandbox.
import type { SandboxLimits } from '@sandboxd/api';
import { type FindOptions, type RootfsFinder, toUnknownRootfs } from '../images/index.ts';
import { assertOperation, type Principal } from '../keys/index.ts';
import { resolveService } from './image-service.ts';
import { resolveSandboxOptions } from './resolve-options.ts';
import type { CreateSandboxOptions, ResolvedSandboxOptions, SandboxDefaults } from './types.ts';

export type CreateContext = {
  readonly roots: Pick<RootfsFinder, 'find'>;
  readonly defaults: SandboxDefaults;
  readonly limits: SandboxLimits;
};

/** Complete for a baked profile; for others, what the request alone determines. AppError invalid_argument. */
export async function validateCreate(
  options: CreateSandboxOptions,
  { roots, defaults, limits }: CreateContext,
  signal: AbortSignal,
): Promise<ResolvedSandboxOptions> {
  const request = options.rootfs ?? { kind: 'profile', name: defaults.profile };
  const found = request.kind === 'profile' ? await roots.find(request, 'never', { signal }) : undefined;
  const rootfs = found?.rootfs ?? toUnknownRootfs(request);
  return resolveSandboxOptions(options, rootfs, defaults, limits, resolveService(options.service, undefined));
}

/**
 * The rest, which may pull or bake. AppError as of that, and forbidden if the image must be pulled, or starts a
 * service, and the client may not do that.
 */
export async function resolveRootfs(
  validated: ResolvedSandboxOptions,
  { service: requested, pull = 'missing' }: CreateSandboxOptions,
  { roots }: CreateContext,
  findOptions: FindOptions,
  principal: Principal,
): Promise<ResolvedSandboxOptions> {
  const { kind, name, isPath, digest } = validated.rootfs;
  if (kind === 'agent' || digest !== '') return validated;
  const mode = kind === 'image' ? pull : 'missing';
  const onMake = () => assertOperation(principal, 'images', 'create');
  const pullOptions = kind === 'image' ? { ...findOptions, onMake } : findOptions;
  const found = await roots.find({ kind, name, ...(isPath && { isPath }) }, mode, pullOptions);
  const service = resolveService(requested, found.service);
  if (service !== undefined) assertOperation(principal, 'exec');
  const { service: _, ...options } = validated;
  return { ...options, rootfs: found.rootfs, ...(service && { service }) };
}
