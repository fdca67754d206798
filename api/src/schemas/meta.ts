// Health check, profiles, engine, rights of the caller.
import { z } from 'zod';
import { environment } from '../input/environment.ts';
import { querySwitch } from '../input/query.ts';
import { count, dateTime, word } from './answers.ts';
import { unreachableHosts } from './page.ts';
import { policy } from './policy.ts';

export const engineState = z
  .enum(['trying', 'chosen', 'failed'])
  .describe(
    'trying: the daemon tries its engines with guests, and creates wait for the result; failed: no engine works, and creates fail',
  );

export const healthResponse = z
  .object({
    status: z.literal('ok').describe('ok'),
    version: word('version of the daemon').optional(),
    engine: engineState.optional(),
  })
  .describe('the daemon responds');

export const profile = z
  .object({
    digest: word('SHA-256 of the root filesystem'),
    size_bytes: count('size of the root filesystem in bytes'),
    workdir: word('default working directory of commands'),
    env: environment.describe('default environment of commands'),
    packages: z
      .record(z.string(), z.string())
      .describe('versions of the installed packages, by package name'),
  })
  .describe('a root filesystem that sandboxes boot from');

/** A loose object: later daemons add details about the choice of the engine. */
export const engine = z
  .looseObject({
    state: engineState.optional(),
    name: word('name of the engine; empty unless one is chosen'),
    version: word('version of the engine; empty unless one is chosen'),
    reason: word('why the daemon chose this engine, or why there is none'),
    jail: z
      .object({
        enabled: z.boolean().describe('whether each VMM runs in a jail, as a separate user'),
        missing: z.array(z.string()).describe('parts of the jail that this host does not support'),
      })
      .describe('the jail that isolates each VMM from the host')
      .optional(),
  })
  .describe('the engine (VMM) that runs the virtual machines');

export const profilesResponse = z
  .object({
    profiles: z.array(z.string()).describe('names of the profiles'),
    default: word('the profile of a create request without profile and image').optional(),
    details: z.record(z.string(), profile).optional().describe('details of the profiles, by name'),
    engine: engine.optional(),
  })
  .describe('the profiles and the engine');

const tenant = word('the tenant of the key; absent if it has none').optional();

const limitUse = z
  .object({
    limit: word(
      'name of the limit, such as max_sandboxes: a field of the policy, or of the quota of the tenant',
    ),
    of: z
      .enum(['key', 'tenant'])
      .describe(
        'key: the policy of the key has it; tenant: the quota of the tenant, for all its keys together',
      ),
    used: count('what counts towards it now'),
    max: count('the limit'),
  })
  .describe('a limit on a number, and its use');

const caller = {
  key: z
    .object({
      name: word('name of the key'),
      tenant: word('tenant of the key; absent: none').optional(),
      expires_at: dateTime('time after which the key is not valid; absent: none').optional(),
    })
    .optional()
    .describe('the key of the request; absent on a daemon without keys'),
  usage: z
    .array(limitUse)
    .optional()
    .describe('the limits on numbers that the caller has, with their use; absent on a daemon without keys'),
};

export const whoamiResponse = z
  .discriminatedUnion('scoped', [
    z.object({ scoped: z.literal(false).describe('the caller has no restrictions'), ...caller }),
    z.object({
      scoped: z.literal(true).describe('a policy restricts the caller'),
      policy,
      tenant,
      ...caller,
    }),
  ])
  .describe('the rights of the caller');

const finding = z
  .object({
    name: word('name of the check'),
    level: z.enum(['ok', 'warning', 'fault']).describe('fault: it breaks sandboxes or their isolation'),
    seen: word('what was found'),
    advice: word('what to do; absent where all is well').optional(),
  })
  .describe('the result of one check');

export const hostChecksResponse = z
  .object({
    checked_at: dateTime('time of the checks; at the gateway of a fleet, the earliest'),
    version: word('version of the daemon; at the gateway of a fleet, its own'),
    worst: z.enum(['ok', 'warning', 'fault']).describe('the worst level of all findings'),
    groups: z
      .array(
        z.object({
          group: word('area of the host, such as storage'),
          host: word('at the gateway of a fleet: the host of the findings').optional(),
          findings: z.array(finding).describe('the findings of this area'),
        }),
      )
      .describe('the findings by area'),
    unreachable_hosts: unreachableHosts,
  })
  .describe('what `sandboxd doctor --quick` finds on the host');

export const metricsQuery = z.object({
  hosts: querySwitch(
    '0',
    false,
    '0: at the gateway of a fleet, only the metrics of the gateway; default: also those of all hosts, with the label ' +
      'host; a daemon alone ignores it',
  ),
});

/** A loose object: OpenAPI defines the schema of its documents. */
export const openApiDocument = z
  .looseObject({ openapi: word('version of OpenAPI') })
  .describe('the OpenAPI document of this API');
