// The durable log of a sandbox, which remains after its delete.
import type { Resource } from './resource.ts';

export const log: Resource = {
  stage: () => 'log',

  async acquire({ id, context, handles, record }) {
    handles.sandboxLog = await context.logs?.open(id, record.owner?.tenant);
  },

  async adopt({ id, context, handles, record }) {
    handles.sandboxLog = await context.logs?.open(id, record.owner?.tenant);
  },

  // Until the sweep it is readable like the log of a live sandbox.
  async sweep({ id, context, wasVisible }) {
    if (wasVisible) await context.logs?.end(id);
    else await context.logs?.remove(id);
  },
};
