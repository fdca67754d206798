// Redacts API keys in client-supplied text before it is stored or shown to others.

/** A character, literal or percent-encoded any number of times; `codes` are its two hex digits. */
const either = (plain: string, codes: string): string => `(?:${plain}|%(?:25)*${codes})`;

/** Case-insensitive: a host name is lower-cased, and most of a key survives that. */
const KEY = new RegExp(
  `${either('s', '[57]3')}${either('b', '[46]2')}${either('k', '[46]b')}${either('_', '5f')}${either('[\\w-]', '[0-9a-f]{2}')}{4,}`,
  'gi',
);

/** The text without keys. What is left of a truncated key is redacted as well. */
export function hideKeys(text: string): string {
  return text.replace(KEY, 'sbk_…');
}

export function hasKey(text: string): boolean {
  return text.search(KEY) !== -1;
}
