// The forms in which a server may send a value back: as it is, and in the encodings of headers, pages and JSON.

/** Fewer characters of base64 would be found everywhere. */
const MIN_CORE_CHARS = 8;

/** All forms of a value that are looked for, each once. `value`: printable ASCII. */
export function encodingsOf(value: Buffer): Buffer[] {
  const text = value.toString('latin1');
  const hex = value.toString('hex');
  const forms = [
    text,
    hex,
    hex.toUpperCase(),
    ...percentForms(text),
    ...jsonForms(text),
    ...htmlForms(text),
    ...base64Cores(value),
  ];
  return [...new Set(forms)].map((form) => Buffer.from(form, 'latin1'));
}

/** As in a part of a URL, in a form, and with everything escaped that may be; with digits of both cases. */
function percentForms(text: string): string[] {
  const component = encodeURIComponent(text);
  const strict = component.replace(/[!'()*]/g, toPercent);
  const form = new URLSearchParams([['', text]]).toString().slice(1);
  const all = text.replace(/./gs, toPercent);
  const upper = [component, strict, form, strict.replaceAll('~', '%7E'), all];
  return [...upper, ...upper.map((each) => each.replace(/%../g, (code) => code.toLowerCase()))];
}

function toPercent(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`;
}

/** As most write it; with an escaped slash (PHP); safe in a page (Go, PHP, .NET). */
function jsonForms(text: string): string[] {
  const plain = JSON.stringify(text).slice(1, -1);
  const slashed = plain.replaceAll('/', '\\/');
  const safe = plain.replace(/[<>&]/g, toUnicodeEscape);
  const safest = text.replace(/[<>&'"+`]/g, toUnicodeEscape).replaceAll(/\\(?!u00)/g, '\\\\');
  const lower = [safe, safest].map((each) => each.replace(/\\u00../g, (code) => code.toLowerCase()));
  return [plain, slashed, safe, safest, ...lower];
}

function toUnicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
}

function htmlForms(text: string): string[] {
  const base = text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  const quoted = base.replaceAll('"', '&quot;');
  return [
    base,
    quoted,
    quoted.replaceAll("'", '&#39;'),
    quoted.replaceAll("'", '&#x27;'),
    base.replaceAll('"', '&#34;'),
  ];
}

/**
 * Base64 of anything that contains the value, in both alphabets: the characters that depend on nothing else, for each
 * of the three places at which it may begin.
 */
function base64Cores(value: Buffer): string[] {
  return [0, 1, 2].flatMap((before) => {
    const bytes = Buffer.concat([Buffer.alloc(before), value]);
    const text = bytes.toString('base64').replaceAll('=', '');
    const known = text.slice(Math.ceil((before * 8) / 6), Math.floor((bytes.length * 8) / 6));
    if (known.length < MIN_CORE_CHARS) return [];
    return [known, known.replaceAll('+', '-').replaceAll('/', '_')];
  });
}
