// Snapshots and their forks.
import { z } from 'zod';
import { integer, rule, withDefault } from '../input/fields.ts';
import { queryInteger, querySwitch } from '../input/query.ts';
import type { RequestLimits } from '../limits.ts';
import { count, dateTime, warnings, word } from './answers.ts';
import { sandboxId, snapshotId } from './id.ts';
import { publish } from './network.ts';
import { nextCursor } from './page.ts';

export const snapshot = z
  .object({
    id: snapshotId,
    created_at: dateTime('when it was taken'),
    source_id: sandboxId.describe('the sandbox it was taken of'),
    dir: word('its directory on the host'),
    mem_path: word('file of its memory'),
    rootfs_path: word('file of its writable layer'),
    state_path: word('file of its devices'),
    memory_mib: count('memory, MiB'),
    vcpus: count('virtual CPUs'),
    warnings,
  })
  .describe('a snapshot');

export const snapshotList = z
  .object({ snapshots: z.array(snapshot).describe('oldest first'), next_cursor: nextCursor })
  .describe('snapshots');

export const importSnapshotQuery = z.object({
  disk_only: querySwitch(
    '1',
    true,
    '1: only its disk is used, and booted here; then engine, processor and kernel may be others',
  ),
});

export function forkRequest({ fork }: RequestLimits) {
  const fields = z.object(
    {
      count: withDefault(
        integer(0, fork, ' (0 leaves it to the query)'),
        0,
        'how many forks to make; 0 leaves it to the query, anything else wins over it',
      ),
      publish,
    },
    { error: 'must be a JSON object' },
  );
  return rule(
    fields,
    'publish needs a count of 1, from the body or the query',
    ({ count, publish }) => publish.length === 0 || count <= 1,
    { error: 'publish needs count 1, because host ports are exclusive, got {value}', path: ['count'] },
  ).describe('which forks to make; may be left out');
}

/** Refused when it is bad, even if the body's count wins. */
export function forkQuery({ fork }: RequestLimits) {
  return z.object({
    count: queryInteger(1, fork, 1, {
      description: 'how many forks to make, unless the body says it',
      error: `{name} in the query must be an integer from 1 to ${fork}, got {value}`,
    }),
  });
}
