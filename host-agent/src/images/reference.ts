// Image references in Docker's syntax: `nginx`, `nginx:alpine`, `ghcr.io/a/b:c`, `…@sha256:…`.

export type Reference = {
  /** Host name, with an optional port. */
  readonly domain: string;
  /** Repository path without the domain: `library/nginx`. */
  readonly path: string;
  readonly tag?: string;
  /** Manifest digest, `sha256:…`. */
  readonly digest?: string;
};

const DEFAULT_DOMAIN = 'docker.io';
/** Docker Hub's name in old references. */
const OLD_DEFAULT_DOMAIN = 'index.docker.io';
const OFFICIAL = 'library/';
const DEFAULT_TAG = 'latest';
const MAX_NAME_CHARS = 255;

const DOMAIN =
  /^(?:(?:[a-zA-Z\d]|[a-zA-Z\d][a-zA-Z\d-]*[a-zA-Z\d])(?:\.(?:[a-zA-Z\d]|[a-zA-Z\d][a-zA-Z\d-]*[a-zA-Z\d]))*|\[[\da-fA-F:]+\])(?::\d+)?$/;
const PATH = /^[a-z\d]+(?:(?:[._]|__|-+)[a-z\d]+)*(?:\/[a-z\d]+(?:(?:[._]|__|-+)[a-z\d]+)*)*$/;
const TAG = /^\w[\w.-]{0,127}$/;
const DIGEST = /^[a-zA-Z][a-zA-Z\d]*(?:[-_+.][a-zA-Z][a-zA-Z\d]*)*:[\da-fA-F]{32,}$/;
const SHA256 = /^sha256:[\da-f]{64}$/;
/** On its own it is an image id, not a repository name. */
const ID = /^[\da-f]{64}$/;

/** Undefined for an invalid reference. A missing tag becomes `latest`, unless there is a digest. */
export function parseReference(text: string): Reference | undefined {
  const at = text.indexOf('@');
  const digest = at < 0 ? undefined : text.slice(at + 1);
  if (digest !== undefined && !(digest.startsWith('sha256:') ? SHA256 : DIGEST).test(digest))
    return undefined;
  const named = at < 0 ? text : text.slice(0, at);
  if (ID.test(named)) return undefined;
  const colon = named.indexOf(':', named.lastIndexOf('/') + 1);
  const tag = colon < 0 ? undefined : named.slice(colon + 1);
  const [domain, path] = splitDomain(colon < 0 ? named : named.slice(0, colon));
  const isNamed = DOMAIN.test(domain) && PATH.test(path) && domain.length + path.length < MAX_NAME_CHARS;
  if (!isNamed || (tag !== undefined && !TAG.test(tag))) return undefined;
  const effectiveTag = tag ?? (digest === undefined ? DEFAULT_TAG : undefined);
  return {
    domain,
    path,
    ...(effectiveTag !== undefined && { tag: effectiveTag }),
    ...(digest !== undefined && { digest }),
  };
}

/** The canonical spelling, with all default parts. */
export function formatReference({ domain, path, tag, digest }: Reference): string {
  return `${domain}/${path}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`;
}

/** The short spelling that people use. */
export function shortReference(reference: Reference): string {
  const { domain, path } = reference;
  const full = formatReference(reference);
  if (domain !== DEFAULT_DOMAIN) return full;
  const prefix = `${domain}/${path.startsWith(OFFICIAL) && !path.slice(OFFICIAL.length).includes('/') ? OFFICIAL : ''}`;
  return full.slice(prefix.length);
}

/** Only loopback registries may be contacted without TLS. */
export function isLoopback({ domain }: Reference): boolean {
  const host = domain.replace(/:\d+$/, '').toLowerCase();
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** The part before the first slash is a host if it cannot be a path component. */
function splitDomain(name: string): readonly [domain: string, path: string] {
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(slash, 0));
  const isHost = /[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
  const domain = slash >= 0 && isHost ? first : DEFAULT_DOMAIN;
  const path = slash >= 0 && isHost ? name.slice(slash + 1) : name;
  if (domain !== DEFAULT_DOMAIN && domain !== OLD_DEFAULT_DOMAIN) return [domain, path];
  return [DEFAULT_DOMAIN, path.includes('/') ? path : `${OFFICIAL}${path}`];
}

/** Whether both name the same image: `nginx` is `docker.io/library/nginx:latest`. */
export function isSameReference(a: string, b: string): boolean {
  const [one, other] = [parseReference(a), parseReference(b)];
  return (
    a === b || (one !== undefined && other !== undefined && formatReference(one) === formatReference(other))
  );
}
