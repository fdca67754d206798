// What a request says of its network: the names that a guest may reach, and ports of the host that lead to it.
import { isIP } from 'node:net';
import { findRepeats } from '@sandboxd/api';
import { z } from 'zod';
import { integer, optional } from './read-fields.ts';

const MAX_PORT = 65_535;
const MAX_NAME_CHARS = 253;
const LABEL = /^[a-z\d](?:[a-z\d-]{0,61}[a-z\d])?$/;

const patternError = 'must be a host name of two or more labels, or *. and one, without address or port';

const patternSchema = z
  .string({ error: patternError })
  .refine((pattern) => pattern !== '*', {
    error: 'must not be a bare wildcard; name the hosts that the sandbox may reach',
    abort: true,
  })
  .refine(isPattern, { error: patternError });

export const networkSchema = z
  .object(
    {
      enabled: optional(z.boolean({ error: 'must be true or false' })),
      allowlist: optional(z.array(patternSchema, { error: 'must be an array of host name patterns' })),
    },
    { error: 'must be an object' },
  )
  .superRefine(({ enabled = false, allowlist = [] }, context) => {
    if (enabled && allowlist.length === 0) {
      const message = 'must be a non-empty allowlist where the network is enabled';
      context.addIssue({ code: 'custom', path: ['allowlist'], message });
    } else if (!enabled && allowlist.length > 0) {
      const message = 'must be true where an allowlist is given';
      context.addIssue({ code: 'custom', path: ['enabled'], message });
    }
  });

const portError = { error: 'must be an object of host_port and guest_port' };
const ipError = 'must be an IP address';

const portSchema = z.object(
  {
    host_ip: optional(
      z.string({ error: ipError }).refine((address) => isIP(address) !== 0 && !address.includes('%'), {
        error: ipError,
      }),
      '',
    ),
    host_port: integer(1, MAX_PORT),
    guest_port: integer(1, MAX_PORT),
    protocol: optional(z.literal('tcp', { error: 'must be tcp' }), ''),
  },
  portError,
);

export const publishSchema = z
  .array(portSchema, { error: 'must be an array of port mappings' })
  .superRefine((ports, context) => {
    for (const at of findRepeats(ports)) {
      const message = `must not repeat host port ${ports[at]?.host_port} of another entry`;
      context.addIssue({ code: 'custom', path: [at], message });
    }
  });

function isPattern(pattern: string): boolean {
  const name = pattern.toLowerCase().replace(/^\*\./, '').replace(/\.$/, '');
  const labels = name.split('.');
  return (
    name.length <= MAX_NAME_CHARS &&
    labels.length >= 2 &&
    labels.every((label) => LABEL.test(label)) &&
    // No top-level domain is a number, but every IPv4 address ends in one.
    !/^\d+$/.test(labels.at(-1) ?? '')
  );
}
