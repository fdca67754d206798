// The policy of a key.
import { isIP } from 'node:net';
import { z } from 'zod';
import { integer, type Parsed, rule } from '../input/fields.ts';
import { parsePortRange } from '../input/port-ranges.ts';
import { MAX_FORKS, MAX_MEMORY_MIB, MAX_SECONDS, MAX_VCPUS, MIN_MEMORY_MIB } from '../limits.ts';
import { hostPattern } from './host-pattern.ts';
import { presetName } from './network-rule.ts';
import { secretName } from './secret.ts';

/** The right that each operation gives. `view` and `metrics` are narrow rights for monitoring. */
const MEANINGS = {
  create: 'create sandboxes',
  exec: 'run commands and services in sandboxes, write their files',
  snapshot: 'take, export and import snapshots',
  fork: 'fork snapshots',
  delete: 'delete sandboxes and snapshots',
  read: 'read everything, including files and logs; includes view and metrics',
  images: 'pull, import and delete images; also needed to create a sandbox whose image must be pulled',
  connect: 'connect to ports of sandboxes through the daemon',
  network: 'change what existing sandboxes may reach, and which secrets they use',
  secrets: 'store, list and delete secrets',
  metrics: 'read the metrics and nothing else',
  view: 'read lists, states, resource usage and events, but no data of a guest: no files, logs, output or environment',
} as const;

export type Operation = keyof typeof MEANINGS;
export const OPERATIONS = Object.keys(MEANINGS) as readonly Operation[];

/** Whether a policy with these operations permits `operation`. `read` includes `view` and `metrics`. */
export function includesOperation(listed: readonly Operation[], operation: Operation): boolean {
  const isInRead = operation === 'view' || operation === 'metrics';
  return listed.includes(operation) || (isInRead && listed.includes('read'));
}

const PORTS_ERROR = 'must be a port such as 8080, or a range of them such as 8000-8999';
const ADDRESS_ERROR = 'must be an IP address';
const names = { error: 'must be an array of strings' };

/** An absent field means no restriction. An unknown field is an error, because no code would enforce it. */
export const policy = z
  .strictObject(
    {
      operations: z
        .array(z.enum(OPERATIONS, { error: `must be one of ${OPERATIONS.join(', ')}` }), names)
        .optional()
        .describe(
          `permitted operations; ${OPERATIONS.map((name) => `${name}: ${MEANINGS[name]}`).join('. ')}`,
        ),
      net_allow_max: z
        .array(hostPattern, names)
        .optional()
        .describe(
          'host name patterns that an allowlist and rules may contain, and no ranges of addresses; empty: no network',
        ),
      net_presets: z
        .array(presetName, names)
        .optional()
        .describe(
          'presets that the key may use, whatever net_allow_max has; absent: those that net_allow_max allows',
        ),
      net_require_inspect: z
        .boolean({ error: 'must be true or false' })
        .optional()
        .describe(
          'whether networks may have only rules whose requests the gateway reads: with tls: inspect, methods, paths ' +
            'or websocket',
        ),
      allow_secrets: z
        .array(secretName, names)
        .optional()
        .describe(
          'stored secrets that sandboxes of the key may use; empty: none; values of their own are not among them',
        ),
      allow_profiles: z
        .array(z.string({ error: 'must be a string' }), names)
        .optional()
        .describe('profiles that the key may boot'),
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
          'host ports that the key may publish, such as 8080 or 8000-8999; empty: none; absent: the ports that ' +
            'the daemon permits for keys with a policy or tenant',
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
          'host addresses on which the key may publish ports; 0.0.0.0 and :: mean every address of their ' +
            'family, and a port without an address needs both',
        ),
      max_published_ports: integer(0, 2 ** 31 - 1)
        .optional()
        .describe('maximum number of published ports of this key'),
      max_sandboxes: integer(0, 2 ** 31 - 1)
        .optional()
        .describe('maximum number of sandboxes of this key'),
      max_snapshots: integer(0, 2 ** 31 - 1)
        .optional()
        .describe('maximum number of snapshots of this key, including those that an idle timeout will take'),
      max_paused: integer(0, 2 ** 31 - 1)
        .optional()
        .describe('maximum number of paused sandboxes of this key; they do not count in max_sandboxes'),
      max_fork: integer(1, MAX_FORKS).optional().describe('maximum number of forks in one request'),
      max_timeout_s: integer(1, MAX_SECONDS)
        .optional()
        .describe('maximum lifetime of a sandbox and of a command, seconds'),
      max_idle_timeout_s: integer(1, MAX_SECONDS)
        .optional()
        .describe('maximum idle timeout of a sandbox, seconds'),
      max_vcpus: integer(1, MAX_VCPUS).optional().describe('maximum number of virtual CPUs of a sandbox'),
      max_memory_mib: integer(MIN_MEMORY_MIB, MAX_MEMORY_MIB)
        .optional()
        .describe('maximum memory of a sandbox, MiB'),
    },
    {
      error: (issue) =>
        issue.code === 'unrecognized_keys'
          ? `has unknown fields: ${issue.keys.join(', ')}`
          : 'must be an object',
    },
  )
  .describe('the rights of a key; an absent field means no restriction');

/** A validated policy. */
export type Policy = Parsed<z.output<typeof policy>>;
