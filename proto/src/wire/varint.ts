// Unsigned LEB128 varints as protobuf writes them, for values below 2^32.

export function varintLength(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5;
}

/** Writes `value` at `offset`; returns the offset after it. */
export function writeVarint(target: Uint8Array, offset: number, value: number): number {
  let rest = value;
  let at = offset;
  while (rest > 0x7f) {
    target[at++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[at++] = rest;
  return at;
}

/** Reads a varint and moves `cursor` after it; NaN for one that is truncated or longer than five bytes. */
export function readVarint(source: Uint8Array, cursor: { at: number }): number {
  let value = 0;
  for (let scale = 1; scale <= 0x10000000; scale *= 0x80) {
    const byte = source[cursor.at++];
    if (byte === undefined) return Number.NaN;
    value += (byte & 0x7f) * scale;
    if (byte < 0x80) return value;
  }
  return Number.NaN;
}
