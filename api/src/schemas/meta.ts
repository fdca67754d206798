// Liveness, profiles, and what the caller may do.
import { z } from 'zod';
import { environment } from '../input/environment.ts';
import { count, word } from './answers.ts';
import { policy } from './policy.ts';

export const healthResponse = z
  .object({ status: z.literal('ok').describe('ok'), version: word('version of the daemon').optional() })
  .describe('the daemon answers');

export const profile = z
  .object({
    digest: word('SHA-256 of its root filesystem'),
    size_bytes: count('size of its root filesystem'),
    workdir: word('directory that commands start in'),
    env: environment.describe('environment of commands'),
    packages: z.record(z.string(), z.string()).describe('version by name of what is installed'),
  })
  .describe('a root filesystem to boot from');

/** Open: how an engine was chosen is told in ever more detail. */
export const engine = z
  .looseObject({
    name: word('name of the engine'),
    version: word('its version'),
    reason: word('why this one'),
    jail: z
      .object({
        enabled: z.boolean().describe('whether each VMM runs as a user of its own, shut in'),
        missing: z.array(z.string()).describe('what this host does not have of the jail'),
      })
      .describe('what keeps a guest that broke its VMM from the host')
      .optional(),
  })
  .describe('what runs the virtual machines');

export const profilesResponse = z
  .object({
    profiles: z.array(z.string()).describe('names'),
    default: word('the one that a create without profile and image boots').optional(),
    details: z.record(z.string(), profile).optional().describe('more about each, by name'),
    engine: engine.optional(),
  })
  .describe('what there is to boot from, and on what');

export const whoamiResponse = z
  .discriminatedUnion('scoped', [
    z.object({ scoped: z.literal(false).describe('the caller may do everything') }),
    z.object({ scoped: z.literal(true).describe('a policy holds for the caller'), policy }),
  ])
  .describe('what the caller may do');

/** Open: OpenAPI has a schema of its own. */
export const openApiDocument = z
  .looseObject({ openapi: word('version of OpenAPI') })
  .describe('this interface as an OpenAPI document');
