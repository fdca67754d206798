// Ports of a sandbox that are open for URLs.
import { z } from 'zod';
import { choice, integer } from '../input/fields.ts';
import { MAX_PORT } from '../limits.ts';
import { dateTime, warnings, word } from './answers.ts';
import { sandboxId } from './id.ts';

export const PORT_ACCESS = ['private', 'public'] as const;
export type PortAccess = (typeof PORT_ACCESS)[number];

const PORT_ERROR = `{name} must be a number from 1 to ${MAX_PORT}, got {value}`;

export const portPath = z.object({
  id: sandboxId,
  port: z
    .string({ error: PORT_ERROR })
    .regex(/^([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])$/, { error: PORT_ERROR })
    .transform(Number)
    .meta({
      title: 'port',
      type: 'integer',
      minimum: 1,
      maximum: MAX_PORT,
      description: 'TCP port in the guest',
    }),
});

const access = z
  .enum(PORT_ACCESS)
  .describe(
    'private: needs a key with the operation connect, or a link; public: everyone may connect by its URL',
  );

export const openPortRequest = z
  .object(
    {
      port: integer(1, MAX_PORT).describe('TCP port in the guest'),
      access: choice(PORT_ACCESS, 'private', 'who may connect by the URL of the port'),
    },
    { error: 'must be a JSON object' },
  )
  .describe('a port to open');

const fields = {
  port: z.int().min(1).max(MAX_PORT).describe('TCP port in the guest'),
  access,
  opened_at: dateTime('when it was opened, or its access was changed'),
  url: word('its URL; absent if the daemon has no ingress').optional(),
};

export const openPort = z.object({ ...fields, warnings }).describe('a port that is open for URLs');

export const openPortList = z
  .object({ ports: z.array(z.object(fields).describe('an open port')).describe('by number') })
  .describe('open ports of a sandbox');
