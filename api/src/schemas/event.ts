// What happened to sandboxes and snapshots.
import { z } from 'zod';
import { querySwitch } from '../input/query.ts';
import { MAX_EVENT_FILTERS } from '../limits.ts';
import { count, dateTime, word } from './answers.ts';
import { sandboxId, snapshotId } from './id.ts';

export const EVENT_KINDS = [
  'created',
  'forked',
  'adopted',
  'died',
  'hung',
  'recovered',
  'expired',
  'idle',
  'idle-kept',
  'deleted',
  'snapshot-taken',
  'snapshot-imported',
  'snapshot-deleted',
] as const;
export type EventKind = (typeof EVENT_KINDS)[number];

/** Words with commas between them, none of them empty; nothing is no list. */
function queryList<T extends string>(isOne: (word: string) => word is T, what: string, description: string) {
  const error = `query {name} must be ${what}, with commas between, ${MAX_EVENT_FILTERS} at most, got {value}`;
  return z
    .string()
    .optional()
    .transform((text, context): readonly T[] | undefined => {
      if (text === undefined || text === '') return undefined;
      const words = text.split(',', MAX_EVENT_FILTERS + 1);
      if (words.length <= MAX_EVENT_FILTERS && words.every(isOne)) return words;
      context.addIssue({ code: 'custom', message: error });
      return z.NEVER;
    })
    .meta({ description });
}

export const eventsQuery = z.object({
  sandbox: queryList(
    (word): word is string => sandboxId.safeParse(word).success,
    'ids of sandboxes',
    'only what happened to these sandboxes: ids with commas between',
  ),
  kind: queryList(
    (word): word is EventKind => (EVENT_KINDS as readonly string[]).includes(word),
    `some of ${EVENT_KINDS.join(', ')}`,
    `only these kinds, with commas between: ${EVENT_KINDS.join(', ')}`,
  ),
  follow: querySwitch(
    '0',
    false,
    '0: ends at the present instead of following; then from the oldest that is kept',
  ),
  last_event_id: z.string().optional().meta({
    description:
      'goes on behind this event, as Last-Event-ID does; 0: from the oldest that is kept; by default from now on',
  }),
});

export const event = z
  .object({
    id: word('what to go on behind'),
    at: dateTime('when'),
    kind: z.enum(EVENT_KINDS).describe('what happened'),
    sandbox: sandboxId
      .optional()
      .describe(
        'to which sandbox; of snapshot-taken, which was saved; of snapshot-imported, on its own host',
      ),
    snapshot: snapshotId
      .optional()
      .describe('the snapshot that was taken, imported or deleted, or that an idle sandbox was saved as'),
    origin: z
      .enum(['boot', 'template', 'snapshot'])
      .optional()
      .describe('of created and forked: what it was made from'),
    source_snapshot_id: snapshotId.optional().describe('of forked: the snapshot'),
    duration_ms: count('how long it took, of created, forked, snapshot-taken').optional(),
    paused_ms: count('of snapshot-taken: how long the sandbox stood still').optional(),
    timeout_s: count('of expired: its lifetime').optional(),
    idle_s: count('of idle: for how long nobody used it').optional(),
    reason: word('of died, hung and idle-kept: why').optional(),
    tenant: word('whose it is, for a key that sees several').optional(),
  })
  .describe('something that happened');
