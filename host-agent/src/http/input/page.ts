// A page of a list, in the order of creation: what is made or deleted between two pages neither repeats nor hides another entry.
import { AppError } from '../../lib/errors.ts';

export type PageQuery = { readonly limit?: number | undefined; readonly cursor?: string | undefined };
/** When it was made, and its name among those of the same moment. */
export type Place = { readonly atMs: number; readonly name: string };
export type Page<T> = { readonly entries: readonly T[]; readonly next: { readonly next_cursor?: string } };

const CURSOR = /^(\d{1,16}):([\w:]{1,100})$/;

/** All of it without `limit`. AppError invalid_argument for what is no cursor. */
export function toPage<T>(
  all: readonly T[],
  placeOf: (entry: T) => Place,
  { limit, cursor }: PageQuery,
): Page<T> {
  if (limit === undefined && cursor === undefined) return { entries: all, next: {} };
  const behind = cursor === undefined ? undefined : readCursor(cursor);
  const placed = all
    .map((entry) => ({ entry, place: placeOf(entry) }))
    .filter(({ place }) => behind === undefined || compare(place, behind) > 0)
    .sort((a, b) => compare(a.place, b.place));
  const shown = placed.slice(0, limit);
  const last = shown.at(-1);
  const hasMore = last !== undefined && shown.length < placed.length;
  return {
    entries: shown.map(({ entry }) => entry),
    next: hasMore ? { next_cursor: toCursor(last.place) } : {},
  };
}

function compare(a: Place, b: Place): number {
  return a.atMs - b.atMs || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0);
}

function toCursor({ atMs, name }: Place): string {
  return Buffer.from(`${atMs}:${name}`).toString('base64url');
}

function readCursor(text: string): Place {
  const [, atMs, name] = CURSOR.exec(Buffer.from(text, 'base64url').toString()) ?? [];
  if (atMs !== undefined && name !== undefined) return { atMs: Number(atMs), name };
  throw new AppError(
    'invalid_argument',
    `query cursor must be the next_cursor of an earlier page, got ${JSON.stringify(text.slice(0, 80))}`,
  );
}
