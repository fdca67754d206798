// Checks a request against a policy, after defaults and inherited options are filled in.
import { BlockList, isIP } from 'node:net';
import { INTERNET_PRESET, type NetworkRule, type Policy, parsePortRange } from '@sandboxd/api';
import { coversPattern } from '../lib/host-patterns.ts';
import { isRead } from '../lib/network-rules.ts';

/** Maximum hosts of an allowlist in an error message. */
const MAX_SHOWN_HOSTS = 5;

/** Sandboxes to create, all with the same options. */
export type RequestedResources = {
  readonly count: number;
  /** Whether they are forks of a snapshot. */
  readonly areForks: boolean;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  /** 0: no timeout. */
  readonly timeoutS: number;
  /** 0: no idle timeout. */
  readonly idleTimeoutS: number;
  /** Whether they are saved after the idle timeout. */
  readonly savesItself: boolean;
  readonly rootfs: { readonly kind: 'profile' | 'image'; readonly name: string };
  /** Absent: no network. */
  readonly allowlist?: readonly string[];
  /** The rest of the network. */
  readonly rules?: RequestedNetwork['rules'];
  readonly presets?: RequestedNetwork['presets'];
  /** Host ports; absent: none. */
  readonly publish?: readonly Published[];
  /** Secrets that their guests can use; absent: none. */
  readonly secrets?: readonly RequestedSecret[];
  /** A service of the request or of the image is started in them. */
  readonly startsService: boolean;
};

/** `use`: a stored one. */
export type RequestedSecret = {
  readonly name: string;
  readonly hosts: readonly string[];
  readonly use?: string;
};

/** What a guest may reach. */
export type RequestedNetwork = {
  readonly allowlist: readonly string[];
  readonly rules?: readonly NetworkRule[] | undefined;
  readonly presets?: readonly { readonly name: string; readonly rules: readonly NetworkRule[] }[] | undefined;
};

/** Returns one phrase for each exceeded limit. */
export function findExceeded(policy: Policy, requested: RequestedResources): string[] {
  const { max_vcpus, max_memory_mib, max_timeout_s, max_idle_timeout_s, max_fork, allow_profiles } = policy;
  return [
    ...checkMax('vcpus', requested.vcpus, 'max_vcpus', max_vcpus),
    ...checkMax('memory_mib', requested.memoryMib, 'max_memory_mib', max_memory_mib),
    ...checkTime('timeout_s', requested.timeoutS, 'max_timeout_s', max_timeout_s),
    ...checkTime('idle_timeout_s', requested.idleTimeoutS, 'max_idle_timeout_s', max_idle_timeout_s),
    ...(requested.areForks ? checkMax('count', requested.count, 'max_fork', max_fork) : []),
    ...checkRootfs(requested.rootfs, allow_profiles),
    ...checkNetwork(requested, policy),
    ...checkPublished(requested.publish ?? [], policy),
    ...checkSecrets(requested.secrets ?? [], policy),
  ];
}

/** The same for secrets alone. */
export function checkSecrets(
  secrets: readonly RequestedSecret[],
  { net_allow_max: max, allow_secrets: allowed }: Policy,
): string[] {
  const isOutside = isBeyond(max);
  // Not the hosts: a value may be in the wrong field.
  const wide = secrets.filter(({ hosts }) => hosts.some(isOutside)).map(({ name }) => name);
  const used = new Set(secrets.flatMap(({ use }) => use ?? []));
  const unnamed = [...used].filter((name) => allowed?.includes(name) === false);
  return [
    ...toPhrase('a host of secret', wide, `net_allow_max ${max?.join(', ')}`),
    ...(unnamed.length === 0
      ? []
      : [`secret ${listFirst(unnamed)} is not among allow_secrets ${allowed?.join(', ') || '(none)'}`]),
  ];
}

/**
 * The same for a change of a sandbox. `lifetimeS` counts from its creation, or a limit could be exceeded by repeated
 * changes.
 */
export function findExceededBy(
  { max_timeout_s, max_idle_timeout_s }: Policy,
  {
    lifetimeS,
    idleTimeoutS,
  }: { readonly lifetimeS?: number | undefined; readonly idleTimeoutS?: number | undefined },
): string[] {
  return [
    ...(lifetimeS === undefined
      ? []
      : checkTime('timeout_s from the creation on', lifetimeS, 'max_timeout_s', max_timeout_s)),
    ...(idleTimeoutS === undefined
      ? []
      : checkTime('idle_timeout_s', idleTimeoutS, 'max_idle_timeout_s', max_idle_timeout_s)),
  ];
}

/** The same for ports that a sandbox with a network gets later. */
export function findExceededByPorts(policy: Policy, publish: readonly Published[]): string[] {
  return [...checkNetwork({ allowlist: [] }, policy), ...checkPublished(publish, policy)];
}

/** Limits a command's timeout to that of the policy; a longer one is not refused. */
export function clampTimeout(timeoutS: number, { max_timeout_s: max }: Policy): number {
  if (max === undefined) return timeoutS;
  return timeoutS <= 0 ? max : Math.min(timeoutS, max);
}

/** Returns a phrase for an error message if the value exceeds the limit. */
export function checkMax(what: string, value: number, limit: string, max: number | undefined): string[] {
  return max !== undefined && value > max ? [`${what} ${value} is over ${limit} ${max}`] : [];
}

function checkTime(what: string, seconds: number, limit: string, max: number | undefined): string[] {
  if (max === undefined || seconds > 0) return checkMax(what, seconds, limit, max);
  return [`${what} 0, which means no end, is over ${limit} ${max}`];
}

/** Images are never among allow_profiles. */
function checkRootfs(
  { kind, name }: RequestedResources['rootfs'],
  allowed: readonly string[] | undefined,
): string[] {
  if (allowed === undefined || (kind === 'profile' && allowed.includes(name))) return [];
  return [`${kind} ${JSON.stringify(name)} is not among allow_profiles ${JSON.stringify(allowed)}`];
}

type NetworkLimits = Pick<Policy, 'net_allow_max' | 'net_presets' | 'net_require_inspect'>;

/** Returns one phrase for each exceeded limit. A preset that the policy names needs nothing else. */
export function checkNetwork(
  { allowlist, rules = [], presets = [] }: Partial<RequestedNetwork>,
  { net_allow_max: max, net_presets: named, net_require_inspect: isReadOnly }: NetworkLimits,
): string[] {
  if (allowlist === undefined) return [];
  const unread = isReadOnly === true ? checkInspected({ allowlist, rules, presets }) : [];
  const unnamed = presets.filter(({ name }) => named?.includes(name) !== true);
  const isOnlyNamed = presets.length > 0 && unnamed.length + allowlist.length + rules.length === 0;
  if (max?.length === 0 && !isOnlyNamed)
    return ['a network is over net_allow_max, which is empty', ...unread];
  const within = `net_allow_max ${max?.join(', ')}`;
  return [
    ...unread,
    ...(named === undefined || unnamed.length === 0
      ? []
      : [
          `preset ${listFirst(unnamed.map(({ name }) => name))} is not among net_presets ${named.join(', ')}`,
        ]),
    ...toPhrase('allowlist', allowlist.filter(isBeyond(max)), within),
    ...toPhrase('rules', rules.map(targetOf).filter(isBeyond(max)), within),
    ...unnamed.flatMap(({ name, rules }) => {
      if (max !== undefined && name === INTERNET_PRESET) return [`preset ${name} is not within ${within}`];
      return toPhrase(`preset ${name}`, rules.map(targetOf).filter(isBeyond(max)), within);
    }),
  ];
}

/**
 * What the gateway would not read. The rules of the client count: what they become for its secrets changes with these.
 */
export function checkInspected({
  allowlist = [],
  rules = [],
  presets = [],
}: Partial<RequestedNetwork>): string[] {
  const unread = [
    ...allowlist.map((entry) => `allowlist ${entry}`),
    ...rules.filter((rule) => !isRead(rule)).map((rule) => `rule ${targetOf(rule)} ${rule.protocol}`),
    ...presets
      .filter(({ name, rules }) => name === INTERNET_PRESET || !rules.every(isRead))
      .map(({ name }) => `preset ${name}`),
  ];
  if (unread.length === 0) return [];
  return [
    `${listFirst(unread)} ${unread.length === 1 ? 'passes' : 'pass'} unread, and net_require_inspect needs rules ` +
      'with tls: inspect, methods, paths or websocket',
  ];
}

function targetOf(rule: NetworkRule): string {
  return 'host' in rule ? rule.host : rule.cidr;
}

/** A range of addresses is beyond any list of names. */
function isBeyond(max: readonly string[] | undefined): (target: string) => boolean {
  return (target) => max !== undefined && !max.some((allowed) => coversPattern(allowed, target));
}

function toPhrase(what: string, beyond: readonly string[], within: string): string[] {
  if (beyond.length === 0) return [];
  const shown = beyond.slice(0, MAX_SHOWN_HOSTS).join(', ') + (beyond.length > MAX_SHOWN_HOSTS ? ', …' : '');
  return [`${what} ${shown} is not within ${within}`];
}

/** Maximum ports in an error message. */
const MAX_SHOWN_PORTS = 5;
const EVERY = { 4: '0.0.0.0', 6: '::' } as const;

/** A host port; without an address, on all addresses of both families. */
export type Published = { readonly hostIp?: string | undefined; readonly hostPort: number };

/** Returns one phrase for each exceeded limit. */
function checkPublished(
  ports: readonly Published[],
  { publish_ports, publish_addresses }: Pick<Policy, 'publish_ports' | 'publish_addresses'>,
): string[] {
  return [
    ...(publish_ports === undefined ? [] : checkPorts(ports, publish_ports)),
    ...(publish_addresses === undefined ? [] : checkAddresses(ports, publish_addresses)),
  ];
}

function checkPorts(ports: readonly Published[], allowed: readonly string[]): string[] {
  const ranges = allowed.flatMap((text) => parsePortRange(text) ?? []);
  const beyond = ports
    .map(({ hostPort }) => hostPort)
    .filter((port) => !ranges.some(({ first, last }) => first <= port && port <= last));
  if (beyond.length === 0) return [];
  const within = allowed.length === 0 ? 'publish_ports (none)' : `publish_ports ${allowed.join(', ')}`;
  return [`host port ${listFirst(beyond.map(String))} is not within ${within}`];
}

function checkAddresses(ports: readonly Published[], allowed: readonly string[]): string[] {
  const list = new BlockList();
  for (const address of allowed) list.addAddress(address, familyOf(address));
  // BlockList matches any spelling, also IPv4 addresses mapped to IPv6.
  const isAllowed = (address: string): boolean =>
    list.check(address, familyOf(address)) || allowed.includes(EVERY[isIP(address) === 6 ? 6 : 4]);
  const requested = new Set(ports.flatMap(({ hostIp }) => hostIp ?? Object.values(EVERY)));
  const beyond = [...requested].filter((address) => !isAllowed(address));
  if (beyond.length === 0) return [];
  const among = allowed.length === 0 ? 'publish_addresses (none)' : `publish_addresses ${allowed.join(', ')}`;
  return [`host address ${listFirst(beyond)} is not among ${among}`];
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 6 ? 'ipv6' : 'ipv4';
}

function listFirst(items: readonly string[]): string {
  return items.slice(0, MAX_SHOWN_PORTS).join(', ') + (items.length > MAX_SHOWN_PORTS ? ', …' : '');
}
