// What a copy of a saved sandbox has of it.
import type { PublishedPort } from '../network/index.ts';
import type { ResolvedSandboxOptions } from './types.ts';

/**
 * Everything but what belongs to one boot or goes on in the guest's memory anyway: kernel arguments were read, and a service
 * runs. Life begins anew, for as long. `publish` are ports of its own.
 */
export function inheritOptions(
  saved: ResolvedSandboxOptions,
  publish: readonly PublishedPort[] = [],
): ResolvedSandboxOptions {
  const { service: _, publish: _ports, ...options } = saved;
  return { ...options, bootArgs: '', ...(publish.length > 0 && { publish }) };
}
