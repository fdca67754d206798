// Value types of network settings.
import { isIP } from 'node:net';
import { parsePortRange } from '@sandboxd/api';
import { z } from 'zod';
import { type Ipv4Range, parseIpv4Range } from '../lib/ipv4.ts';
import { type About, refuse, type Setting } from './values.ts';

/** The smallest subnet has enough addresses for a few sandboxes; the largest is a whole private range. */
const MAX_SUBNET_PREFIX = 26;
const MIN_SUBNET_PREFIX = 8;

export function subnet(about: About<Ipv4Range | 'auto'>): Setting<Ipv4Range | 'auto'> {
  return {
    schema: z.string().transform((value, context) => {
      if (value === 'auto') return value;
      const range = parseIpv4Range(value);
      const isFit = (prefix: number) => prefix >= MIN_SUBNET_PREFIX && prefix <= MAX_SUBNET_PREFIX;
      return range !== undefined && isFit(range.prefixLength) ? range : refuse(context);
    }),
    expected: `auto, or a range of IPv4 addresses such as 10.87.0.0/16, from /${MIN_SUBNET_PREFIX} to /${MAX_SUBNET_PREFIX}`,
    placeholder: 'range',
    fromText: (value) => value,
    ...about,
  };
}

export function ranges(about: About<Ipv4Range[]>): Setting<Ipv4Range[]> {
  return {
    schema: z.array(z.string().transform((value, context) => parseIpv4Range(value) ?? refuse(context))),
    expected: 'a list of ranges of IPv4 addresses such as 10.1.0.0/16',
    placeholder: 'range',
    fromText: splitList,
    ...about,
  };
}

export function portRanges(about: About<string[]>): Setting<string[]> {
  return {
    schema: z.array(z.string().refine((value) => parsePortRange(value) !== undefined)),
    expected: 'a list of ports such as 8080, or ranges of them such as 8000-8999',
    placeholder: 'ports',
    fromText: splitList,
    ...about,
  };
}

/** `address`, `address:port` or `[address]:port`. */
export function nameServers(about: About<string[]>): Setting<string[]> {
  return {
    schema: z.array(z.string().refine(isNameServer)),
    expected: 'a list of addresses of name servers such as 9.9.9.9, 127.0.0.1:5353 or [2620:fe::fe]:53',
    placeholder: 'address',
    fromText: splitList,
    ...about,
  };
}

function isNameServer(text: string): boolean {
  if (isIP(text) !== 0) return true;
  const [, six, four, port] = /^(?:\[([^\]]*)\]|([^:]*)):(\d{1,5})$/.exec(text) ?? [];
  return (isIP(six ?? '') === 6 || isIP(four ?? '') === 4) && Number(port) > 0 && Number(port) < 65_536;
}

function splitList(text: string): string[] {
  return text.split(',').map((part) => part.trim());
}
