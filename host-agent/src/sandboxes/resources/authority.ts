// The certificate authority of a sandbox whose policy has connections inspected. A copy has that of its source.
import { needsAuthority } from '../../network/authority/index.ts';
import type { Resource } from './resource.ts';

export const authority: Resource = {
  stage: () => 'authority',

  async acquire({ id, context, record, update }) {
    const { options, authority: inherited } = record;
    if (inherited !== undefined || options.network === undefined || !needsAuthority(options.network)) return;
    const made = await context.authorities.make(id);
    await update({ authority: made.id }, made.persist);
  },

  // That of a sandbox that users know goes with the last record of its lineage.
  async sweep({ id, context, record, wasVisible }) {
    if (!wasVisible && record?.authority === id) await context.authorities.discard(id);
  },
};
