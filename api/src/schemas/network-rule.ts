// Rules of a network: which ports of which hosts, or of which addresses, a guest may reach.
import { isIPv4 } from 'node:net';
import { z } from 'zod';
import { optional, rule, text } from '../input/fields.ts';
import { parsePortRange } from '../input/port-ranges.ts';
import { MAX_HOST_NAME_CHARS, MAX_PORT, MAX_RULE_PATTERNS, MAX_RULE_PORTS } from '../limits.ts';
import { isPathPattern } from '../request-path.ts';
import { word } from './answers.ts';
import { hostPattern } from './host-pattern.ts';

/** The built-in preset: every public address. */
export const INTERNET_PRESET = 'internet';

/** In the order of the fields' meaning: by name within the connection, by address. */
export const RULE_PROTOCOLS = ['tls', 'http', 'tcp', 'udp', 'postgres'] as const;
export type RuleProtocol = (typeof RULE_PROTOCOLS)[number];
const DEFAULT_PORTS: Readonly<Partial<Record<RuleProtocol, readonly number[]>>> = {
  tls: [443],
  http: [80],
  postgres: [5432],
};

/** A rule of the kernel: by port and protocol. */
export type KernelRule = ({ readonly host: string } | { readonly cidr: string }) & {
  readonly protocol: 'tcp' | 'udp';
  readonly ports: readonly (number | string)[];
};

/** A rule that is bound to the name that a connection itself says. */
export type BoundRule = {
  readonly host: string;
  readonly protocol: Exclude<RuleProtocol, KernelRule['protocol']>;
  readonly ports: readonly (number | string)[];
  /** Absent: allow. */
  readonly ech?: 'refuse' | undefined;
  /** These make the gateway read the requests of its connections. */
  readonly tls?: 'inspect' | undefined;
  readonly methods?: readonly string[] | undefined;
  readonly paths?: readonly string[] | undefined;
  readonly websocket?: true | undefined;
  readonly encoded_slash?: true | undefined;
};

export type NetworkRule = KernelRule | BoundRule;

const PRESET_ERROR = 'must be a name of a preset: lower-case letters, digits and dashes';
export const presetName = text(PRESET_ERROR, /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/);

const PORT_ERROR = `must be a port from 1 to ${MAX_PORT}, or a range of ports such as "9000-9010"`;
const port = z.int({ error: PORT_ERROR }).min(1, { error: PORT_ERROR }).max(MAX_PORT, { error: PORT_ERROR });
const portRange = rule(
  z.string({ error: PORT_ERROR }).regex(/^\d{1,5}-\d{1,5}$/, { error: PORT_ERROR }),
  'two ports from 1 to 65535, the lower first',
  (value) => parsePortRange(value) !== undefined,
  { error: PORT_ERROR },
);
const rulePorts = z
  .array(z.union([port, portRange], { error: PORT_ERROR }), {
    error: 'must be an array of ports',
  })
  .min(1, { error: 'must name a port' })
  .max(MAX_RULE_PORTS, { error: `must have at most ${MAX_RULE_PORTS} entries` });

const CIDR_ERROR = 'must be a range of IPv4 addresses such as 203.0.113.0/24, without host bits';
const cidr = rule(
  z.string({ error: CIDR_ERROR }).regex(/^[\d.]{7,15}\/\d{1,2}$/, { error: CIDR_ERROR }),
  'a range of IPv4 addresses without host bits',
  isCidr,
  { error: CIDR_ERROR },
);

function isCidr(value: string): boolean {
  const [, address = '', bits = ''] = /^([\d.]+)\/(\d|[12]\d|3[0-2])$/.exec(value) ?? [];
  if (!isIPv4(address)) return false;
  const number = address.split('.').reduce((sum, octet) => sum * 256 + Number(octet), 0);
  return number % 2 ** (32 - Number(bits)) === 0;
}

const METHOD = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;
/** What a gateway never lets pass. */
const TUNNELS = ['CONNECT', 'TRACE', 'TRACK'];
/** A method in lower case is another one, which no client means. */
const COMMON_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
const PATH = /^\/[!-~]{0,1023}$/;
const flag = z.boolean({ error: 'must be true or false' });
const list = <T extends z.ZodType<string, string>>(what: string, entry: T) =>
  z
    .array(entry, { error: 'must be an array of strings' })
    .min(1, { error: `must name a ${what}; without the field, every ${what} passes` })
    .max(MAX_RULE_PATTERNS, { error: `must have at most ${MAX_RULE_PATTERNS} entries` });
const METHOD_ERROR = 'must be a method, such as GET';
const TUNNEL_ERROR = `must be none of ${TUNNELS.join(', ')}, which are never passed on`;
const method = rule(
  rule(
    text(METHOD_ERROR, METHOD),
    `none of ${TUNNELS.join(', ')}`,
    (value) => !TUNNELS.includes(value.toUpperCase()),
    { error: TUNNEL_ERROR },
  ),
  'in upper case where it is a common one',
  (value) => value === value.toUpperCase() || !COMMON_METHODS.includes(value.toUpperCase()),
  { error: 'must be in upper case, such as GET: methods are case-sensitive' },
);
const PATH_FORM_ERROR = 'must be a path that begins with /, without a query';
const PATH_ERROR =
  'must be as a server reads it: no "//", dot segments, "\\", ";", and no %-codes of what needs none; ' +
  '"*" is a whole segment, and "/**" only at the end';
const path = rule(text(PATH_FORM_ERROR, PATH), 'canonical', isPathPattern, { error: PATH_ERROR });

/** An unknown field is an error: ignoring it could allow more than the client meant. */
const ruleFields = z.strictObject(
  {
    host: optional(hostPattern, 'a host name, or a pattern of an allowlist'),
    cidr: optional(cidr, 'addresses in place of a host; needs tcp or udp, and no private or special range'),
    protocol: optional(
      z.enum(RULE_PROTOCOLS, { error: `must be one of ${RULE_PROTOCOLS.join(', ')}` }),
      'tls (default), http and postgres are bound to the name; tcp and udp to the addresses of the name',
    ),
    ports: optional(rulePorts, 'ports and ranges of them; default: 443 of tls, 80 of http, 5432 of postgres'),
    tls: optional(
      z.enum(['passthrough', 'inspect'], { error: 'must be passthrough or inspect' }),
      'whether the gateway reads within TLS; default: passthrough, without methods, paths and websocket',
    ),
    methods: optional(list('method', method), 'the only methods; GET includes HEAD'),
    paths: optional(list('path', path), 'the only paths: exact, * for one segment, /** for the rest'),
    encoded_slash: optional(flag, 'whether a path may have %2F'),
    websocket: optional(flag, 'whether a connection may become a WebSocket'),
    ech: optional(
      z.enum(['allow', 'refuse'], { error: 'must be allow or refuse' }),
      'whether a name may be encrypted within the handshake; default: allow',
    ),
  },
  {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `has unknown fields: ${issue.keys.join(', ')}`
        : 'must be an object of host or cidr, protocol and ports',
  },
);

type RuleFields = z.output<typeof ruleFields>;

export const networkRule = ruleFields
  .superRefine((fields, context) => {
    const problem = findRuleProblem(fields);
    if (problem !== undefined) context.addIssue({ code: 'custom', ...problem });
  })
  .meta({
    description: 'ports of a host, or of a range of addresses, that the guest may reach',
    'x-rules': [
      'host or cidr, not both; cidr needs protocol tcp or udp',
      'tcp and udp need ports',
      'methods, paths, websocket and tls need protocol tls or http; encoded_slash needs paths; ech needs tls',
      'tls: passthrough excludes methods, paths and websocket',
    ],
  })
  .transform(toRule);

function findRuleProblem(fields: RuleFields): { message: string; path: string[] } | undefined {
  const { host, cidr, protocol = 'tls', ports, tls, methods, paths, encoded_slash, websocket, ech } = fields;
  const isByAddress = protocol === 'tcp' || protocol === 'udp';
  const inner = { methods, paths, websocket };
  const given = Object.entries(inner).find(([, value]) => value !== undefined && value !== false)?.[0];
  if ((host === undefined) === (cidr === undefined))
    return { message: 'must have a host or a cidr', path: [] };
  if (cidr !== undefined && !isByAddress)
    return { message: 'must be tcp or udp where a cidr is given', path: ['protocol'] };
  if (isByAddress && ports === undefined)
    return { message: `must be given for ${protocol}`, path: ['ports'] };
  if (given !== undefined && protocol !== 'tls' && protocol !== 'http')
    return { message: `needs protocol tls or http, not ${protocol}`, path: [given] };
  if (given !== undefined && tls === 'passthrough')
    return { message: 'needs tls: inspect, not passthrough', path: [given] };
  if (tls !== undefined && protocol !== 'tls') return { message: 'needs protocol tls', path: ['tls'] };
  if (ech !== undefined && protocol !== 'tls') return { message: 'needs protocol tls', path: ['ech'] };
  if (encoded_slash === true && paths === undefined)
    return { message: 'needs paths', path: ['encoded_slash'] };
  return undefined;
}

function toRule({ host = '', cidr, ...fields }: RuleFields): NetworkRule {
  const { protocol = 'tls', ports = [...(DEFAULT_PORTS[protocol] ?? [])], methods, paths } = fields;
  if (protocol === 'tcp' || protocol === 'udp')
    return cidr === undefined ? { host, protocol, ports } : { cidr, protocol, ports };
  const isInspected = protocol === 'tls' && fields.tls !== 'passthrough';
  const needsGateway =
    fields.tls === 'inspect' || methods !== undefined || paths !== undefined || fields.websocket === true;
  return {
    ...{ host, protocol, ports },
    ...(fields.ech === 'refuse' && { ech: fields.ech }),
    ...(isInspected && needsGateway && { tls: 'inspect' as const }),
    ...(methods !== undefined && { methods: [...new Set(methods)] }),
    ...(paths !== undefined && { paths: [...new Set(paths)] }),
    ...(fields.websocket === true && { websocket: fields.websocket }),
    ...(fields.encoded_slash === true && { encoded_slash: fields.encoded_slash }),
  };
}

export const answeredRule = z
  .object({
    host: word('host name or pattern').optional(),
    cidr: word('range of addresses').optional(),
    protocol: z.enum(RULE_PROTOCOLS).describe('protocol'),
    ports: z.array(z.union([z.int(), z.string()])).describe('ports and ranges of them'),
    ech: z.enum(['refuse']).describe('whether a name may be encrypted; absent: it may').optional(),
    tls: z
      .enum(['inspect'])
      .describe('inspect: the gateway reads within TLS; absent: it does not')
      .optional(),
    methods: z.array(z.string()).describe('the only methods; absent: all').optional(),
    paths: z.array(z.string()).describe('the only paths; absent: all').optional(),
    websocket: z.literal(true).describe('a connection may become a WebSocket').optional(),
    encoded_slash: z.literal(true).describe('a path may have %2F').optional(),
  })
  .describe('ports of a host, or of a range of addresses');

const HOST_ERROR = `must be a host name or an IPv4 address, of at most ${MAX_HOST_NAME_CHARS} characters`;
export const checkedHost = text(HOST_ERROR)
  .max(MAX_HOST_NAME_CHARS, { error: HOST_ERROR })
  .min(1, { error: HOST_ERROR })
  .transform((value) => value.toLowerCase().replace(/\.$/, ''))
  .meta({ description: 'host name or IPv4 address' });

export const checkedMethod = text(METHOD_ERROR, METHOD);
export const checkedPath = text('must be a path that begins with /, of visible ASCII characters', PATH);
