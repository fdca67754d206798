// Pages of E2B's lists: an opaque token in the header `x-next-token` continues after the last entry.
import { E2bError } from '../errors.ts';

export const NEXT_TOKEN = 'x-next-token';
const MAX_PAGE = 100;

export type Position = { readonly id: string; readonly startedAt: string };

/** `all` in any order; entries of one instant are ordered by id. E2bError 400. */
export function toPage<T>(
  all: readonly T[],
  positionOf: (entry: T) => Position,
  query: {
    readonly limit?: string | undefined;
    readonly nextToken?: string | undefined;
    readonly order?: string | undefined;
  },
): { readonly entries: readonly T[]; readonly next: string | undefined } {
  const isDescending = query.order !== 'asc';
  const keyed = all
    .map((entry) => ({ entry, key: keyOf(positionOf(entry)) }))
    .sort((a, b) => (a.key < b.key ? -1 : 1) * (isDescending ? -1 : 1));
  const after = query.nextToken ? Buffer.from(query.nextToken, 'base64url').toString() : undefined;
  const rest = keyed.filter(({ key }) => after === undefined || (isDescending ? key < after : key > after));
  const limit = toLimit(query.limit);
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  return {
    entries: page.map(({ entry }) => entry),
    next: rest.length > limit && last ? Buffer.from(last.key).toString('base64url') : undefined,
  };
}

/** What continues after an entry. */
export function tokenOf(position: Position): string {
  return Buffer.from(keyOf(position)).toString('base64url');
}

function keyOf({ id, startedAt }: Position): string {
  return `${new Date(startedAt).toISOString()} ${id}`;
}

function toLimit(text: string | undefined): number {
  if (text === undefined) return MAX_PAGE;
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0;
  if (limit < 1) throw new E2bError(400, `limit must be a number from 1 to ${MAX_PAGE}`);
  return Math.min(limit, MAX_PAGE);
}
