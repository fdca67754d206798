// DER, as far as certificates and requests for them need it.
import { AppError } from './errors.ts';

const SEQUENCE = 0x30;
const SET = 0x31;

function toLength(bytes: number): Buffer {
  if (bytes < 0x80) return Buffer.of(bytes);
  const digits: number[] = [];
  for (let rest = bytes; rest > 0; rest = Math.floor(rest / 256)) digits.unshift(rest % 256);
  return Buffer.of(0x80 | digits.length, ...digits);
}

/** An element: tag, length, contents. */
export function encode(tag: number, ...contents: readonly Buffer[]): Buffer {
  const body = Buffer.concat(contents);
  return Buffer.concat([Buffer.of(tag), toLength(body.length), body]);
}

export const sequence = (...contents: readonly Buffer[]) => encode(SEQUENCE, ...contents);
export const set = (...contents: readonly Buffer[]) => encode(SET, ...contents);
export const boolean = (value: boolean) => encode(0x01, Buffer.of(value ? 0xff : 0));
export const octets = (contents: Buffer) => encode(0x04, contents);
export const utf8 = (text: string) => encode(0x0c, Buffer.from(text));

/** Not negative; the shortest form. */
export function integer(bytes: Buffer): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const digits = first < 0 ? Buffer.of(0) : bytes.subarray(first);
  const isNegative = ((digits[0] ?? 0) & 0x80) !== 0;
  return encode(0x02, isNegative ? Buffer.of(0) : Buffer.alloc(0), digits);
}

/** `unusedBits` at its end. */
export function bits(contents: Buffer, unusedBits = 0): Buffer {
  return encode(0x03, Buffer.of(unusedBits), contents);
}

/** An object identifier as `2.5.4.3`. */
export function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number);
  const bytes = [40 * first + second, ...rest].flatMap((part) => {
    const groups = [part % 128];
    for (let left = Math.floor(part / 128); left > 0; left = Math.floor(left / 128))
      groups.unshift((left % 128) | 0x80);
    return groups;
  });
  return encode(0x06, Buffer.from(bytes));
}

/** UTCTime to the end of 2049, then GeneralizedTime, as RFC 5280 wants it. */
export function time(at: Date): Buffer {
  const digits = at.toISOString().replace(/\.\d+/, '').replace(/[-:T]/g, '');
  const isLate = at.getUTCFullYear() >= 2050;
  return encode(isLate ? 0x18 : 0x17, Buffer.from(isLate ? digits : digits.slice(2)));
}

type Element = {
  readonly tag: number;
  readonly contents: Buffer;
  /** With its tag and length. */
  readonly whole: Buffer;
};

/** The elements that follow each other in `bytes`. AppError internal for what is not DER. */
export function decode(bytes: Buffer): Element[] {
  const elements: Element[] = [];
  for (let at = 0; at < bytes.length; ) {
    const tag = bytes[at] ?? 0;
    let length = bytes[at + 1] ?? 0x80;
    let head = 2;
    if (length >= 0x80) {
      const digits = length & 0x7f;
      const isReadable = digits >= 1 && digits <= 4 && at + 2 + digits <= bytes.length;
      length = isReadable ? bytes.readUIntBE(at + 2, digits) : Number.POSITIVE_INFINITY;
      head += digits;
    }
    const end = at + head + length;
    if (end > bytes.length) throw new AppError('internal', 'an element of a certificate ends behind it');
    elements.push({ tag, contents: bytes.subarray(at + head, end), whole: bytes.subarray(at, end) });
    at = end;
  }
  return elements;
}
