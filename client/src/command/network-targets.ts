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
  throw new UsageError(`${JSON.stringify(word)} is no port, such as 443 or 53/udp`);
}

export function showRule({ host, cidr, protocol, ports }: ShownRule): string {
  return `${host ?? cidr}:${ports.join(',')}/${protocol}`;
}

type ShownRule = {
  readonly host?: string;
  readonly cidr?: string;
  readonly protocol: string;
  readonly ports: readonly (number | string)[];
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
