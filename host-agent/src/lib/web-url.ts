// URLs that an operator gives, read as they are written. URL itself reads much more: it leaves out line ends, tabs and blanks
// around, takes \ for /, and makes one host of another by unescaping, IDNA and numbers, so that what is asked is not what was meant.
import { parseAuthority } from './authority.ts';

/** `http://` or `https://` and a host; undefined for anything else, and for what would be read as another URL. */
export function parseWebUrl(text: string): URL | undefined {
  const [, authority] = /^https?:\/\/([^/?#]+)(?:[/?#][!-~]*)?$/i.exec(text) ?? [];
  if (authority === undefined || text.includes('\\') || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const at = parseAuthority(authority.slice(authority.lastIndexOf('@') + 1));
  return at !== undefined && at.host === url.hostname.replace(/\.$/, '') ? url : undefined;
}
