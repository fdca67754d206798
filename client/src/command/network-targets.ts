// Targets of networks at the command line: `example.com`, `github.com:22`, `192.0.2.0/24:9000-9010/udp`.
import { UsageError } from '@sandboxd/api/command-line';
import type { NetworkRule } from '../contract.ts';

const PROTOCOLS = ['tcp', 'udp', 'tls', 'http', 'postgres'] as const;

export type Targets = { readonly allowlist: readonly string[]; readonly rules: readonly NetworkRule[] };

/** A host alone is one of the allowlist; with ports it is a rule. Throws UsageError. */
export function toTargets(words: readonly string[]): Targets {
  const rules = words.filter(hasPorts).map(toRule);
  const allowlist = words.filter((word) => !hasPorts(word));
  const range = allowlist.find((word) => word.includes('/'));
  if (range === undefined) return { allowlist, rules };
  throw new UsageError(`${JSON.stringify(range)} needs ports, such as ${range}:443`);
}

/** `22`, `22/tcp`, `53/udp`. Throws UsageError. */
export function toPortAndProtocol(word: string): { readonly port: number; readonly protocol: 'tcp' | 'udp' } {
  const [, digits = '', protocol = 'tcp'] = /^(\d{1,5})(?:\/(tcp|udp))?$/.exec(word) ?? [];
  if (digits !== '') return { port: Number(digits), protocol: protocol === 'udp' ? 'udp' : 'tcp' };
  throw new UsageError(`${JSON.stringify(word)} is not a port, such as 443 or 53/udp`);
}

/** `github.com:443/tls`, and what it says of requests: `GET,POST /repos/**`. */
export function showRule({ host, cidr, protocol, ports, methods, paths, ...rest }: ShownRule): string {
  const isRead = [rest.tls, rest.websocket, methods, paths].some((field) => field !== undefined);
  const requests = [methods?.join(','), paths?.join(','), rest.websocket && 'websocket'].filter(Boolean);
  const read = requests.length > 0 ? requests.join(' ') : 'inspect';
  return `${host ?? cidr}:${ports.join(',')}/${protocol}${isRead ? ` ${read}` : ''}`;
}

/** Rules for these methods and paths only. Throws UsageError for targets whose requests cannot be read. */
export function toReadTargets(
  { allowlist, rules }: Targets,
  { methods, paths }: { readonly methods: readonly string[]; readonly paths: readonly string[] },
): Targets {
  if (methods.length + paths.length === 0) return { allowlist, rules };
  const other = allowlist[0] ?? rules.find(({ protocol }) => protocol !== 'tls' && protocol !== 'http')?.host;
  if (other !== undefined || rules.length === 0)
    throw new UsageError(
      '--method and --path need --allow with ports and tls or http, such as api.github.com:443/tls',
    );
  const requests = { ...(methods.length > 0 && { methods }), ...(paths.length > 0 && { paths }) };
  return { allowlist, rules: rules.map((rule) => ({ ...rule, ...requests })) };
}

type ShownRule = {
  readonly host?: string;
  readonly cidr?: string;
  readonly protocol: string;
  readonly ports: readonly (number | string)[];
  readonly tls?: string;
  readonly methods?: readonly string[];
  readonly paths?: readonly string[];
  readonly websocket?: boolean;
};

function hasPorts(word: string): boolean {
  return word.includes(':');
}

function toRule(word: string): NetworkRule {
  const form = /^([^:]+):(\d[\d,-]*)(?:\/([a-z]+))?$/.exec(word);
  const [, target = '', list = '', protocol = 'tcp'] = form ?? [];
  const known = PROTOCOLS.find((each) => each === protocol);
  if (form === null || known === undefined)
    throw new UsageError(
      `${JSON.stringify(word)} is neither a host nor host:ports, such as github.com:22 192.0.2.0/24:9000-9010/udp or github.com:443/tls`,
    );
  const ports = list.split(',').map((each) => (/^\d+$/.test(each) ? Number(each) : each));
  return { ...(target.includes('/') ? { cidr: target } : { host: target }), protocol: known, ports };
}
