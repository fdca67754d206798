// Networks and published ports.
import { z } from 'zod';
import { choice, integer, rule, text, withDefault } from '../input/fields.ts';
import { findAddressProblem } from '../input/host-address.ts';
import { findRepeats } from '../input/host-sockets.ts';
import {
  MAX_ALLOWED_HOSTS,
  MAX_ALLOWLIST_CHARS,
  MAX_HOST_NAME_CHARS,
  MAX_PORT,
  MAX_PUBLISHED_PORTS,
} from '../limits.ts';
import { word } from './answers.ts';

/**
 * At least two labels, the last one with a letter, which excludes IP addresses. `*.` matches exactly one label.
 * Underscores are allowed: they are not valid in host names, but such names exist in DNS.
 */
const HOST_PATTERN =
  /^(?:\*\.)?(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)+(?=[A-Za-z0-9-]*[A-Za-z])[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?$/;
const HOST_ERROR =
  'must be a host name of two or more labels, such as example.com or *.example.com, without address, port or range';
const WILDCARD_ERROR = 'must not be a bare wildcard; name the hosts, such as example.com or *.example.com';

/** Normalized for comparison: lower case, no trailing dot. */
export const hostPattern = text('must be a host name', HOST_PATTERN, explainPattern)
  .max(MAX_HOST_NAME_CHARS, { error: `must be a host name of at most ${MAX_HOST_NAME_CHARS} characters` })
  .transform((value) => value.toLowerCase().replace(/\.$/, ''))
  .meta({ description: 'a host name, or a host name after *., which matches exactly one more label' });

function explainPattern(value: string): string {
  if (value === '*') return WILDCARD_ERROR;
  const ascii = toAscii(value);
  return ascii === undefined ? HOST_ERROR : `must be a host name as DNS has it: write ${ascii}`;
}

/** The ASCII (punycode) form of an internationalized name; undefined if the result is not a host name. */
function toAscii(pattern: string): string | undefined {
  const [, wildcard = '', name = ''] = /^(\*\.)?(.*)$/s.exec(pattern) ?? [];
  if (/^[\0-\x7f]*$/.test(name) || !URL.canParse(`http://${name}/`)) return undefined;
  const { hostname, href } = new URL(`http://${name}/`);
  const ascii = wildcard + hostname;
  return href === `http://${hostname}/` && HOST_PATTERN.test(ascii) ? ascii : undefined;
}

const allowlist = rule(
  z
    .array(hostPattern, { error: 'must be an array of host name patterns' })
    .max(MAX_ALLOWED_HOSTS, { error: `must have at most ${MAX_ALLOWED_HOSTS} entries` }),
  `at most ${MAX_ALLOWLIST_CHARS} characters in all entries together`,
  (names) => names.reduce((sum, name) => sum + name.length, 0) <= MAX_ALLOWLIST_CHARS,
  { error: `must have at most ${MAX_ALLOWLIST_CHARS} characters in all entries together` },
);

const networkFields = z.object(
  {
    enabled: withDefault(
      z.boolean({ error: 'must be true or false' }),
      false,
      'whether the sandbox has a network',
    ),
    allowlist: withDefault(allowlist, [], 'the only hosts that the guest may reach'),
  },
  { error: 'must be an object' },
);

export const networkRequest = rule(
  rule(
    networkFields,
    'enabled: true needs a non-empty allowlist',
    ({ enabled, allowlist }) => !enabled || allowlist.length > 0,
    { error: 'must be a non-empty allowlist where the network is enabled', path: ['allowlist'] },
  ),
  'an allowlist needs enabled: true',
  ({ enabled, allowlist }) => enabled || allowlist.length === 0,
  { error: 'must be true where an allowlist is given', path: ['enabled'] },
);

const ADDRESS_ERROR = 'must be an IP address';

export const hostIp = z
  .string({ error: ADDRESS_ERROR })
  .superRefine((value, context) => {
    const message = value === '' ? undefined : findAddressProblem(value);
    if (message !== undefined) context.addIssue({ code: 'custom', message });
  })
  .meta({
    'x-rules': [
      'no multicast, broadcast, link-local or reserved address, and an IPv4 address in no spelling of IPv6',
    ],
    anyOf: [
      { type: 'string', const: '' },
      { type: 'string', format: 'ipv4' },
      { type: 'string', format: 'ipv6' },
    ],
  })
  .nullish()
  .transform((value) => value || undefined)
  .meta({ description: 'host address to listen on; 0.0.0.0 and :: by default' });

export const portMapping = z.object(
  {
    host_ip: hostIp,
    host_port: integer(1, MAX_PORT).describe('port on the host'),
    guest_port: integer(1, MAX_PORT).describe('port in the guest'),
    protocol: choice(['tcp'], 'tcp', 'only tcp is supported', 'must be tcp'),
  },
  { error: 'must be an object of host_port and guest_port' },
);

export const publish = withDefault(
  z
    .array(portMapping, { error: 'must be an array of port mappings' })
    .max(MAX_PUBLISHED_PORTS, { error: `must have at most ${MAX_PUBLISHED_PORTS} entries` })
    .superRefine((ports, context) => {
      for (const at of findRepeats(ports)) {
        const message = `must not repeat host port ${ports[at]?.host_port} of another entry`;
        context.addIssue({ code: 'custom', path: [at], message });
      }
    })
    .meta({
      'x-rules': ['a host port may occur only once for each address; 0.0.0.0 and :: mean every address'],
    }),
  [],
  'host ports to forward to guest ports; a sandbox without a network gets one for this purpose, with no egress',
);

export const networkResponse = z
  .object({
    enabled: z.boolean().describe('whether the sandbox has a network'),
    allowlist: z.array(z.string()).describe('the hosts that the sandbox may reach'),
    gateway: word('address of the host on the network of the guest'),
    guest_ip: word('address of the guest'),
  })
  .describe('the network of the sandbox');

export const publishedPort = z
  .object({
    host_ip: word('host address; every address if absent').optional(),
    host_port: z.int().min(1).max(MAX_PORT).describe('port on the host'),
    guest_port: z.int().min(1).max(MAX_PORT).describe('port in the guest'),
    protocol: z.literal('tcp').describe('tcp'),
  })
  .describe('a host port that is forwarded to the sandbox');
