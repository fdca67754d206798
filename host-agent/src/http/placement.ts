// Where sandboxes are placed: a daemon of its own makes each that a client may have; in a fleet their place was found,
// and their ids given, before the request came to this host.
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';

/** Of the request of a gateway of the fleet. */
export const PLACE_HEADER = 'sandboxd-place';
/** Of an answer: nothing was begun, and the same request with a place of this size is carried out. */
export const WANTED_HEADER = 'sandboxd-wanted-place';

export type PlacedRequest = {
  /** The value of that header. */
  readonly header: string | undefined;
  /** Of the client. */
  readonly tenant: string | undefined;
  /** How many sandboxes it makes. */
  readonly count: number;
  /** Of each of them; what is absent is the default. */
  readonly size: RequestedSize;
};

export type RequestedSize = { readonly vcpus?: number | undefined; readonly memoryMib?: number | undefined };
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

/**
 * Of a request of a gateway: it is about sandboxes that the snapshot store offers, and no host has. Of an answer: the
 * store offers the sandbox, for which the gateway finds a place.
 */
export const PARKED_HEADER = 'sandboxd-parked';
/** Value of a request. */
export const ASK_PARKED = 'ask';

export type ParkedPlace = PlacedSize & {
  readonly departure: string;
  readonly tenant: string | undefined;
};

export function writeParked({ departure, vcpus, memoryMib, tenant = '' }: ParkedPlace): string {
  return [departure, vcpus, memoryMib, tenant].join(' ').trimEnd();
}

/** Undefined for what no host writes. */
export function readParked(text: string): ParkedPlace | undefined {
  const [, departure = '', vcpus, memoryMib, tenant = ''] =
    /^([0-9a-f]{32}) (\d{1,4}) (\d{1,8})(?: ([\w.-]+))?$/.exec(text) ?? [];
  if (departure === '') return undefined;
  return {
    ...{ departure, vcpus: Number(vcpus), memoryMib: Number(memoryMib) },
    tenant: tenant === '' ? undefined : tenant,
  };
}

export function writeWanted({ vcpus, memoryMib }: PlacedSize): string {
  return `${vcpus} ${memoryMib}`;
}

/** Undefined for what no host writes. */
export function readWanted(text: unknown): PlacedSize | undefined {
  if (typeof text !== 'string') return undefined;
  const [, vcpus, memoryMib] = /^(\d{1,4}) (\d{1,8})$/.exec(text) ?? [];
  const size = { vcpus: Number(vcpus), memoryMib: Number(memoryMib) };
  const isOfSandbox = size.vcpus <= MAX_VCPUS && size.memoryMib <= MAX_MEMORY_MIB;
  return isOfSandbox && size.vcpus > 0 && size.memoryMib > 0 ? size : undefined;
}

/** Routes that make sandboxes. */
export const PLACED_ROUTES: ReadonlySet<string> = new Set(['createSandbox', 'forkSandbox', 'forkSnapshot']);

export interface Placement {
  /** Whether requests without that header make nothing. They may ask for what was recorded of a former one. */
  readonly needsPlace: boolean;
  /** AppError conflict for a request whose place is not on this host, exhausted when the host takes no new work. */
  admit(request: PlacedRequest): Promise<Placed>;
  /** Keeps places for a request that comes later, until it is disposed of. AppError forbidden, conflict. */
  hold(request: Omit<PlacedRequest, 'size'>): Disposable;
}

/** Of a daemon that is in no fleet. */
export const ANY_PLACE: Placement = {
  needsPlace: false,
  admit: async () => ({ [Symbol.dispose]: () => undefined }),
  hold: () => ({ [Symbol.dispose]: () => undefined }),
};
