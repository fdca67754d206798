// Anchors of the trail in the registry. Without them, a trail whose beginning or end was cut off would verify as
// complete.
import type { Table } from '../store/store.ts';
import type { Link } from './line.ts';

/** `end` is a recent last line, `begin` the line before the first that must still exist. */
export type Anchors = Pick<Table<Link>, 'latest' | 'put'>;
export const ANCHOR_TABLE = 'audit';
export const END = 'end';
export const BEGIN = 'begin';
