// A host and its port as HTTP writes them, in Host, in Origin and in the target of a request.

export type Authority = {
  /** Lower-case and without a final dot; an IPv6 address in brackets and in its shortest form. */
  readonly host: string;
  /** Absent: the one of the scheme. */
  readonly port: number | undefined;
};

export type Scheme = 'http' | 'https';

export const DEFAULT_PORTS: Readonly<Record<Scheme, number>> = { http: 80, https: 443 };

const MAX_PORT = 65_535;

/** `name`, `name:80`, `127.0.0.1:80`, `[::1]:80`; undefined for anything else, a user before an `@` included. */
export function parseAuthority(text: string): Authority | undefined {
  const match = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,254})(?::(\d{0,5}))?$/i.exec(text);
  if (match === null) return undefined;
  const [, name = '', digits = ''] = match;
  const port = digits === '' ? undefined : Number(digits);
  if (port !== undefined && port > MAX_PORT) return undefined;
  if (!name.startsWith('[')) return { host: name.toLowerCase().replace(/\.$/, ''), port };
  return URL.canParse(`http://${name}`) ? { host: new URL(`http://${name}`).hostname, port } : undefined;
}

/** `http://name:80`, as browsers write where a page is from; undefined for anything else, such as `null`. */
export function parseOrigin(text: string): { readonly scheme: Scheme; readonly at: Authority } | undefined {
  const [, scheme = '', rest = ''] = /^(https?):\/\/(.*)$/is.exec(text) ?? [];
  const at = parseAuthority(rest);
  return at === undefined ? undefined : { scheme: scheme.toLowerCase() as Scheme, at };
}
