// Events of sandboxes and snapshots.
import { z } from 'zod';
import { querySwitch } from '../input/query.ts';
import { MAX_EVENT_FILTERS } from '../limits.ts';
import { count, dateTime, word } from './answers.ts';
import { sandboxId, snapshotId } from './id.ts';
import { labelSelectors, labels } from './label.ts';

export const EVENT_KINDS = [
  'created',
  'forked',
  'adopted',
  'updated',
  'died',
  'hung',
  'recovered',
  'expired',
  'idle',
  'idle-kept',
  'paused',
  'pause-failed',
  'resumed',
  'port-opened',
  'port-closed',
  'port-published',
  'port-unpublished',
  'network-changed',
  'secrets-changed',
  'rolled-back',
  'deleted',
  'moved',
  'snapshot-taken',
  'snapshot-imported',
  'snapshot-stored',
  'snapshot-fetched',
  'snapshot-changed',
  'snapshot-deleted',
  'host-unreachable',
  'host-reachable',
] as const;
/** Of the gateway of a fleet; no host records them. */
export const FLEET_EVENT_KINDS: readonly string[] = ['host-unreachable', 'host-reachable'];
type EventKind = (typeof EVENT_KINDS)[number];

/** A list of comma-separated values. Undefined if the parameter is absent or empty. */
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
    'only events of these sandboxes: comma-separated ids',
  ),
  kind: queryList(
    (word): word is EventKind => (EVENT_KINDS as readonly string[]).includes(word),
    `some of ${EVENT_KINDS.join(', ')}`,
    `only events of these kinds, comma-separated: ${EVENT_KINDS.join(', ')}`,
  ),
  label: labelSelectors.meta({
    type: 'array',
    items: { type: 'string' },
    description:
      'only events of sandboxes and snapshots that had this label, key=value, or key for any value; may be repeated, ' +
      'and all must match',
  }),
  follow: querySwitch(
    '0',
    false,
    '0: the stream starts with the oldest stored event and ends after the newest one, instead of following new events',
  ),
  last_event_id: z
    .string()
    .optional()
    .meta({
      description:
        'continue after this event, as Last-Event-ID does; 0: start with the oldest stored event; default: only ' +
        'new events',
    }),
});

export const event = z
  .object({
    id: word(
      'id of the event, for Last-Event-ID; at the gateway of a fleet, what is before its dot is the id of the event at ' +
        'its host',
    ),
    at: dateTime('time of the event'),
    kind: z.enum(EVENT_KINDS).describe('kind of the event'),
    sandbox: sandboxId
      .optional()
      .describe(
        'the sandbox; for snapshot-taken, the source sandbox; for snapshot-imported, the source sandbox on its ' +
          'own host',
      ),
    host: word(
      'at the gateway of a fleet: the host of the event; for host-unreachable and host-reachable: the one of which no ' +
        'events come, or come again; a daemon alone has none',
    ).optional(),
    name: word(
      'name of the sandbox, or of the snapshot where the kind begins with snapshot; absent if it has none',
    ).optional(),
    labels: labels.optional().describe('labels of the same at that time; absent if it has none'),
    changed: z
      .array(z.string())
      .optional()
      .describe(
        'for updated, snapshot-changed and network-changed: the fields that were changed, such as labels and rules; ' +
          'for secrets-changed: their names',
      ),
    snapshot: snapshotId
      .optional()
      .describe(
        'the snapshot that was taken, imported, uploaded, fetched, changed or deleted, to which an idle sandbox was saved, or to which ' +
          'a sandbox went back',
      ),
    origin: z
      .enum(['boot', 'template', 'snapshot'])
      .optional()
      .describe('for created and forked: what the sandbox was started from'),
    source_snapshot_id: snapshotId.optional().describe('for forked: the source snapshot'),
    source_sandbox_id: sandboxId.optional().describe('for forked without a snapshot: the source sandbox'),
    duration_ms: count(
      'for created, forked, paused, resumed, rolled-back, snapshot-taken, snapshot-stored and snapshot-fetched: ' +
        'duration of the operation',
    ).optional(),
    paused_ms: count(
      'for snapshot-taken: how long the guest was paused; for paused: until all of it was written',
    ).optional(),
    timeout_s: count('for expired: lifetime of the sandbox, seconds').optional(),
    idle_s: count('for idle: idle time, seconds').optional(),
    asleep_ms: count('for resumed: how long the sandbox was paused').optional(),
    bytes: count(
      'for paused and snapshot-fetched: bytes that were written; for snapshot-stored: bytes that were sent',
    ).optional(),
    generation: count('for network-changed: number of the policy that holds now').optional(),
    closed: count('for network-changed: connections that were closed').optional(),
    port: z.int().optional().describe('for port-…: the port of the guest'),
    access: word('for port-opened: private or public').optional(),
    host_ip: word('for port-published and port-unpublished: the address; every address if absent').optional(),
    host_port: z.int().optional().describe('for port-published and port-unpublished: the port of the host'),
    reason: word(
      'for died, hung, idle-kept, pause-failed and host-unreachable: the reason; for paused: request, idle_timeout_s, timeout_s or ' +
        'rollback; for resumed: request, use, or rollback after one that failed; for snapshot-deleted: expires_s, ' +
        'keep_last, or store after a delete on another host, absent for a request',
    ).optional(),
    tenant: word('tenant of the sandbox or snapshot, shown to keys that can see several tenants').optional(),
  })
  .describe('an event');
