// Values in answers with any of their characters escaped, in streams of any chunks.
import t from 'tap';
import { Redaction } from '../../../../../host-agent/src/gateway/substitution/index.ts';

const PLAIN = 'ghp_0123456789abcdefABCDEF0123456789';
const ODD = `p/+"\\<&>='s~ %x?!(${PLAIN})`;
const SIZES = [1, 3, 16, 1000];

function redactionOf(...values: string[]): Redaction {
  return Redaction.of(values.map((value) => ({ value: Buffer.from(value) })));
}

function feed(redaction: Redaction, text: string, sizeOf: () => number): string {
  const redactor = redaction.redactor();
  const parts: Buffer[] = [];
  for (let at = 0; at < text.length; ) {
    const size = sizeOf();
    parts.push(redactor.push(Buffer.from(text.slice(at, at + size), 'latin1')));
    at += size;
  }
  parts.push(redactor.end());
  return Buffer.concat(parts).toString('latin1');
}

let seed = 11;
function random(max: number): number {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
  return Math.floor((seed / 2 ** 31) * max);
}

const hex = (character: string, digits: number) => character.charCodeAt(0).toString(16).padStart(digits, '0');
const eachCase = (text: string) => [text, text.toUpperCase()];
const NAMES: Readonly<Record<string, string>> = {
  ...{ '&': 'amp', '<': 'lt', '>': 'gt', '"': 'quot', "'": 'apos', '/': 'sol', '+': 'plus', '=': 'equals' },
  ...{ '%': 'percnt', '(': 'lpar', ')': 'rpar', _: 'lowbar', '\\': 'bsol', '?': 'quest', '!': 'excl' },
};

/** What each kind of encoder may write for a character; the first is what it must where it must not stay. */
const SPELLINGS = {
  url: (c: string) => [...eachCase(hex(c, 2)).map((digits) => `%${digits}`), ...(c === '%' ? [] : [c])],
  form: (c: string) => [
    ...eachCase(hex(c, 2)).map((digits) => `%${digits}`),
    ...(c === ' ' ? ['+'] : '%+'.includes(c) ? [] : [c]),
  ],
  string: (c: string) => [
    ...eachCase(hex(c, 4)).map((digits) => `\\u${digits}`),
    ...eachCase(hex(c, 2)).map((digits) => `\\x${digits}`),
    ...(/\W/.test(c) ? [`\\${c}`] : []),
    ...(c === '\\' ? [] : [c]),
  ],
  page: (c: string) => [
    `&#${c.charCodeAt(0)};`,
    `&#0${c.charCodeAt(0)};`,
    ...['x', 'X', 'x00'].flatMap((x) => eachCase(hex(c, 2)).map((digits) => `&#${x}${digits};`)),
    ...(c in NAMES ? [`&${NAMES[c]};`] : []),
    ...(c === '&' ? [] : [c]),
  ],
} as const;

const choose = <T>(list: readonly T[]): T => list[random(list.length)] as T;

t.test('88: each character escaped or not, with digits of any case, over any chunks', async (t) => {
  for (const [name, spell] of Object.entries(SPELLINGS))
    for (const value of [PLAIN, ODD, '%25%2541%u0041', '\\u0041\\\\x41\\', '&amp;&#65;&&lt', 'a\'b/c&d"e'])
      for (let round = 0; round < 40; round++) {
        const form = [...value].map((character) => choose(spell(character))).join('');
        const [size = 1] = [SIZES[round % SIZES.length]];
        t.equal(
          feed(redactionOf(value), `[ ${form} ]`, () => size),
          `[ ${'*'.repeat(form.length)} ]`,
          `${name} of ${value}: ${form} by ${size}`,
        );
      }
});

t.test('88: what encoders of languages write', async (t) => {
  const each = (text: string, which: RegExp, spell: (character: string) => string) =>
    text.replace(which, spell);
  const forms = {
    'Python quote()': encodeURIComponent(ODD)
      .replaceAll('%2F', '/')
      .replace(/[!'()*]/g, (c) => `%${hex(c, 2)}`),
    'JavaScript encodeURI': encodeURI(ODD),
    'JavaScript escape': encodeURIComponent(ODD).replaceAll('%2F', '/').replaceAll('%2B', '+'),
    'HTML &apos;': each(ODD, /[&<>"']/g, (c) => `&${NAMES[c]};`),
    'Go html': each(ODD, /[&<>"']/g, (c) => ({ "'": '&#39;', '"': '&#34;' })[c] ?? `&${NAMES[c]};`),
    'JSON \\u002f': each(ODD, /[^\w ]/g, (c) => `\\u${hex(c, 4)}`),
    'JSON of all': each(ODD, /./g, (c) => `\\u${hex(c, 4)}`),
    'numeric of all': each(ODD, /./g, (c) => `&#x${hex(c, 2)};`),
    'percent of all': each(ODD, /./g, (c) => `%${hex(c, 2)}`),
    'hex of any case': each(Buffer.from(ODD).toString('hex'), /[a-f]/g, (c) =>
      random(2) === 0 ? c : c.toUpperCase(),
    ),
  };
  for (const [name, form] of Object.entries(forms))
    for (const size of SIZES)
      t.equal(
        feed(redactionOf(ODD), `x${form}${form}y`, () => size),
        `x${'*'.repeat(2 * form.length)}y`,
        `${name} by ${size}`,
      );
});

t.test('91: chunks change nothing, in texts of escapes that begin, end and overlap anywhere', async (t) => {
  const values = ['aa%bb\\cc', 'a&b&a&b&', '\\\\\\\\aaaa'];
  const parts = [
    'a',
    'b',
    '%',
    '25',
    '\\',
    'u0061',
    'x61',
    '&',
    '#97;',
    'amp;',
    '%61',
    '\n',
    'cc',
    '+',
    ...values,
  ];
  for (let round = 0; round < 1500; round++) {
    const text = Array.from({ length: random(40) }, () => choose(parts)).join('');
    const whole = feed(redactionOf(...values), text, () => 10_000);
    const split = feed(redactionOf(...values), text, () => 1 + random(9));
    if (whole !== split) t.equal(split, whole, text);
    if (values.some((value) => whole.includes(value))) t.fail(`${whole} has a value: ${text}`);
    if (whole.length !== text.length) t.fail('lengths stay');
  }
});

t.test('what is no value stays, and what is held back depends on no likeness', async (t) => {
  const redaction = redactionOf(PLAIN);
  const text = `%zz %4 \\u00 \\q &#; &nosuch; &amp; + ${'\\u0061%61&#97;'.repeat(50)}`;
  for (const size of SIZES)
    t.equal(
      feed(redaction, text, () => size),
      text,
    );
  const lengths = ['%67hp', '%68hp', 'xyz%6', '\\u006', '&#103'].map((begin) => {
    const redactor = redaction.redactor();
    return [begin, 'z'.repeat(400), '%'].map((part) => redactor.push(Buffer.from(part)).length);
  });
  for (const each of lengths) t.strictSame(each, lengths[0]);
});
