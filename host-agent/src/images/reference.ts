// Names of images as Docker writes them: `nginx`, `nginx:alpine`, `ghcr.io/a/b:c`, `…@sha256:…`.

export type Reference = {
  /** Host, with its port if it has one. */
  readonly domain: string;
  /** Without the domain: `library/nginx`. */
  readonly path: string;
  readonly tag?: string;
  /** `sha256:…` of a manifest. */
  readonly digest?: string;
};

const DEFAULT_DOMAIN = 'docker.io';
/** Its name in references of old. */
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
/** Alone it is an id of an image, and no name of a repository. */
const ID = /^[\da-f]{64}$/;

/** Undefined for what is none. A tag that is missing is `latest`, unless there is a digest. */
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
  const kept = tag ?? (digest === undefined ? DEFAULT_TAG : undefined);
  return { domain, path, ...(kept !== undefined && { tag: kept }), ...(digest !== undefined && { digest }) };
}

/** The one spelling of a reference, with all that others leave out. */
export function formatReference({ domain, path, tag, digest }: Reference): string {
  return `${domain}/${path}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`;
}

/** As people write it. */
export function shortReference(reference: Reference): string {
  const { domain, path } = reference;
  const whole = formatReference(reference);
  if (domain !== DEFAULT_DOMAIN) return whole;
  const prefix = `${domain}/${path.startsWith(OFFICIAL) && !path.slice(OFFICIAL.length).includes('/') ? OFFICIAL : ''}`;
  return whole.slice(prefix.length);
}

/** Only those may be asked without TLS. */
export function isLoopback({ domain }: Reference): boolean {
  const host = domain.replace(/:\d+$/, '').toLowerCase();
  return host === 'localhost' || host === '[::1]' || /^127(?:\.\d{1,3}){3}$/.test(host);
}

/** What is in front of the first slash is a host if it cannot be part of a path. */
function splitDomain(name: string): readonly [domain: string, path: string] {
  const slash = name.indexOf('/');
  const first = name.slice(0, Math.max(slash, 0));
  const isHost = /[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase();
  const domain = slash >= 0 && isHost ? first : DEFAULT_DOMAIN;
  const path = slash >= 0 && isHost ? name.slice(slash + 1) : name;
  if (domain !== DEFAULT_DOMAIN && domain !== OLD_DEFAULT_DOMAIN) return [domain, path];
  return [DEFAULT_DOMAIN, path.includes('/') ? path : `${OFFICIAL}${path}`];
}
