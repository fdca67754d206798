// What the node agent needs of this host: its sandboxes and its table of places.
import type { PlacedSize } from '../../http/index.ts';
import type { Arrival, Fetched } from '../kubernetes/pods.ts';
import type { PlaceRecord } from './decide.ts';

export type TakeoverConditions = {
  /** Only what this host has claimed already. */
  readonly onlyOwn?: boolean;
  /** Before the claim. AppError. */
  readonly assertFits?: (size: PlacedSize) => void;
};

/** The sandboxes of this host. */
export interface LocalSandboxes {
  stateOf(id: string): { readonly state: string; readonly reason?: string | undefined } | undefined;
  sizeOf(id: string): PlacedSize | undefined;
  /** Ends one. */
  delete(id: string): Promise<void>;
  /** Makes one of this host that waits in the snapshot store, and resumes it if it ran. AppError. */
  takeOver(id: string, conditions: TakeoverConditions): Promise<void>;
  /** Whether this host has claimed it, or may have, and has no sandbox of it yet. */
  isArriving(id: string): boolean;
  /** The departure of one that waits there for another host. */
  departureOf(id: string): string | undefined;
  /** The departure of one that runs, and whose copy another host can fetch. */
  copiedOf(id: string): string | undefined;
  /** How far the host is where that one will go on. */
  noteArrival(id: string, arrival: Arrival): void;
  /** Fetches what another host has sent of one that runs there. Resolves when that is over. AppError. */
  prefetch(id: string, move: string, conditions: Pick<TakeoverConditions, 'assertFits'>): Promise<void>;
  /** Whether this version takes changes of what it has fetched ahead. */
  readonly takesChanges: boolean;
  /** Undefined: nothing is known of that move. */
  prefetchOf(id: string, move: string): Fetched | undefined;
  /** Of those that are fetched ahead. */
  prefetched(): Iterable<string>;
  forgetPrefetch(id: string): Promise<void>;
  /** The node was cordoned, or uncordoned: all leave, or stay. AppError. */
  setDraining(isDraining: boolean): Promise<void>;
  /** As that was last asked for. */
  isDraining(): boolean;
  /** `listener` gets the id of each sandbox that came, changed or went. Returns what unsubscribes it. */
  subscribe(listener: (id: string) => void): () => void;
}

/** A table of the registry. */
export type PlaceRecords = {
  get(id: string): PlaceRecord | undefined;
  all(): { readonly id: string; readonly record: PlaceRecord }[];
  put(id: string, record: PlaceRecord): Promise<void>;
  remove(id: string): Promise<unknown>;
};
