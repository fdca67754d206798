// Pages of lists in the order of creation. Entries that are added or deleted between two pages cause no gaps or
// repeats.
import { AppError } from '../../lib/errors.ts';

export type PageQuery = { readonly limit?: number | undefined; readonly cursor?: string | undefined };
/** Sort key of an entry: creation time, then name. */
export type SortKey = { readonly atMs: number; readonly name: string };
type Page<T> = { readonly entries: readonly T[]; readonly next: { readonly next_cursor?: string } };

const CURSOR = /^(\d{1,16}):([\w:.-]{1,100})$/;

/** The whole list without `limit` and `cursor`. AppError invalid_argument for an invalid cursor. */
export function toPage<T>(
  all: readonly T[],
  sortKeyOf: (entry: T) => SortKey,
  { limit, cursor }: PageQuery,
): Page<T> {
  if (limit === undefined && cursor === undefined) return { entries: all, next: {} };
  const after = cursor === undefined ? undefined : readCursor(cursor);
  const sorted = all
    .map((entry) => ({ entry, key: sortKeyOf(entry) }))
    .filter(({ key }) => after === undefined || compare(key, after) > 0)
    .sort((a, b) => compare(a.key, b.key));
  const shown = sorted.slice(0, limit);
  const last = shown.at(-1);
  const hasMore = last !== undefined && shown.length < sorted.length;
  return {
    entries: shown.map(({ entry }) => entry),
    next: hasMore ? { next_cursor: toCursor(last.key) } : {},
  };
}

function compare(a: SortKey, b: SortKey): number {
  return a.atMs - b.atMs || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

function toCursor({ atMs, name }: SortKey): string {
  return Buffer.from(`${atMs}:${name}`).toString('base64url');
}

function readCursor(text: string): SortKey {
  const [, atMs, name] = CURSOR.exec(Buffer.from(text, 'base64url').toString()) ?? [];
  if (atMs !== undefined && name !== undefined) return { atMs: Number(atMs), name };
  throw new AppError(
    'invalid_argument',
    `query cursor must be the next_cursor of an earlier page, got ${JSON.stringify(text.slice(0, 80))}`,
  );
}
