// Networks and published ports.
import { z } from 'zod';
import { choice, integer, rule, text, withDefault } from '../input/fields.ts';
import { MAX_HOST_NAME_CHARS, MAX_PORT } from '../limits.ts';
import { word } from './answers.ts';

/** Two labels at least, the last one with a letter: so no addresses. `*.` stands for exactly one more label. */
const HOST_PATTERN =
  /^(?:\*\.)?(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)+(?=[A-Za-z0-9-]*[A-Za-z])[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?$/;
const HOST_ERROR =
  'must be a host name of two or more labels, such as example.com or *.example.com, without address, port or range';
const WILDCARD_ERROR = 'must not be a bare wildcard; name the hosts, such as example.com or *.example.com';

/** As it is compared: lower case, no trailing dot. */
export const hostPattern = text('must be a string', HOST_PATTERN, (value) =>
  value === '*' ? WILDCARD_ERROR : HOST_ERROR,
)
  .max(MAX_HOST_NAME_CHARS, { error: `must be at most ${MAX_HOST_NAME_CHARS} characters` })
  .transform((value) => value.toLowerCase().replace(/\.$/, ''))
  .meta({ description: 'a host name, or *. and a host name, which matches exactly one more label' });

const networkFields = z.object(
  {
    enabled: withDefault(
      z.boolean({ error: 'must be true or false' }),
      false,
      'whether there is a network at all',
    ),
    allowlist: withDefault(
      z.array(hostPattern, { error: 'must be an array of host name patterns' }),
      [],
      'the hosts that the guest may reach; nothing else is reachable',
    ),
  },
  { error: 'must be an object' },
);

export const networkRequest = rule(
  rule(
    networkFields,
    'enabled: true needs a non-empty allowlist',
    ({ enabled, allowlist }) => !enabled || allowlist.length > 0,
    { error: 'with enabled true needs a non-empty allowlist; name the hosts that the guest may reach' },
  ),
  'an allowlist needs enabled: true',
  ({ enabled, allowlist }) => enabled || allowlist.length === 0,
  { error: 'has an allowlist but is not enabled; send enabled true as well, or no allowlist' },
);

const ADDRESS_ERROR = 'must be an IPv4 or IPv6 address of the host';

const portMapping = z.object(
  {
    host_ip: z
      .union([z.literal(''), z.ipv4(), z.ipv6()], { error: ADDRESS_ERROR })
      .nullish()
      .transform((value) => value || undefined)
      .meta({ description: 'address of the host to listen on; 0.0.0.0 and :: by default' }),
    host_port: integer(1, MAX_PORT).describe('port of the host'),
    guest_port: integer(1, MAX_PORT).describe('port in the guest'),
    protocol: choice(['tcp'], 'tcp', 'tcp is all there is', 'must be tcp'),
  },
  { error: 'must be an object of host_port and guest_port' },
);

type Mapping = z.output<typeof portMapping>;

export const publish = withDefault(
  rule(
    z.array(portMapping, { error: 'must be an array of port mappings' }),
    'no address and port of the host twice',
    (mappings: readonly Mapping[]) => new Set(mappings.map(toHostEnd)).size === mappings.length,
    { error: 'must not have one port of the host twice' },
  ),
  [],
  'ports of the host that lead to ports in the guest; a sandbox without a network gets one for that, with nothing reachable from inside',
);

function toHostEnd({ host_ip, host_port, protocol }: Mapping): string {
  return `${protocol} ${host_ip ?? ''} ${host_port}`;
}

export const networkResponse = z
  .object({
    enabled: z.boolean().describe('whether the sandbox has a network'),
    allowlist: z.array(z.string()).describe('the hosts that it may reach'),
    gateway: word('address of the host as the guest sees it'),
    guest_ip: word('address of the guest'),
  })
  .describe('the network of the sandbox');

export const publishedPort = z
  .object({
    host_ip: word('address of the host; all when absent').optional(),
    host_port: z.int().min(1).max(MAX_PORT).describe('port of the host'),
    guest_port: z.int().min(1).max(MAX_PORT).describe('port in the guest'),
    protocol: z.literal('tcp').describe('tcp'),
  })
  .describe('a port of the host that leads into the sandbox');
