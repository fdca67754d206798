// Keys of the API in texts that clients wrote: whatever is kept or shown to others has them struck out.

/** A character as it is, or percent-encoded any number of times; `codes` are its two digits. */
const either = (plain: string, codes: string): string => `(?:${plain}|%(?:25)*${codes})`;

/** Case does not matter: a host name comes back in lower case, and most of a key is still in it. */
const KEY = new RegExp(
  `${either('s', '[57]3')}${either('b', '[46]2')}${either('k', '[46]b')}${either('_', '5f')}${either('[\\w-]', '[0-9a-f]{2}')}{4,}`,
  'gi',
);

/** The text without the keys in it. Of a key that something has cut, what is left is hidden, too. */
export function hideKeys(text: string): string {
  return text.replace(KEY, 'sbk_…');
}

export function hasKey(text: string): boolean {
  return text.search(KEY) !== -1;
}
