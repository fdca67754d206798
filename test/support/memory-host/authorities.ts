// The authorities of a registry, sealed as the daemon seals them.
import { Sealer } from '../../../host-agent/src/lib/seal.ts';
import { Authorities, type AuthorityRecord } from '../../../host-agent/src/sandboxes/authorities.ts';
import type { Store } from '../../../host-agent/src/store/store.ts';

export function makeAuthorities(store: Store, dataDir: string): Authorities {
  const records = store.table<AuthorityRecord>('authorities');
  return new Authorities({ records, sealer: new Sealer({ dataDir }) });
}
