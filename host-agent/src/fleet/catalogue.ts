// What the fleet needs of an engine that places sandboxes: a place for each, and a map of all places.

import type { ParkedPlace } from '../http/index.ts';

/** Listeners of a host besides that of its REST interface; absent: it has none that gateways reach. */
export type Doors = { readonly ingress?: URL | undefined; readonly e2b?: URL | undefined };

/** A host of the fleet, as the engine knows it. */
export type Host = {
  readonly name: string;
  /** Of its REST interface. */
  readonly url: URL;
  readonly doors: Doors;
  /** Whether the engine hears from it. */
  readonly isReady: boolean;
  /** Sandboxes that it has, and whose places were removed. */
  readonly unplaced: readonly (Pick<Place, 'id' | 'namespace' | 'vcpus' | 'memoryMib'> & {
    /** It waits in the snapshot store for another host: the beginning of its departure. */
    readonly leaves?: string | undefined;
  })[];
  /** It may have others, which it does not name, or not yet. */
  readonly hasMoreUnplaced?: boolean;
  /** The engine places nothing there. */
  readonly isCordoned?: boolean;
};

/** Where a sandbox is, or is to be made. */
export type Place = {
  /** Of the sandbox. */
  readonly id: string;
  readonly namespace: string;
  /** Distinguishes it from an earlier place of that id. */
  readonly uid: string;
  /** It is for a sandbox that comes from another host: the beginning of its departure. */
  readonly move?: string | undefined;
  /** Between two hosts: which of them has it is about to change. */
  readonly isMoving?: boolean | undefined;
  /** For one that only the snapshot store has: no host has taken it yet, as far as the engine knows. */
  readonly isAwaited?: boolean | undefined;
  /** Name of the host; absent until the engine has chosen one. */
  readonly host?: string | undefined;
  readonly vcpus: number;
  readonly memoryMib: number;
};

export type PlaceRequest = {
  readonly id: string;
  /** Of the client; absent: it has none. */
  readonly tenant: string | undefined;
  readonly vcpus: number;
  readonly memoryMib: number;
  /** Only this host; absent: any. */
  readonly on?: string | undefined;
  /** Hosts that have refused it. */
  readonly not?: readonly string[];
  /** What its host should have already, such as an image. */
  readonly prefers?: string | undefined;
  /** Texts that at most one place of the fleet has: a name, a key of retries. */
  readonly claims: readonly string[];
};

/** Another place has a claim of the request. */
export class ClaimTaken extends Error {
  override readonly name = 'ClaimTaken';
  readonly claim: string;
  readonly place: Place;

  constructor(claim: string, place: Place) {
    super(`${place.id} has it`);
    this.claim = claim;
    this.place = place;
  }
}

export type Forgetting = { readonly unlessJoined: boolean };

export interface Catalogue {
  /**
   * Resolves when a host was chosen. ClaimTaken; AppError forbidden for a quota, exhausted when no host has capacity or
   * the engine does not answer. Nothing is left then.
   */
  place(request: PlaceRequest, signal: AbortSignal): Promise<Place>;
  /**
   * A place for a sandbox that the snapshot store offers; resolves when a host has it. AppError as of `place`, and
   * exhausted while it arrives.
   */
  restore(parked: ParkedPlace & { readonly id: string }, signal: AbortSignal): Promise<void>;
  /**
   * Notes that a further request uses the place of an earlier one. AppError exhausted when the place is being taken
   * away, or the engine does not answer.
   */
  join(place: Place, signal: AbortSignal): Promise<void>;
  /**
   * Gives a place back. Never rejects: what the engine does not hear now, it hears later. `unlessJoined`: not if
   * another request uses it, too.
   */
  forget(place: Place, how?: Forgetting): Promise<void>;
  /**
   * A further claim of a place that is there. False: it has it already. ClaimTaken; AppError exhausted when the engine
   * does not answer.
   */
  claim(claim: string, place: Place, signal: AbortSignal): Promise<boolean>;
  /** Frees a claim that the place has. Rejects when the engine does not answer. */
  unclaim(claim: string, place: Place): Promise<void>;
  /** As the engine has it now, if a client of that tenant may see it. AppError upstream when it does not answer. */
  find(id: string, tenant: string | undefined, signal: AbortSignal): Promise<Place | undefined>;
  /** Follows the places and hosts of the fleet, from the engine’s first answer until `signal` aborts. */
  watch(signal: AbortSignal): Promise<FleetMap>;
}

/** A copy in memory: it answers also while the engine is gone. */
export interface FleetMap {
  find(id: string): Place | undefined;
  /** The same, after waiting for what may have been made just now. */
  settle(id: string, waitMs: number): Promise<Place | undefined>;
  hosts(): readonly Host[];
  /** All places. */
  all(): Iterable<Place>;
  host(name: string): Host | undefined;
  readonly size: number;
  /** Whether it follows the engine now. */
  readonly isCurrent: boolean;
  /** Whether a host may have that sandbox though the map does not know it. */
  mayHave(id: string): boolean;
}
