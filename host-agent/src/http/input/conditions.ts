// Headers that make a request for a file conditional, or ask for a part of it (RFC 9110).
import { AppError } from '../../lib/errors.ts';
import { type HttpContext, headerOf } from '../context.ts';

const MAX_ETAGS = 64;
const ETAGS = /^\s*(?:W\/)?"[^"]*"\s*(?:,\s*(?:W\/)?"[^"]*"\s*)*$/;
const RANGE = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/;

/** Undefined without the header; `*` is any existing file. */
export type ETags = readonly string[] | undefined;

export type Conditions = { readonly ifMatch: ETags; readonly ifNoneMatch: ETags };

/** AppError invalid_argument. ETags without their quotes; weak ones, which never match strongly, keep their `W/`. */
export function readConditions(c: HttpContext): Conditions {
  return { ifMatch: readETags(c, 'if-match'), ifNoneMatch: readETags(c, 'if-none-match') };
}

function readETags(c: HttpContext, name: string): ETags {
  const value = headerOf(c, name);
  if (value === undefined || value.trim() === '') return undefined;
  if (value.trim() === '*') return ['*'];
  const tags = ETAGS.test(value) ? value.split(',').map((tag) => tag.trim().replaceAll('"', '')) : [];
  if (tags.length > 0 && tags.length <= MAX_ETAGS) return tags;
  throw new AppError(
    'invalid_argument',
    `header ${name} must be * or at most ${MAX_ETAGS} ETags in quotes, got ${value.slice(0, 80)}`,
  );
}

/** Whether an existing file with this ETag matches, by the weak comparison of If-None-Match. */
export function matchesWeakly(tags: ETags, etag: string): boolean {
  return tags?.some((tag) => tag === '*' || tag.replace(/^W\//, '') === etag) === true;
}

export function matchesStrongly(tags: ETags, etag: string): boolean {
  return tags?.some((tag) => tag === '*' || tag === etag) === true;
}

export type Range = { readonly first: number; readonly last?: number } | { readonly lastBytes: number };

/** The requested range; undefined without one, and for several or an invalid one, which RFC 9110 permits to ignore. */
export function readRange(c: HttpContext): Range | undefined {
  const [, first, last] = RANGE.exec(headerOf(c, 'range') ?? '') ?? [];
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined;
  if (first === '') return { lastBytes: Number(last) };
  if (last !== '' && Number(last) < Number(first)) return undefined;
  return { first: Number(first), ...(last !== '' && { last: Number(last) }) };
}

/** Whether If-Range permits a part: absent, or exactly this ETag. */
export function permitsRange(c: HttpContext, etag: string): boolean {
  const value = headerOf(c, 'if-range');
  return value === undefined || value.trim() === `"${etag}"`;
}
