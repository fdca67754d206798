// The escapes of URLs, forms, JSON, scripts and pages, read back: whatever characters a server has escaped, with
// digits of either case, a value is found in what it means.

/** The byte that an escape means, and above it 256 times its length; 0 where none begins. */
type Escape = number;

export type Escaping = {
  /** An escape begins with one of them. */
  readonly marks: readonly number[];
  readonly read: (data: Buffer, at: number) => Escape;
};

/** Of an escape, such as `&#x0041;`. */
export const MAX_ESCAPE_BYTES = 8;

const PERCENT = '%'.charCodeAt(0);
const PLUS = '+'.charCodeAt(0);
const BACKSLASH = '\\'.charCodeAt(0);
const AMPERSAND = '&'.charCodeAt(0);
const SEMICOLON = ';'.charCodeAt(0);
const HASH = '#'.charCodeAt(0);
const ZERO = '0'.charCodeAt(0);
const LOWER_U = 'u'.charCodeAt(0);
const LOWER_X = 'x'.charCodeAt(0);
const UPPER_X = 'X'.charCodeAt(0);
const SPACE = 0x20;

/** HTML’s names of printable ASCII. */
const ENTITIES: ReadonlyMap<string, string> = new Map(
  Object.entries({
    ...{ amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", AMP: '&', LT: '<', GT: '>', QUOT: '"' },
    ...{ excl: '!', num: '#', dollar: '$', percnt: '%', lpar: '(', rpar: ')', ast: '*', plus: '+' },
    ...{ comma: ',', period: '.', sol: '/', colon: ':', semi: ';', equals: '=', quest: '?', commat: '@' },
    ...{ lsqb: '[', lbrack: '[', bsol: '\\', rsqb: ']', rbrack: ']', Hat: '^', lowbar: '_', grave: '`' },
    ...{ lcub: '{', lbrace: '{', verbar: '|', vert: '|', rcub: '}', rbrace: '}', midast: '*' },
  }),
);

/** Digits of either case; -1 for other bytes. */
const HEX = Int8Array.from({ length: 256 }, (_, byte) => {
  const digit = '0123456789abcdef'.indexOf(String.fromCharCode(byte).toLowerCase());
  return byte === 0 ? -1 : digit;
});
/** What a backslash may be before: all but letters and digits. */
const PUNCTUATION = Uint8Array.from({ length: 256 }, (_, byte) =>
  /^[ -/:-@[-`{-~]$/.test(String.fromCharCode(byte)) ? 1 : 0,
);

/** As `encodeURIComponent`, `encodeURI`, and Python’s `quote` and others with characters of their own have it. */
const URL_ESCAPES: Escaping = { marks: [PERCENT], read: (data, at) => readHex(data, at + 1, 3) };

const FORM_ESCAPES: Escaping = {
  marks: [PERCENT, PLUS],
  read: (data, at) => (data[at] === PLUS ? 256 + SPACE : readHex(data, at + 1, 3)),
};

/** `\u002f`, `\x2f`, and a backslash before what is not a letter or digit. */
const STRING_ESCAPES: Escaping = {
  marks: [BACKSLASH],
  read: (data, at) => {
    const kind = data[at + 1] ?? 0;
    if (kind === LOWER_X) return readHex(data, at + 2, 4);
    if (kind === LOWER_U && data[at + 2] === ZERO && data[at + 3] === ZERO) return readHex(data, at + 4, 6);
    return PUNCTUATION[kind] === 1 ? 2 * 256 + kind : 0;
  },
};

const PAGE_ESCAPES: Escaping = {
  marks: [AMPERSAND],
  read: (data, at) => {
    // No further than an escape may reach: a page of ampersands would be read to its end for each of them.
    const length = data.subarray(at, at + MAX_ESCAPE_BYTES).indexOf(SEMICOLON) + 1;
    if (length < 4) return 0;
    const end = at + length - 1;
    if (data[at + 1] === HASH) return readNumber(data, at + 2, end, length);
    const character = ENTITIES.get(data.toString('latin1', at + 1, end));
    return character === undefined ? 0 : length * 256 + character.charCodeAt(0);
  },
};

/** Of forms only where a value has a space: they differ in nothing else. */
export function escapingsFor(values: readonly Buffer[]): readonly Escaping[] {
  const hasSpace = values.some((value) => value.includes(SPACE));
  return [URL_ESCAPES, ...(hasSpace ? [FORM_ESCAPES] : []), STRING_ESCAPES, PAGE_ESCAPES];
}

function readHex(data: Buffer, at: number, length: number): Escape {
  const high = HEX[data[at] ?? 0] ?? -1;
  const low = HEX[data[at + 1] ?? 0] ?? -1;
  return high === -1 || low === -1 ? 0 : length * 256 + high * 16 + low;
}

/** Decimal, or hexadecimal behind an x. A number that is not a byte is 0, which no value has. */
function readNumber(data: Buffer, from: number, end: number, length: number): Escape {
  const isHex = data[from] === LOWER_X || data[from] === UPPER_X;
  const first = isHex ? from + 1 : from;
  const base = isHex ? 16 : 10;
  let code = 0;
  for (let at = first; at < end; at++) {
    const digit = HEX[data[at] ?? 0] ?? -1;
    if (digit === -1 || digit >= base) return 0;
    code = code * base + digit;
  }
  return first === end ? 0 : length * 256 + (code < 256 ? code : 0);
}

/** What the bytes mean, and where each of them begins in the data; one more is the end. */
export type Unescaped = { readonly text: Buffer; readonly starts: Uint32Array };

/**
 * What is before `ready` in the data, as one escaping means it. `resumed`: where an escape or plain byte begins, there
 * or behind. `unescaped`: absent where no escape means a byte that counts: what counts is in the data itself then.
 */
export function readEscapes(
  data: Buffer,
  { from, ready }: { readonly from: number; readonly ready: number },
  { marks, read }: Escaping,
  counts: Uint8Array,
): { readonly resumed: number; readonly unescaped?: Unescaped } {
  const ends: number[] = [];
  const escapes: Escape[] = [];
  let isAnyCounted = false;
  let resumed = Math.max(from, ready);
  for (let at = findAny(data, marks, from); at < data.length; ) {
    const found = read(data, at);
    const end = at + Math.max(1, found >> 8);
    if (found !== 0) {
      ends.push(end);
      escapes.push(found);
      if (counts[found & 255] === 1) isAnyCounted = true;
      if (at < ready && end > ready) resumed = end;
    }
    at = findAny(data, marks, end);
  }
  return isAnyCounted ? { resumed, unescaped: replace(data, from, ends, escapes) } : { resumed };
}

function replace(data: Buffer, from: number, ends: readonly number[], escapes: readonly Escape[]): Unescaped {
  const text = Buffer.allocUnsafe(data.length - from);
  const starts = new Uint32Array(text.length + 1);
  let length = 0;
  let at = from;
  const copyUntil = (end: number): void => {
    while (at < end) {
      text[length] = data[at] ?? 0;
      starts[length++] = at++;
    }
  };
  for (let which = 0; which < ends.length; which++) {
    const [end = 0, found = 0] = [ends[which], escapes[which]];
    copyUntil(end - (found >> 8));
    text[length] = found & 255;
    starts[length++] = at;
    at = end;
  }
  copyUntil(data.length);
  starts[length] = data.length;
  return { text: text.subarray(0, length), starts: starts.subarray(0, length + 1) };
}

/** Bytes that are looked at one by one, which is faster than a call where escapes are many. */
const NEAR = 48;

/** The length of the data without one. */
function findAny(data: Buffer, [mark = 0, other = mark]: readonly number[], from: number): number {
  const near = Math.min(data.length, from + NEAR);
  for (let at = from; at < near; at++) if (data[at] === mark || data[at] === other) return at;
  const first = data.indexOf(mark, near);
  const end = first === -1 ? data.length : first;
  if (other === mark) return end;
  const second = data.subarray(0, end).indexOf(other, near);
  return second === -1 ? end : second;
}
