// Names of hosts that a network may reach.
import { text } from '../input/fields.ts';
import { MAX_HOST_NAME_CHARS } from '../limits.ts';

/**
 * At least two labels, the last one with a letter, which excludes IP addresses. `*.` matches exactly one label, and
 * `**.` one or more.
 * Underscores are allowed: they are not valid in host names, but such names exist in DNS.
 */
const HOST_PATTERN =
  /^(?:\*\*?\.)?(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)+(?=[A-Za-z0-9-]*[A-Za-z])[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.?$/;
const HOST_ERROR =
  'must be a host name of two or more labels, such as example.com or *.example.com, without address, port or range';
const WILDCARD_ERROR = 'must not be a bare wildcard; name the hosts, such as example.com or *.example.com';

/** Normalized for comparison: lower case, no trailing dot. */
export const hostPattern = text('must be a host name', HOST_PATTERN, explainPattern)
  .max(MAX_HOST_NAME_CHARS, { error: `must be a host name of at most ${MAX_HOST_NAME_CHARS} characters` })
  .transform((value) => value.toLowerCase().replace(/\.$/, ''))
  .meta({
    description:
      'a host name, or a host name after *., which matches exactly one more label, or after **., which matches one or more',
  });

function explainPattern(value: string): string {
  if (value === '*') return WILDCARD_ERROR;
  const ascii = toAscii(value);
  return ascii === undefined ? HOST_ERROR : `must be a host name as DNS has it: write ${ascii}`;
}

/** The ASCII (punycode) form of an internationalized name; undefined if the result is not a host name. */
function toAscii(pattern: string): string | undefined {
  const [, wildcard = '', name = ''] = /^(\*\*?\.)?(.*)$/s.exec(pattern) ?? [];
  if (/^[\0-\x7f]*$/.test(name) || !URL.canParse(`http://${name}/`)) return undefined;
  const { hostname, href } = new URL(`http://${name}/`);
  const ascii = wildcard + hostname;
  return href === `http://${hostname}/` && HOST_PATTERN.test(ascii) ? ascii : undefined;
}
