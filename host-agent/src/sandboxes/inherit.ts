// Options that a copy inherits from a saved sandbox.
import type { PublishedPort } from '../network/index.ts';
import type { ResolvedSandboxOptions } from './types.ts';

/**
 * Everything except what belongs to one boot or continues in the guest's memory: the kernel has read its arguments,
 * and the service runs. The timeout starts again. `publish`: the copy's own ports.
 */
export function inheritOptions(
  saved: ResolvedSandboxOptions,
  publish: readonly PublishedPort[] = [],
): ResolvedSandboxOptions {
  const { service: _, publish: _ports, ...options } = saved;
  return { ...options, bootArgs: '', ...(publish.length > 0 && { publish }) };
}
