// The forms in which a server may send a value back without escapes: as it is, in hex, and in base64.

/** Fewer characters of base64 would be found everywhere. */
const MIN_CORE_CHARS = 8;

/**
 * Base64 of anything that contains the value, in both alphabets: the characters that depend on nothing else, for each
 * of the three places at which it may begin.
 */
export function base64Cores(value: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), value]);
    const text = bytes.toString('base64').replaceAll('=', '');
    const known = text.slice(Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6));
    if (known.length < MIN_CORE_CHARS) return [];
    return [known, known.replaceAll('+', '-').replaceAll('/', '_')];
  });
}

/** Parts of names of headers, which have no case. */
export function lowerFormsOf(value: Buffer): string[] {
  const text = value.toString('latin1');
  const forms = [text, value.toString('hex'), encodeURIComponent(text), ...base64Cores(value)];
  return forms.map((form) => form.toLowerCase());
}
