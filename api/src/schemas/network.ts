// Networks and published ports.
import { z } from 'zod';
import { choice, integer, optional, rule, withDefault } from '../input/fields.ts';
import { findAddressProblem } from '../input/host-address.ts';
import { findRepeats } from '../input/host-sockets.ts';
import {
  MAX_ALLOWED_HOSTS,
  MAX_ALLOWLIST_CHARS,
  MAX_NETWORK_PRESETS,
  MAX_NETWORK_RULES,
  MAX_PORT,
  MAX_PUBLISHED_PORTS,
} from '../limits.ts';
import { warnings, word } from './answers.ts';
import { EGRESS_LOG_MODES } from './egress.ts';
import { hostPattern } from './host-pattern.ts';
import {
  answeredRule,
  checkedHost,
  checkedMethod,
  checkedPath,
  networkRule,
  presetName,
} from './network-rule.ts';

const allowlist = rule(
  z
    .array(hostPattern, { error: 'must be an array of host name patterns' })
    .max(MAX_ALLOWED_HOSTS, { error: `must have at most ${MAX_ALLOWED_HOSTS} entries` }),
  `at most ${MAX_ALLOWLIST_CHARS} characters in all entries together`,
  (names) => names.reduce((sum, name) => sum + name.length, 0) <= MAX_ALLOWLIST_CHARS,
  { error: `must have at most ${MAX_ALLOWLIST_CHARS} characters in all entries together` },
);

const networkRules = z
  .array(networkRule, { error: 'must be an array of rules' })
  .max(MAX_NETWORK_RULES, { error: `must have at most ${MAX_NETWORK_RULES} rules` });
const presetNames = z
  .array(presetName, { error: 'must be an array of names of presets' })
  .max(MAX_NETWORK_PRESETS, { error: `must have at most ${MAX_NETWORK_PRESETS} entries` });

const logMode = z.enum(EGRESS_LOG_MODES, { error: `must be one of ${EGRESS_LOG_MODES.join(', ')}` });

const networkFields = z.object(
  {
    log: optional(logMode, 'records that the egress log keeps; default: all'),
    rules: optional(networkRules, 'ports of hosts that the guest may reach as well'),
    presets: optional(presetNames, 'names of lists of rules that the operator keeps'),
    enabled: withDefault(
      z.boolean({ error: 'must be true or false' }),
      false,
      'whether the sandbox has a network',
    ),
    allowlist: withDefault(allowlist, [], 'the only hosts that the guest may reach'),
  },
  { error: 'must be an object' },
);

type Fields = z.output<typeof networkFields>;

/** Whether it names anything that the guest may reach. */
function hasTargets({ allowlist, rules = [], presets = [] }: Omit<Fields, 'enabled'>): boolean {
  return allowlist.length + rules.length + presets.length > 0;
}

export const networkRequest = rule(
  rule(
    networkFields,
    'enabled: true needs a non-empty allowlist, rules or presets',
    (fields) => !fields.enabled || hasTargets(fields),
    {
      error: 'must be a non-empty allowlist where the network is enabled, or rules or presets',
      path: ['allowlist'],
    },
  ),
  'an allowlist, rules and presets need enabled: true',
  (fields) => fields.enabled || !hasTargets(fields),
  { error: 'must be true where an allowlist, rules or presets are given', path: ['enabled'] },
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

export const networkPatch = z
  .object(
    {
      allowlist: optional(allowlist, 'replaces the allowlist'),
      rules: optional(networkRules, 'replaces all rules'),
      presets: optional(presetNames, 'replaces the presets, and takes the rules that they have now'),
      log: optional(logMode, 'records that the egress log keeps'),
      if_generation: ifGeneration(),
    },
    { error: 'must be a JSON object' },
  )
  .describe('a change of a network; absent fields stay as they are');

export const networkReplacement = z
  .object(
    {
      allowlist: withDefault(allowlist, [], 'the hosts that the guest may reach'),
      rules: withDefault(networkRules, [], 'ports of hosts that the guest may reach as well'),
      presets: withDefault(presetNames, [], 'names of lists of rules that the operator keeps'),
      log: withDefault(logMode, 'all', 'records that the egress log keeps'),
      if_generation: ifGeneration(),
    },
    { error: 'must be a JSON object' },
  )
  .describe('everything that the guest may reach');

function ifGeneration() {
  return optional(
    integer(1, Number.MAX_SAFE_INTEGER),
    'the generation that the request changes; if another one holds, nothing is changed: 409',
  );
}

const preset = {
  name: word('name'),
  rules: z.array(answeredRule).describe('its rules'),
};

const policyFields = {
  generation: z.int().min(1).describe('number of the policy: 1 at the create, one more with each change'),
  allowlist: z.array(z.string()).describe('hosts that the guest may reach on all ports'),
  rules: z.array(answeredRule).describe('ports of hosts that the guest may reach as well'),
  presets: z
    .array(z.object(preset).describe('a preset'))
    .describe('presets, with the rules that each had when it was chosen'),
  log: z.enum(EGRESS_LOG_MODES).describe('records that the egress log keeps'),
  gateway: word('address of the host on the network of the guest'),
  guest_ip: word('address of the guest'),
  ca: z
    .object({
      fingerprint: word('SHA-256 of the certificate, as openssl x509 -fingerprint -sha256 prints it'),
      certificate: word('the certificate in PEM; its key never leaves the host'),
    })
    .describe(
      'certificate authority that signs its inspected TLS connections, the same for its snapshots and forks; absent ' +
        'until a policy has connections inspected',
    )
    .optional(),
};

export const networkPolicy = z.object(policyFields).describe('what the guest may reach');

export const changedNetworkPolicy = z
  .object({
    ...policyFields,
    closed: z
      .int()
      .min(0)
      .describe('connections that were closed, as the policy does not allow them any more'),
    warnings,
  })
  .describe('what the guest may reach now');

export const presetList = z
  .object({
    presets: z
      .array(
        z
          .object({ ...preset, description: word('what it is for').optional() })
          .describe('a preset that the key may use'),
      )
      .describe('by name'),
  })
  .describe('presets of the operator');

export const networkCheck = z
  .object(
    {
      host: checkedHost,
      port: integer(1, MAX_PORT).describe('port of the host'),
      protocol: choice(['tcp', 'udp'], 'tcp', 'protocol of the connection'),
      method: optional(checkedMethod, 'method of a request within it; default where a path is given: GET'),
      path: optional(checkedPath, 'path of a request within it; default where a method is given: /'),
    },
    { error: 'must be a JSON object' },
  )
  .describe('a connection that the guest might open');

export const networkVerdict = z
  .object({
    verdict: z.enum(['allowed', 'denied']).describe('whether the policy lets it pass'),
    reason: word('why'),
    generation: z.int().min(1).describe('number of the policy'),
    rule: answeredRule.describe('the rule that allows it').optional(),
    allowlist: word('the entry of the allowlist that allows it').optional(),
    preset: word('the preset that allows it').optional(),
    warnings,
  })
  .describe('a verdict');

export const networkResponse = z
  .object({
    enabled: z.boolean().describe('whether the sandbox has a network'),
    allowlist: z.array(z.string()).describe('the hosts that the sandbox may reach'),
    rules: z.array(answeredRule).describe('its rules; absent if it has none').optional(),
    presets: z.array(word('name')).describe('its presets; absent if it has none').optional(),
    log: z.enum(EGRESS_LOG_MODES).describe('records that the egress log keeps; absent: all').optional(),
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
