// The kinds of value that a setting can have: what a text of a flag or the environment means, and what is allowed.
import { z } from 'zod';
import { type Authority, parseAuthority, type Scheme } from '../lib/authority.ts';

/** One setting: how it is checked, what it is without being set, and how help describes it. */
export type Setting<T> = {
  readonly schema: z.ZodType<T>;
  /** Absent when the setting has no value unless given. */
  readonly fallback?: T;
  /** What an error says after `expected`. */
  readonly expected: string;
  readonly placeholder: string;
  readonly help: string;
  /** Its flag alone means yes. */
  readonly isSwitch?: true;
  /** Turns a flag's or variable's text into what a JSON file would hold. Text that makes no sense stays as it is. */
  readonly fromText: (text: string) => unknown;
};

export type ListenAddress = { readonly host: string; readonly port: number };

type About<T> = { readonly help: string; readonly fallback?: T; readonly placeholder?: string };

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

/** Bytes as a number or as a text such as `4GiB` or `512M`; units are powers of 1024. */
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

/** Off unless it is asked for. */
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

/** An absolute path; what a flag or a variable gives may be relative to the working directory. */
export function path(about: About<string>): Setting<string> {
  return {
    schema: z.string().regex(/^\/[^\0]*$/),
    expected: 'an absolute path',
    placeholder: 'path',
    fromText: (value) => (value === '' || value.startsWith('/') ? value : `${process.cwd()}/${value}`),
    ...about,
  };
}

export function listenAddress(about: About<ListenAddress>): Setting<ListenAddress> {
  return {
    schema: z.string().transform((value, context) => parseListen(value) ?? refuse(context)),
    expected: 'host:port such as 127.0.0.1:7878 or [::1]:7878, port 0 for any free one',
    placeholder: 'host:port',
    fromText: (value) => value,
    ...about,
  };
}

/** Names by which clients call the daemon, as `AllowedHost` of the HTTP server describes them. */
export function hostNames(about: About<HostName[]>): Setting<HostName[]> {
  return {
    schema: z.array(z.string().transform((value, context) => parseHostName(value) ?? refuse(context))),
    expected: 'a list of names such as box.example, box.example:8080 or https://box.example',
    placeholder: 'name',
    fromText: (value) => value.split(',').map((name) => name.trim()),
    ...about,
  };
}

export type HostName = { readonly scheme: Scheme; readonly at: Authority };

function parseHostName(text: string): HostName | undefined {
  const [, scheme = 'http', rest = ''] = /^(?:(https?):\/\/)?(.*)$/is.exec(text) ?? [];
  const at = parseAuthority(rest);
  return at === undefined ? undefined : { scheme: scheme.toLowerCase() as Scheme, at };
}

/** As it is written in a file. */
export function formatHostName({ scheme, at }: HostName): string {
  return `${scheme}://${at.host}${at.port === undefined ? '' : `:${at.port}`}`;
}

/** `4GiB`, `512M`, `1048576` → bytes; undefined for anything else. */
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

/** `host:port` or `[v6]:port`; undefined when it is not that. */
export function parseListen(value: string): ListenAddress | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^\s:/[\]]+)):(\d{1,5})$/i.exec(value);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host !== undefined && port <= 65_535 ? { host, port } : undefined;
}

export function formatListen({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function refuse(context: { addIssue: (message: string) => void }): never {
  context.addIssue('unusable');
  return z.NEVER;
}
