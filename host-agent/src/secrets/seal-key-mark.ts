// Which key the daemon seals with: a command that had another one would store what the daemon cannot open.
import type { Sealer } from '../lib/seal.ts';
import type { Store } from '../store/store.ts';

const ID = 'seal key mark';
const TABLE = 'seal_key_mark';

type Mark = { readonly sealed: string };

/** Of the daemon, when it starts. A key that does not exist is not made for that. */
export async function markSealKey(store: Store, sealer: Sealer): Promise<void> {
  const table = store.table<Mark>(TABLE);
  if (!sealer.hasKey) return;
  let sealed: string;
  try {
    if (table.get(ID) !== undefined && isSealKeyOfDaemon(store, sealer)) return;
    sealed = sealer.seal(ID, Buffer.alloc(1));
  } catch {
    // A key that cannot be used is an error of what needs it, and of `sandboxd doctor`.
    return;
  }
  await table.put(ID, { sealed });
}

/** Also where no daemon has left a mark. */
export function isSealKeyOfDaemon(store: Store, sealer: Sealer): boolean {
  const mark = store.table<Mark>(TABLE).latest(ID);
  if (mark === undefined) return true;
  try {
    sealer.open(ID, mark.sealed);
    return true;
  } catch {
    return false;
  }
}
