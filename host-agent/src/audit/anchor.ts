// What the registry knows of the trail: a trail whose end or beginning was cut off is whole by itself.
import type { Table } from '../store/store.ts';
import type { Link } from './line.ts';

/** `end` is the last line that was there lately, `begin` the one before the first that must still be there. */
export type Anchors = Pick<Table<Link>, 'latest' | 'put'>;
export const ANCHOR_TABLE = 'audit';
export const END = 'end';
export const BEGIN = 'begin';
