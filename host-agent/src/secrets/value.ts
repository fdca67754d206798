// What a value may be: what a header can have, and long enough to be found in answers.
import { MAX_SECRET_CHARS, MIN_SECRET_CHARS } from '@sandboxd/api';

const SPACE = 0x20;
const TILDE = 0x7e;

/** A copy without one line end, as programs and editors add it. RangeError that does not show it. */
export function toValue(bytes: Buffer): Buffer {
  const end = bytes.at(-1) === 0x0a ? (bytes.at(-2) === 0x0d ? -2 : -1) : bytes.length;
  const value = Buffer.from(bytes.subarray(0, end));
  const isLong = value.length >= MIN_SECRET_CHARS && value.length <= MAX_SECRET_CHARS;
  const isPrintable = value.every((byte) => byte >= SPACE && byte <= TILDE);
  if (isLong && isPrintable && value[0] !== SPACE && value.at(-1) !== SPACE) return value;
  value.fill(0);
  throw new RangeError(
    `it is not ${MIN_SECRET_CHARS} to ${MAX_SECRET_CHARS} printable ASCII characters, without spaces at its ends`,
  );
}
