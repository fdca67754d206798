// Pages of lists.
import { z } from 'zod';
import { queryInteger } from '../input/query.ts';
import { MAX_PAGE_ITEMS } from '../limits.ts';
import { word } from './answers.ts';

const MAX_CURSOR_CHARS = 256;

export const pageQuery = z.object({
  limit: queryInteger(1, MAX_PAGE_ITEMS, undefined, {
    description: `entries of this page; all of the list when absent, and at most ${MAX_PAGE_ITEMS}`,
  }),
  cursor: z
    .string()
    .max(MAX_CURSOR_CHARS, { error: `query {name} must be a next_cursor of an earlier page, got {value}` })
    .optional()
    .transform((value) => value || undefined)
    .meta({ description: 'the next_cursor of the page before; what is new or gone since then is no matter' }),
});

/** Of the answer: lists are in the order of their entries' creation. */
export const nextCursor = word('where the next page begins; absent on the last one').optional();
