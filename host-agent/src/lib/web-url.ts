// Strict parsing of URLs that an operator configures. The URL class accepts much more: it removes line ends, tabs and
// blanks, reads \ as /, and changes the host by unescaping, IDNA and number formats. A request could then go to another
// host than the one written.
import { parseAuthority } from './authority.ts';

/** `http://` or `https://` and a host; undefined for anything else, and for text that URL would read differently. */
export function parseWebUrl(text: string): URL | undefined {
  const [, authority] = /^https?:\/\/([^/?#]+)(?:[/?#][!-~]*)?$/i.exec(text) ?? [];
  if (authority === undefined || text.includes('\\') || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const at = parseAuthority(authority.slice(authority.lastIndexOf('@') + 1));
  return at !== undefined && at.host === url.hostname.replace(/\.$/, '') ? url : undefined;
}
