// All resources of a sandbox, in the order in which they are acquired and adopted; they are released in reverse
// order.
import { agent } from './agent.ts';
import { authority } from './authority.ts';
import { files, log } from './files.ts';
import { network } from './network.ts';
import type { Resource, SandboxContext, TeardownContext } from './resource.ts';
import { vmm } from './vmm.ts';

const RESOURCES: readonly Resource[] = [authority, log, files, network, vmm, agent];

/**
 * The same in steps: resources of one step are independent and acquired concurrently, so that a network adds no time
 * to a create.
 */
export const STEPS: readonly (readonly [Resource, ...Resource[]])[] = [
  [authority, log, files, network],
  [vmm],
  [agent],
];

export async function adoptResources(sandbox: SandboxContext): Promise<void> {
  for (const { adopt } of RESOURCES) await adopt?.(sandbox);
}

/** The same for a paused sandbox, which has neither a VMM nor an agent. */
export async function adoptPaused(sandbox: SandboxContext): Promise<void> {
  for (const { adopt } of [log, files, network]) await adopt?.(sandbox);
}

/** First half of a delete, which the client waits for. Stops at the first failure. */
export async function releaseResources(teardown: TeardownContext): Promise<void> {
  for (const { release } of RESOURCES.toReversed()) await release?.(teardown);
}

/**
 * Second half of a delete: slow clean-up. Stops at the first failure, because later resources need the earlier ones
 * to be gone.
 */
export async function sweepResources(teardown: TeardownContext): Promise<void> {
  for (const { sweep } of RESOURCES.toReversed()) await sweep?.(teardown);
}
