// Decoder for the legacy LZ4 frame that Linux compresses itself with; Node has no LZ4, and hosts may lack the tool.
import { BuilderError } from '../errors.ts';

export const LZ4_LEGACY_MAGIC = 0x184c2102;
const MAX_BLOCK_BYTES = 8 << 20;
const MIN_MATCH = 4;

/** Whole legacy frame → content. Trailing bytes that are no block (Linux appends the size) end it. */
export function decodeLz4Legacy(frame: Buffer): Buffer {
  const blocks: Buffer[] = [];
  let at = 4;
  while (at + 4 <= frame.length) {
    const size = frame.readUInt32LE(at);
    if (size === 0 || at + 4 + size > frame.length) break;
    blocks.push(decodeLz4Block(frame.subarray(at + 4, at + 4 + size)));
    at += 4 + size;
  }
  return Buffer.concat(blocks);
}

export function decodeLz4Block(block: Buffer): Buffer {
  const output = Buffer.allocUnsafe(MAX_BLOCK_BYTES);
  let from = 0;
  let to = 0;
  const readLength = (nibble: number): number => {
    let length = nibble;
    for (let byte = nibble === 15 ? 255 : 0; byte === 255; ) {
      byte = byteAt(block, from);
      from += 1;
      length += byte;
    }
    return length;
  };
  while (from < block.length) {
    const token = byteAt(block, from);
    from += 1;
    const literals = readLength(token >> 4);
    if (from + literals > block.length || to + literals > MAX_BLOCK_BYTES) throw damaged();
    block.copy(output, to, from, from + literals);
    from += literals;
    to += literals;
    if (from === block.length) break; // the last sequence has no match
    const distance = byteAt(block, from) | (byteAt(block, from + 1) << 8);
    from += 2;
    const length = readLength(token & 15) + MIN_MATCH;
    if (distance === 0 || distance > to || to + length > MAX_BLOCK_BYTES) throw damaged();
    copyMatch(output, to, distance, length);
    to += length;
  }
  return Buffer.from(output.subarray(0, to));
}

/** A match may overlap what it produces; then it repeats, and each step copies all that is there of the repetition. */
function copyMatch(output: Buffer, to: number, distance: number, length: number): void {
  const start = to - distance;
  for (let done = 0; done < length; ) {
    const step = Math.min(length - done, distance + done);
    output.copyWithin(to + done, start, start + step);
    done += step;
  }
}

function byteAt(block: Buffer, index: number): number {
  const byte = block[index];
  if (byte === undefined) throw damaged();
  return byte;
}

function damaged(): BuilderError {
  return new BuilderError('kernel_format', 'the kernel payload is not valid LZ4 data');
}
