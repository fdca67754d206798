// What limits are checked for: the client of a request, and what it changes or takes.
import type { Policy } from '@sandboxd/api';
import type { RequestedResources } from './policy.ts';
import type { Owner, Principal } from './principal.ts';

/** The client of a request. `onResolved` is called with the resources it requests, allowed or not. */
export type RequestContext = {
  readonly principal: Principal;
  readonly onResolved?: ((requested: RequestedResources) => void) | undefined;
};

/** For whom a snapshot is taken: a client, or the owner whose idle sandbox is saved, which needs no permission. */
export type SnapshotMaker = { readonly owner: Owner | undefined; readonly policy?: Policy | undefined };

/** Fields that a request does not change are absent. */
export type RequestedChange = {
  readonly owner: Owner | undefined;
  /** From its creation to its new end; 0: no end. */
  readonly lifetimeS?: number;
  readonly idleTimeoutS?: number;
  /** Whether it will be saved after the idle timeout, and whether it was before. */
  readonly savesItself: boolean;
  readonly savedItself: boolean;
};
