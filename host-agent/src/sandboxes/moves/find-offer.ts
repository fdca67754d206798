// What the snapshot store offers of a sandbox, and whether this host has claimed it already.
import { isAppError } from '../../lib/errors.ts';
import type { StoreManifest } from '../../snapshot-store/index.ts';
import type { Table } from '../../store/store.ts';
import type { SharedDeps } from '../stored/shared.ts';
import { type Parked, parkedId, readParked } from './parked.ts';
import type { Prefetches } from './prefetches.ts';

export type ArrivalRecord = {
  readonly departure: string;
  readonly token: string;
  /** The claim was sent. What the store does not have yet may be on its way: a network that was cut delivers late. */
  readonly isAsked?: true;
};

export type Offer = {
  readonly manifest: StoreManifest;
  readonly parked: Parked;
  readonly departure: string;
  readonly isOwn: boolean;
};

export type OfferDeps = {
  readonly shared: Pick<SharedDeps, 'store'>;
  readonly records: Table<ArrivalRecord>;
  readonly prefetches: Pick<Prefetches, 'departureOf'>;
};

/**
 * The departure that no other host has. With `onlyOwn`, only what this host has claimed. Rejects while the store does
 * not answer, and for one that is damaged if there is no other.
 */
export async function findOffer(
  id: string,
  deps: OfferDeps,
  signal: AbortSignal,
  onlyOwn = false,
): Promise<Offer | undefined> {
  const { shared, records } = deps;
  const { store } = shared;
  const ahead = onlyOwn ? undefined : await findAhead(id, deps, signal);
  if (ahead !== undefined) return ahead;
  let damage: unknown;
  let mayBeOwn = false;
  for (const each of await store.parked.find(id, signal)) {
    const departure = each.slice(id.length + 1);
    try {
      const holder = await store.parked.readClaim(each, signal);
      const own = records.get(id);
      if (holder !== undefined && !(own?.departure === departure && own.token === holder)) continue;
      if (holder === undefined && onlyOwn) {
        mayBeOwn ||= own?.departure === departure && own.isAsked === true;
        continue;
      }
      const manifest = await store.read(each, signal);
      if (manifest === undefined) continue;
      return { manifest, parked: readParked(manifest), departure, isOwn: holder !== undefined };
    } catch (error) {
      // Who writes into the bucket keeps no host from what is whole.
      if (!isAppError(error) || error.code !== 'internal') throw error;
      damage ??= error;
    }
  }
  if (damage !== undefined) throw damage;
  // Nothing of this host is in the store any more.
  if (records.get(id) !== undefined && !mayBeOwn) await records.remove(id);
  return undefined;
}

/** The one that was fetched ahead, for which the store need not be searched. */
async function findAhead(
  id: string,
  { shared: { store }, prefetches }: OfferDeps,
  signal: AbortSignal,
): Promise<Offer | undefined> {
  const departure = prefetches.departureOf(id);
  if (departure === undefined) return undefined;
  const parked = parkedId(id, departure);
  try {
    const asked = [store.parked.readClaim(parked, signal), store.read(parked, signal)] as const;
    const [holder, manifest] = await Promise.all(asked);
    if (holder !== undefined || manifest === undefined) return undefined;
    return { manifest, parked: readParked(manifest), departure, isOwn: false };
  } catch {
    // The search says what is wrong with it.
    return undefined;
  }
}
