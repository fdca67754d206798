// Where sandboxes are placed: a daemon of its own makes each that a client may have; in a fleet their place was found,
// and their ids given, before the request came to this host.

/** Of the request of a gateway of the fleet. */
export const PLACE_HEADER = 'sandboxd-place';

export type PlacedRequest = {
  /** The value of that header. */
  readonly header: string | undefined;
  /** Of the client. */
  readonly tenant: string | undefined;
  /** How many sandboxes it makes. */
  readonly count: number;
  /** Of each of them; what is absent is the default. */
  readonly size: WantedSize;
};

export type WantedSize = { readonly vcpus?: number | undefined; readonly memoryMib?: number | undefined };
export type PlacedSize = { readonly vcpus: number; readonly memoryMib: number };

/** Dispose it when the sandboxes are made, or could not be made. */
export type Placed = Disposable & {
  /** One for each sandbox; absent: new ones. */
  readonly ids?: readonly string[];
  /** The ids are those of sandboxes that exist: nothing new may be made under them. */
  readonly onlyExisting?: true;
  /** Instead of this daemon’s own defaults, which the gateway does not know. */
  readonly defaults?: PlacedSize;
};

export interface Placement {
  /** Absent: this host decides for itself. */
  readonly isFleet?: true;
  /** AppError conflict for a request whose place is not on this host, exhausted when the host takes no new work. */
  admit(request: PlacedRequest): Promise<Placed>;
}

/** Of a daemon that is in no fleet. */
export const ANY_PLACE: Placement = { admit: async () => ({ [Symbol.dispose]: () => undefined }) };
