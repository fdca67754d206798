// Tables of the registry that sandboxes between two hosts need.
import type { Table } from '../../store/store.ts';
import type { DepartureRecord } from './departure-record.ts';
import type { DrainRecord } from './drain.ts';
import type { ArrivalRecord } from './find-offer.ts';

export type MoveTables = {
  readonly departures: Table<DepartureRecord>;
  readonly arrivals: Table<ArrivalRecord>;
  readonly drain: Table<DrainRecord>;
  /** Of sandboxes that have no other place than this host. */
  readonly bound?: { get(id: string): unknown };
};
