// Tables of the registry that sandboxes between two hosts need.
import type { Table } from '../../store/store.ts';
import type { ArrivalRecord } from './arrivals.ts';
import type { DepartureRecord } from './departures.ts';
import type { DrainRecord } from './drain.ts';

export type MoveTables = {
  readonly departures: Table<DepartureRecord>;
  readonly arrivals: Table<ArrivalRecord>;
  readonly drain: Table<DrainRecord>;
  /** Of sandboxes that have no other place than this host. */
  readonly bound?: { get(id: string): unknown };
};

/** How long hosts wait for each other before a pause. */
export type MoveTimes = {
  /** Until another host has begun to fetch what was sent; 0: none is chosen before the pause. */
  readonly placedMs?: number;
  /** Until it is there. */
  readonly fetchedMs?: number;
  /** For its sandbox. */
  readonly keptMs?: number;
};
