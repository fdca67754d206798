// Paths of HTTP requests, as rules name them. Servers read some paths differently: a path that a rule judges must have
// one meaning, and is sent as it was judged.

const UNRESERVED = /[A-Za-z0-9._~-]/;
/** Path characters of RFC 3986. */
const PATH_CHARS = /^(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*$/;

/** Undefined for a path with more than one meaning; `hasEncodedSlash`: it may have %2F, which separates nothing. */
export function canonicalPath(path: string, hasEncodedSlash: boolean): string | undefined {
  if (!path.startsWith('/')) return undefined;
  const segments = path.slice(1).split('/');
  const canonical = segments.map((segment) => canonicalSegment(segment, hasEncodedSlash));
  // Only the last may be empty.
  if (canonical.slice(0, -1).includes('') || canonical.includes(undefined)) return undefined;
  return `/${canonical.join('/')}`;
}

function canonicalSegment(segment: string, hasEncodedSlash: boolean): string | undefined {
  if (!PATH_CHARS.test(segment)) return undefined;
  const text = segment.replaceAll(/%([0-9a-f]{2})/gi, (code, hex: string) => {
    const character = String.fromCharCode(Number.parseInt(hex, 16));
    return UNRESERVED.test(character) ? character : code.toUpperCase();
  });
  // Control bytes, a backslash, and what would be decoded twice.
  if (/%[01][0-9A-F]|%7F|%5C|%25[0-9A-F]{2}/i.test(text)) return undefined;
  if (!hasEncodedSlash && text.includes('%2F')) return undefined;
  if (!isUtf8(text)) return undefined;
  // Some servers cut parameters off, and then read dots.
  const isEmptyName = text.startsWith(';') || text.startsWith('%3B');
  const hasDots = text.split(/%2F/).some((part) => /^\.{1,2}(?:$|;|%3B)/.test(part));
  const isTwisted = text.includes(';') && /;[^;]*(?:\.\.|%2F)/.test(text);
  return isEmptyName || hasDots || isTwisted ? undefined : text;
}

function isUtf8(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether a rule can have it: canonical, with `*` as a whole segment, and `**` as the last. */
export function isPathPattern(pattern: string): boolean {
  if (!pattern.startsWith('/') || pattern.includes('?') || pattern.includes('#')) return false;
  const segments = pattern.slice(1).split('/');
  const last = segments.length - 1;
  const isPlain = ([at, segment]: readonly [number, string]): boolean =>
    segment === '*' || (segment === '**' && at === last) || !segment.includes('*');
  return [...segments.entries()].every(isPlain) && canonicalPath(pattern, true) === pattern;
}

/** `path` is canonical. */
export function matchesPath(pattern: string, path: string): boolean {
  const wanted = pattern.slice(1).split('/');
  const segments = path.slice(1).split('/');
  const isRest = wanted.at(-1) === '**';
  if (isRest) wanted.pop();
  if (isRest ? segments.length <= wanted.length : segments.length !== wanted.length) return false;
  return wanted.every((each, at) => (each === '*' ? segments[at] !== '' : each === segments[at]));
}
