// What a gateway of the fleet is to know of a template, to choose a host for it.
import type { Builder } from '../templates/builder.ts';
import type { SharedTemplates } from '../templates/shared-templates.ts';
import type { Template } from '../templates/template.ts';

/** Of gateways that know that several hosts may have one template. Others see it where it is alone. */
export const SHARED_HEADER = 'sandboxd-shared';

type FactsDeps = {
  readonly shared: Pick<SharedTemplates, 'factsOf'> | undefined;
  readonly runs: ReturnType<Builder['buildsOf']>;
};

export function toFacts({ id, createdAtMs, builds }: Template, { shared, runs }: FactsDeps) {
  const all = builds.map(({ tags, vcpus, memoryMib, createdAtMs: madeAtMs, snapshotId }) => {
    const own = { tags, vcpus, memoryMib, createdAtMs: madeAtMs };
    if (shared === undefined) return { ...own, isHere: true };
    const { storage, problem } = shared.factsOf(snapshotId);
    const isStored = storage === 'stored' || storage === 'remote';
    const isHere = storage !== undefined && storage !== 'remote';
    // Only of one that any host can create from.
    return { ...own, isHere, ...(isStored && { snapshotId }), ...(problem !== undefined && { problem }) };
  });
  const isBuilding = runs.some(({ isOver }) => !isOver);
  const isHere = isBuilding || all.length === 0 || all.some((each) => each.isHere);
  return { id, createdAtMs, builds: all, isBuilding, isHere, runs: runs.map((each) => each.id) };
}
