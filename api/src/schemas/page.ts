// Pages of lists.
import { z } from 'zod';
import { queryInteger } from '../input/query.ts';
import { MAX_PAGE_ITEMS } from '../limits.ts';
import { word } from './answers.ts';

const MAX_CURSOR_CHARS = 256;

export const pageQuery = z.object({
  limit: queryInteger(1, MAX_PAGE_ITEMS, undefined, {
    description: `maximum number of entries in the page, up to ${MAX_PAGE_ITEMS}; default: the whole list`,
  }),
  cursor: z
    .string()
    .max(MAX_CURSOR_CHARS, { error: `query {name} must be a next_cursor of an earlier page, got {value}` })
    .optional()
    .transform((value) => value || undefined)
    .meta({
      description:
        'next_cursor of the previous page; entries that were added or deleted since then cause no gaps or repeats',
    }),
});

/** Of lists of a fleet. */
export const unreachableHosts = z
  .array(z.string())
  .optional()
  .describe(
    'hosts of the fleet that did not answer in time, or refused what others did, so that theirs are missing; ' +
      'a daemon alone has none',
  );

/** A field of the response. Lists are ordered by the creation time of their entries. */
export const nextCursor = word('cursor of the next page; absent on the last page').optional();
