// Value types of settings: how a text is parsed and which values are valid.

import { isIP } from 'node:net';
import { hostPattern, isLabelKey, parsePortRange } from '@sandboxd/api';
import { z } from 'zod';
import { type Authority, parseAuthority, parseOrigin, type Scheme } from '../lib/authority.ts';
import { type Ipv4Range, parseIpv4Range } from '../lib/ipv4.ts';
import { toMetricLabel } from '../lib/labels.ts';

/** One setting: validation, default and help. */
export type Setting<T> = {
  readonly schema: z.ZodType<T>;
  /** Absent for a setting without a default. */
  readonly fallback?: T;
  /** Text after `expected` in error messages. */
  readonly expected: string;
  readonly placeholder: string;
  readonly help: string;
  /** The flag alone means true. */
  readonly isSwitch?: true;
  /**
   * Converts the text of a flag or variable to the value that a JSON file would contain. Invalid text is returned
   * unchanged.
   */
  readonly fromText: (text: string) => unknown;
};

/** A TCP address, or the path of a Unix socket. */
export type ListenAddress = TcpAddress | { readonly path: string };
export type TcpAddress = { readonly host: string; readonly port: number };

export type About<T> = { readonly help: string; readonly fallback?: T; readonly placeholder?: string };

/** Maximum path length of a Unix socket address, without the final NUL. */
export const MAX_SOCKET_PATH_BYTES = 107;

const BYTE_UNITS: Readonly<Record<string, number>> = {
  '': 1,
  k: 2 ** 10,
  m: 2 ** 20,
  g: 2 ** 30,
  t: 2 ** 40,
};

export function integer(min: number, max: number, about: About<number>): Setting<number> {
  return {
    schema: z.int().min(min).max(max),
    expected: `an integer from ${min} to ${max}`,
    placeholder: 'n',
    fromText: (text) => (/^-?\d{1,15}$/.test(text) ? Number(text) : text),
    ...about,
  };
}

/** A number of bytes, or a text such as `4GiB` or `512M`; units are powers of 1024. */
export function bytes(min: number, max: number, about: About<number>): Setting<number> {
  return {
    schema: z
      .union([z.int(), z.string().transform((text, context) => parseBytes(text) ?? refuse(context))])
      .pipe(z.int().min(min).max(max)),
    expected: `bytes from ${formatBytes(min)} to ${formatBytes(max)}, as a number or such as 4GiB`,
    placeholder: 'bytes',
    fromText: (text) => (/^\d{1,15}$/.test(text) ? Number(text) : text),
    ...about,
  };
}

/** A switch; the default is off. */
export function toggle(about: { readonly help: string }): Setting<boolean> {
  return {
    schema: z.boolean(),
    fallback: false,
    expected: 'true or false',
    placeholder: 'true|false',
    isSwitch: true,
    fromText: (text) => ({ true: true, false: false })[text] ?? text,
    ...about,
  };
}

export function choice<T extends string>(values: readonly T[], about: About<T>): Setting<T> {
  return {
    schema: z.enum(values as readonly [T, ...T[]]),
    expected: `one of ${values.join(', ')}`,
    placeholder: values.join('|'),
    fromText: (text) => text,
    ...about,
  };
}

export function text(about: About<string> & { pattern?: RegExp; expected?: string }): Setting<string> {
  const { pattern = /./s, expected = 'a text that is not empty', ...rest } = about;
  return {
    schema: z.string().regex(pattern),
    expected,
    placeholder: 'text',
    fromText: (value) => value,
    ...rest,
  };
}

/** An absolute path. In flags and variables, a relative path is resolved against the working directory. */
export function path(about: About<string>): Setting<string> {
  return {
    schema: z.string().regex(/^\/[^\0]*$/),
    expected: 'an absolute path',
    placeholder: 'path',
    fromText: (value) => (value === '' || value.startsWith('/') ? value : `${process.cwd()}/${value}`),
    ...about,
  };
}

/** Host directories, separated by colons in a text. */
export function paths(about: About<string[]>): Setting<string[]> {
  return {
    schema: z.array(z.string().regex(/^\/[^\0]*$/)),
    expected: 'a list of absolute paths',
    placeholder: 'path',
    fromText: (value) => value.split(':').filter((each) => each !== ''),
    ...about,
  };
}

const SOURCE_NAME = /^(?:[a-z0-9][a-z0-9._-]{0,62}\/)?[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$/;

/** Names that clients use for paths of the host, as they are printed; `parseNamedPath` reads them. */
export function namedPaths(about: About<string[]>): Setting<string[]> {
  return {
    schema: z.array(z.string()).refine((texts) => areDistinct(texts.map(parseNamedPath))),
    expected: 'a list of [tenant/]name[@host…]=/absolute/path, each name once',
    placeholder: '[tenant/]name[@host…]=path',
    fromText: splitList,
    ...about,
  };
}

export function sourceNames(about: About<string[]>): Setting<string[]> {
  return {
    schema: z.array(z.string()).refine((texts) => areDistinct(texts.map((text) => parseNamedSource(text)))),
    expected: 'a list of [tenant/]name[@host…], each name once',
    placeholder: '[tenant/]name[@host…]',
    fromText: splitList,
    ...about,
  };
}

/** What the daemon reads elsewhere: its name, its path if it has one, and the hosts that it is bound to. */
export type NamedSource = readonly [
  name: string,
  entry: { readonly path: string; readonly hosts?: readonly string[] },
];

/** Of two entries of one name, one would count without a word, with its hosts or without any. */
function areDistinct(sources: readonly (NamedSource | undefined)[]): boolean {
  return (
    !sources.includes(undefined) && new Set(sources.map((source) => source?.[0])).size === sources.length
  );
}

export function parseNamedPath(text: string): NamedSource | undefined {
  const [, name = '', path = ''] = /^([^=]*)=(\/[^\0]+)$/.exec(text) ?? [];
  return parseNamedSource(name, path);
}

export function parseNamedSource(text: string, path = ''): NamedSource | undefined {
  const [name = '', ...bound] = text.split('@');
  const hosts = bound.map((host) => hostPattern.safeParse(host));
  if (!SOURCE_NAME.test(name) || hosts.some(({ success }) => !success)) return undefined;
  return [name, { path, ...(bound.length > 0 && { hosts: hosts.flatMap(({ data }) => data ?? []) }) }];
}

/** More would multiply the series. */
const MAX_METRIC_LABELS = 8;

/** Keys of labels, whose names in metrics differ. */
export function labelKeys(about: About<string[]>): Setting<string[]> {
  return {
    schema: z
      .array(z.string().refine(isLabelKey))
      .max(MAX_METRIC_LABELS)
      .refine((keys) => new Set(keys.map(toMetricLabel)).size === keys.length),
    expected: `a list of at most ${MAX_METRIC_LABELS} keys of labels such as team or app.example/tier, which differ by more than punctuation`,
    placeholder: 'key',
    fromText: (value) => value.split(',').map((key) => key.trim()),
    ...about,
  };
}

export function listenAddress(about: About<ListenAddress>): Setting<ListenAddress> {
  return {
    schema: z.string().transform((value, context) => parseListen(value) ?? refuse(context)),
    expected: 'host:port such as 127.0.0.1:7878 or [::1]:7878, port 0 for any free one, or unix:/path',
    placeholder: 'host:port|unix:/path',
    fromText: (value) => value,
    ...about,
  };
}

/** Browser origins: no path, and no default port. */
export function origins(about: About<string[]>): Setting<string[]> {
  return {
    schema: z.array(z.string().transform((value, context) => toOrigin(value) ?? refuse(context))),
    expected: 'a list of origins such as https://app.example or http://localhost:3000',
    placeholder: 'origin',
    fromText: (value) => value.split(',').map((origin) => origin.trim()),
    ...about,
  };
}

function toOrigin(text: string): string | undefined {
  if (parseOrigin(text.replace(/\/$/, '')) === undefined || !URL.canParse(text)) return undefined;
  return new URL(text).origin;
}

/** Host names of the daemon, as `AllowedHost` of the HTTP server describes them. */
export function hostNames(about: About<HostName[]>): Setting<HostName[]> {
  return {
    schema: z.array(z.string().transform((value, context) => parseHostName(value) ?? refuse(context))),
    expected: 'a list of names such as box.example, box.example:8080 or https://box.example',
    placeholder: 'name',
    fromText: (value) => value.split(',').map((name) => name.trim()),
    ...about,
  };
}

/** One host name of that syntax. */
export function hostName(about: About<HostName>): Setting<HostName> {
  return {
    schema: z.string().transform((value, context) => parseHostName(value) ?? refuse(context)),
    expected: 'a name such as box.example, or https://box.example:8443',
    placeholder: 'name',
    fromText: (value) => value,
    ...about,
  };
}

/** Without a scheme, the daemon's scheme applies. */
export type HostName = { readonly scheme?: Scheme; readonly at: Authority };

export function parseHostName(text: string): HostName | undefined {
  const [, scheme, rest = ''] = /^(?:(https?):\/\/)?(.*)$/is.exec(text) ?? [];
  const at = parseAuthority(rest);
  if (at === undefined) return undefined;
  return scheme === undefined ? { at } : { scheme: scheme.toLowerCase() as Scheme, at };
}

/** The notation of the settings file. */
export function formatHostName({ scheme, at }: HostName): string {
  const prefix = scheme === undefined ? '' : `${scheme}://`;
  return `${prefix}${at.host}${at.port === undefined ? '' : `:${at.port}`}`;
}

/** `4GiB`, `512M`, `1048576` → bytes; undefined for invalid text. */
export function parseBytes(value: string): number | undefined {
  const match = /^(\d{1,15})\s*([kmgt]?)(?:i?b)?$/i.exec(value.trim());
  const unit = BYTE_UNITS[match?.[2]?.toLowerCase() ?? ''];
  return match && unit !== undefined ? Number(match[1]) * unit : undefined;
}

export function formatBytes(value: number): string {
  for (const [name, unit] of [
    ['TiB', 2 ** 40],
    ['GiB', 2 ** 30],
    ['MiB', 2 ** 20],
  ] as const) {
    if (value >= unit && value % unit === 0) return `${value / unit} ${name}`;
  }
  return String(value);
}

/** `host:port`, `[v6]:port` or `unix:/path`; undefined for invalid text. */
export function parseListen(value: string): ListenAddress | undefined {
  const path = /^unix:(\/[^\0]{1,107})$/.exec(value)?.[1];
  if (path !== undefined) return Buffer.byteLength(path) <= MAX_SOCKET_PATH_BYTES ? { path } : undefined;
  const match = /^(?:\[([0-9a-f:.]+)\]|([^\s:/[\]]+)):(\d{1,5})$/i.exec(value);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host !== undefined && port <= 65_535 ? { host, port } : undefined;
}

export function formatListen(address: ListenAddress): string {
  if ('path' in address) return `unix:${address.path}`;
  const { host, port } = address;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

export function refuse(context: { addIssue: (message: string) => void }): never {
  context.addIssue('unusable');
  return z.NEVER;
}

// Value types of network settings.
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
