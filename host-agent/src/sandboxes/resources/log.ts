// The durable log of a sandbox, which outlives it.
import type { Resource } from './resource.ts';

export const log: Resource = {
  stage: () => 'log',

  async acquire({ id, context, handles, record }) {
    handles.sandboxLog = await context.logs?.open(id, record.owner?.tenant);
  },

  async adopt({ id, context, handles, record }) {
    handles.sandboxLog = await context.logs?.open(id, record.owner?.tenant);
  },

  // Until then it is read as that of any sandbox.
  async sweep({ id, context, wasKnown }) {
    if (wasKnown) await context.logs?.end(id);
    else await context.logs?.remove(id);
  },
};
