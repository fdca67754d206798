// What a create comes to, in two steps: nothing is pulled before it is known that the caller may have the sandbox.
import type { SandboxLimits } from '@sandboxd/api';
import { type Finding, type RootfsFinder, toUnknownRootfs } from '../images/index.ts';
import { assertOperation, type Caller } from '../keys/index.ts';
import { resolveService } from './image-service.ts';
import { resolveSandboxOptions } from './resolve-options.ts';
import type { CreateSandboxOptions, ResolvedSandboxOptions, SandboxDefaults } from './types.ts';

export type Surroundings = {
  readonly roots: Pick<RootfsFinder, 'find'>;
  readonly defaults: SandboxDefaults;
  readonly limits: SandboxLimits;
};

/** All of it for a profile that is baked; for others what the request alone says. AppError invalid_argument. */
export async function resolveEarly(
  options: CreateSandboxOptions,
  { roots, defaults, limits }: Surroundings,
  signal: AbortSignal,
): Promise<ResolvedSandboxOptions> {
  const request = options.rootfs ?? { kind: 'profile', name: defaults.profile };
  const found = request.kind === 'profile' ? await roots.find(request, 'never', { signal }) : undefined;
  const rootfs = found?.rootfs ?? toUnknownRootfs(request);
  return resolveSandboxOptions(options, rootfs, defaults, limits, resolveService(options.service, undefined));
}

/** The rest, which may take a pull or a bake. AppError as that, and forbidden for an image that has to be pulled or runs something where the caller may not. */
export async function resolveWhole(
  early: ResolvedSandboxOptions,
  { service: wanted, pull = 'missing' }: CreateSandboxOptions,
  { roots }: Surroundings,
  finding: Finding,
  caller?: Caller,
): Promise<ResolvedSandboxOptions> {
  const { kind, name, isPath, digest } = early.rootfs;
  if (kind === 'agent' || digest !== '') return early;
  const mode = kind === 'image' ? pull : 'missing';
  const onMake = () => assertOperation(caller, 'images', 'create');
  const asking = kind === 'image' ? { ...finding, onMake } : finding;
  const found = await roots.find({ kind, name, ...(isPath && { isPath }) }, mode, asking);
  const service = resolveService(wanted, found.service);
  if (service !== undefined) assertOperation(caller, 'exec');
  const { service: _, ...options } = early;
  return { ...options, rootfs: found.rootfs, ...(service && { service }) };
}
