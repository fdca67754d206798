// What the node agent needs of this host: its sandboxes and its table of places.
import type { PlacedSize } from '../../http/index.ts';
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
  /** The node was cordoned, or uncordoned: all leave, or stay. AppError. */
  setDraining(isDraining: boolean): Promise<void>;
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
