// How many forks a request asks for: in the query or in the body, which wins.
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { type HttpContext, show } from '../context.ts';
import { publishSchema } from './network-request.ts';
import { parseInt64, readQuery } from './query.ts';
import { integer, optional } from './read-fields.ts';

export function forkSchema(maxCount: number) {
  return z.object(
    {
      // 0 is how clients say "not given".
      count: optional(integer(0, maxCount, ' (0 leaves it to the query)')),
      publish: optional(publishSchema),
    },
    { error: 'must be a JSON object' },
  );
}

export type ForkFields = z.infer<ReturnType<typeof forkSchema>>;

/** AppError invalid_argument for a bad count in the query, even if the body's wins, and for one that excludes `publish`. */
export function readForkCount(c: HttpContext, fields: ForkFields, maxCount: number): number {
  const query = readQuery(c, 'count');
  const fromQuery = query === undefined ? 1 : parseInt64(query);
  if (fromQuery === undefined || fromQuery < 1 || fromQuery > maxCount) {
    throw new AppError(
      'invalid_argument',
      `count in the query must be an integer from 1 to ${maxCount}, got ${show(query)}`,
    );
  }
  const count = fields.count || fromQuery;
  if (isPublishing(fields) && count !== 1) {
    throw new AppError(
      'invalid_argument',
      `publish needs count 1, because host ports are exclusive, got ${count}`,
    );
  }
  return count;
}

export function isPublishing({ publish = [] }: ForkFields): boolean {
  return publish.length > 0;
}
