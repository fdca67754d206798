// What a key may do.
import { isIP } from 'node:net';
import { z } from 'zod';
import { integer, type Parsed, rule } from '../input/fields.ts';
import { parsePortRange } from '../input/port-ranges.ts';
import { MAX_FORKS, MAX_MEMORY_MIB, MAX_SECONDS, MAX_VCPUS, MIN_MEMORY_MIB } from '../limits.ts';
import { hostPattern } from './network.ts';

/** What each lets a key do. `view` and `metrics` are narrow ones, for those who only watch. */
const MEANINGS = {
  create: 'make sandboxes',
  exec: 'run commands and services in them, write their files',
  snapshot: 'save them, export and import what was saved',
  fork: 'make copies of snapshots',
  delete: 'delete sandboxes and snapshots',
  read: 'read all of them, files and logs included; view and metrics are in it',
  images: 'pull, import and delete images; a create that has to pull one needs it, too',
  connect: 'reach their ports through the daemon',
  metrics: 'read the metrics, and nothing else',
  view: 'see lists, states, figures and events, and nothing of what is in a guest: no files, logs, output or environment',
} as const;

export type Operation = keyof typeof MEANINGS;
export const OPERATIONS = Object.keys(MEANINGS) as readonly Operation[];

/** Whether a policy that lists these operations lets its key do that one: who may read all may see the lists. */
export function includesOperation(listed: readonly Operation[], operation: Operation): boolean {
  const isInRead = operation === 'view' || operation === 'metrics';
  return listed.includes(operation) || (isInRead && listed.includes('read'));
}

const PORTS_ERROR = 'must be a port such as 8080, or a range of them such as 8000-8999';
const ADDRESS_ERROR = 'must be an IP address';
const names = { error: 'must be an array of strings' };

/** What is absent is not restricted. An unknown field is refused: it would be a limit that nobody enforces. */
export const policy = z
  .strictObject(
    {
      operations: z
        .array(z.enum(OPERATIONS, { error: `must be one of ${OPERATIONS.join(', ')}` }), names)
        .optional()
        .describe(
          `what the key may do; ${OPERATIONS.map((name) => `${name}: ${MEANINGS[name]}`).join('. ')}`,
        ),
      net_allow_max: z
        .array(hostPattern, names)
        .optional()
        .describe('host name patterns that an allowlist may have at most; empty: no network'),
      allow_profiles: z
        .array(z.string({ error: 'must be a string' }), names)
        .optional()
        .describe('profiles that may be booted'),
      publish_ports: z
        .array(
          rule(
            z.string({ error: PORTS_ERROR }).regex(/^\d{1,5}(-\d{1,5})?$/, { error: PORTS_ERROR }),
            'a port from 1 to 65535, or two of them, the lower first',
            (text) => parsePortRange(text) !== undefined,
            { error: PORTS_ERROR },
          ),
          names,
        )
        .optional()
        .describe(
          'ports of the host that may be published, such as 8080 or 8000-8999; empty: none; absent: those that the daemon allows keys with a policy or a tenant',
        ),
      publish_addresses: z
        .array(
          rule(
            z.string({ error: ADDRESS_ERROR }),
            'an IP address without a zone',
            (text) => isIP(text) !== 0 && !text.includes('%'),
            { error: ADDRESS_ERROR },
          ),
          names,
        )
        .optional()
        .describe(
          'addresses of the host that ports may be published on; 0.0.0.0 and :: are every one of their family, and a port without an address needs both',
        ),
      max_published_ports: integer(0, 2 ** 31 - 1)
        .optional()
        .describe('published ports of this key at once'),
      max_sandboxes: integer(0, 2 ** 31 - 1)
        .optional()
        .describe('sandboxes of this key at once'),
      max_snapshots: integer(0, 2 ** 31 - 1)
        .optional()
        .describe('snapshots of this key at once, those included that its idle sandboxes will be saved as'),
      max_fork: integer(1, MAX_FORKS).optional().describe('forks of one request'),
      max_timeout_s: integer(1, MAX_SECONDS)
        .optional()
        .describe('longest life of a sandbox and of a command, seconds'),
      max_idle_timeout_s: integer(1, MAX_SECONDS)
        .optional()
        .describe('longest time that a sandbox may be idle before it ends, seconds'),
      max_vcpus: integer(1, MAX_VCPUS).optional().describe('virtual CPUs of a sandbox'),
      max_memory_mib: integer(MIN_MEMORY_MIB, MAX_MEMORY_MIB).optional().describe('memory of a sandbox, MiB'),
    },
    {
      error: (issue) =>
        issue.code === 'unrecognized_keys'
          ? `has unknown fields: ${issue.keys.join(', ')}`
          : 'must be an object',
    },
  )
  .describe('what a key may do; what is absent is not restricted');

/** What a key may do, checked. */
export type Policy = Parsed<z.output<typeof policy>>;
