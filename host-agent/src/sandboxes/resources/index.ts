// All that a sandbox owns, in the order in which it is got and found again; it is given back in the opposite one.
import { agent } from './agent.ts';
import { files } from './files.ts';
import { log } from './log.ts';
import { network } from './network.ts';
import type { Resource, SandboxContext, TeardownContext } from './resource.ts';
import { vmm } from './vmm.ts';

export const RESOURCES: readonly Resource[] = [log, files, network, vmm, agent];

/** The same: those of one step need nothing of each other and are got at once, so that a network costs a create no time of its own. */
export const STEPS: readonly (readonly [Resource, ...Resource[]])[] = [[log, files, network], [vmm], [agent]];

export async function adoptResources(sandbox: SandboxContext): Promise<void> {
  for (const { adopt } of RESOURCES) await adopt?.(sandbox);
}

/** The half of giving back that somebody waits for. Ends with the first that fails. */
export async function releaseResources(teardown: TeardownContext): Promise<void> {
  for (const { release } of RESOURCES.toReversed()) await release?.(teardown);
}

/** The half that only takes time. Ends with the first that fails; what comes after it needs it to be gone. */
export async function sweepResources(teardown: TeardownContext): Promise<void> {
  for (const { sweep } of RESOURCES.toReversed()) await sweep?.(teardown);
}
