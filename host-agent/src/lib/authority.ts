// A host with an optional port, as in the HTTP Host and Origin headers and in request targets; and URLs of operators.

export type Authority = {
  /** Lower-case, without a trailing dot. An IPv6 address is in brackets and in its shortest form. */
  readonly host: string;
  /** Absent: the scheme's default port. */
  readonly port: number | undefined;
};

export type Scheme = 'http' | 'https';

export const DEFAULT_PORTS: Readonly<Record<Scheme, number>> = { http: 80, https: 443 };

const MAX_PORT = 65_535;

/**
 * Parses `name`, `name:80`, `127.0.0.1:80`, `[::1]:80`; undefined for anything else, including user information before
 * `@`.
 */
export function parseAuthority(text: string): Authority | undefined {
  const match = /^(\[[0-9a-f:.]{2,45}\]|[a-z0-9._-]{1,254})(?::(\d{0,5}))?$/i.exec(text);
  if (match === null) return undefined;
  const [, name = '', digits = ''] = match;
  const port = digits === '' ? undefined : Number(digits);
  if (port !== undefined && port > MAX_PORT) return undefined;
  if (!name.startsWith('[')) return { host: name.toLowerCase().replace(/\.$/, ''), port };
  return URL.canParse(`http://${name}`) ? { host: new URL(`http://${name}`).hostname, port } : undefined;
}

/** Parses `http://name:80`, the Origin header of browsers; undefined for anything else, such as `null`. */
export function parseOrigin(text: string): { readonly scheme: Scheme; readonly at: Authority } | undefined {
  const [, scheme = '', rest = ''] = /^(https?):\/\/(.*)$/is.exec(text) ?? [];
  const at = parseAuthority(rest);
  return at === undefined ? undefined : { scheme: scheme.toLowerCase() as Scheme, at };
}

/** `http://` or `https://` and a host; undefined for anything else, and for text that URL would read differently. */
export function parseWebUrl(text: string): URL | undefined {
  const [, authority] = /^https?:\/\/([^/?#]+)(?:[/?#][!-~]*)?$/i.exec(text) ?? [];
  if (authority === undefined || text.includes('\\') || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const at = parseAuthority(authority.slice(authority.lastIndexOf('@') + 1));
  return at !== undefined && at.host === url.hostname.replace(/\.$/, '') ? url : undefined;
}
