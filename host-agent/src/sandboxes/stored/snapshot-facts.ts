// What templates need to know of the snapshots that they are: where each is, and whether this host can run it.
import type { Engines } from '../../engines/choice.ts';
import { isAppError } from '../../lib/errors.ts';
import { findDifferences } from '../saved/saved-guest.ts';
import type { Snapshots } from '../snapshots.ts';
import type { SnapshotStorage } from '../types.ts';

export type SnapshotFacts = {
  /** Undefined: neither this host nor the store has it, as far as this host knows. */
  readonly storage: SnapshotStorage | undefined;
  /** Why this host cannot run it. */
  readonly problem?: string | undefined;
};

type FactsDeps = {
  readonly snapshots: Pick<Snapshots, 'stored' | 'get' | 'open'>;
  readonly engines: Pick<Engines, 'ifChosen'>;
};

export function readSnapshotFacts({ snapshots, engines }: FactsDeps, id: string): SnapshotFacts {
  const own = engines.ifChosen?.compatibility();
  try {
    const { storage } = snapshots.get(id);
    const saved = snapshots.stored?.findRemote(id)?.archive ?? snapshots.open(id).manifest;
    return { storage, problem: own && findDifferences(saved.compatibility, own) };
  } catch (error) {
    if (isAppError(error) && error.code === 'not_found') return { storage: undefined };
    if (isAppError(error)) return { storage: 'stored', problem: error.message };
    throw error;
  }
}
