// How many forks a request asks for: in the query or in the body, which wins.
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { show } from '../context.ts';
import { integer, optional } from './read-fields.ts';

export function forkSchema(maxCount: number) {
  return z.object(
    {
      // 0 is how clients say "not given".
      count: optional(integer(0, maxCount, ' (0 leaves it to the query)')),
      publish: optional(
        z.array(z.record(z.string(), z.unknown(), { error: 'must be an object' }), {
          error: 'must be an array of port mappings',
        }),
      ),
    },
    { error: 'must be a JSON object' },
  );
}

/** AppError invalid_argument for a bad count in the query, even if the body's wins, and for ports that cannot be published. */
export function readForkCount(
  query: string | undefined,
  fields: z.infer<ReturnType<typeof forkSchema>>,
  maxCount: number,
): number {
  const fromQuery = query === undefined ? 1 : Number(query);
  if (query === '' || !/^\d*$/.test(query ?? '') || fromQuery < 1 || fromQuery > maxCount) {
    throw new AppError(
      'invalid_argument',
      `count in the query must be an integer from 1 to ${maxCount}, got ${show(query)}`,
    );
  }
  const count = fields.count || fromQuery;
  if ((fields.publish?.length ?? 0) > 0) {
    throw new AppError(
      'invalid_argument',
      count === 1
        ? 'publish needs a snapshot that has a network, and this one has none'
        : `publish needs count 1, because host ports are exclusive, got ${count}`,
    );
  }
  return count;
}
