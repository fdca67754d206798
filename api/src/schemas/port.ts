// Ports of a sandbox that are open for URLs.
import { z } from 'zod';
import { choice, integer } from '../input/fields.ts';
import { MAX_PORT } from '../limits.ts';
import { dateTime, warnings, word } from './answers.ts';
import { sandboxId } from './id.ts';
import { hostIp, publishedPort } from './network.ts';

export const PORT_ACCESS = ['private', 'public'] as const;
export type PortAccess = (typeof PORT_ACCESS)[number];

/** What a server gets as `Host` through the ingress. */
export const HOST_HEADERS = ['sent', 'localhost'] as const;
export type HostHeader = (typeof HOST_HEADERS)[number];

const PORT_ERROR = `{name} must be a number from 1 to ${MAX_PORT}, got {value}`;

function pathPort(title: string, description: string) {
  return z
    .string({ error: PORT_ERROR })
    .regex(/^([1-9]\d{0,3}|[1-5]\d{4}|6[0-4]\d{3}|65[0-4]\d\d|655[0-2]\d|6553[0-5])$/, { error: PORT_ERROR })
    .transform(Number)
    .meta({ title, type: 'integer', minimum: 1, maximum: MAX_PORT, description });
}

export const portPath = z.object({ id: sandboxId, port: pathPort('port', 'TCP port in the guest') });

export const publishedPath = portPath.extend({ host_port: pathPort('host port', 'port on the host') });

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
      host: choice(
        HOST_HEADERS,
        'sent',
        'the header Host that the server gets: sent: as the client sent it; localhost: localhost and the port, for ' +
          'development servers that refuse other names',
      ),
    },
    { error: 'must be a JSON object' },
  )
  .describe('a port to open');

export const publishPortRequest = z
  .object(
    { host_ip: hostIp, host_port: integer(1, MAX_PORT).describe('port on the host') },
    { error: 'must be a JSON object' },
  )
  .describe('a host port to publish');

export const publishedPortAnswer = publishedPort.extend({ warnings }).describe('a published port');

const fields = {
  port: z.int().min(1).max(MAX_PORT).describe('TCP port in the guest'),
  access,
  host: z.enum(HOST_HEADERS).optional().describe('the header Host that the server gets; absent: sent'),
  opened_at: dateTime('when it was opened, or its access was changed'),
  url: word('its URL; absent if the daemon has no ingress').optional(),
};

export const openPort = z.object({ ...fields, warnings }).describe('a port that is open for URLs');

export const openPortList = z
  .object({
    ports: z.array(z.object(fields).describe('an open port')).describe('by number'),
    published: z.array(publishedPort).optional().describe('published ports; absent if there are none'),
  })
  .describe('open and published ports of a sandbox');
