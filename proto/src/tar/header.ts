// Parses one header block of a tar archive: v7, ustar, and both GNU formats.
import { BLOCK_BYTES, TarError } from './entry.ts';

export type TarHeader = {
  readonly name: string;
  readonly mode: number;
  readonly sizeBytes: number;
  readonly mtimeSeconds: number;
  /** The type flag's character; '0' also for the zero byte of old archives. */
  readonly flag: string;
  readonly target: string;
};

const NAME = { at: 0, bytes: 100 };
const MODE = { at: 100, bytes: 8 };
const SIZE = { at: 124, bytes: 12 };
const MTIME = { at: 136, bytes: 12 };
const CHECKSUM = { at: 148, bytes: 8 };
const FLAG_AT = 156;
const TARGET = { at: 157, bytes: 100 };
const MAGIC = { at: 257, bytes: 6 };
const PREFIX = { at: 345, bytes: 155 };

type Field = { readonly at: number; readonly bytes: number };

/** Undefined for the zero block that ends an archive. Throws TarError. */
export function parseHeader(block: Buffer): TarHeader | undefined {
  const sum = sumBytes(block);
  if (sum === 0) return undefined;
  checkSum(block, sum);
  let name = textOf(block, NAME);
  // GNU's own format stores times in the place of ustar's prefix.
  const isUstar = block.toString('latin1', MAGIC.at, MAGIC.at + MAGIC.bytes) === 'ustar\0';
  if (isUstar && block[PREFIX.at] !== 0) name = `${textOf(block, PREFIX)}/${name}`;
  return {
    name,
    mode: numberOf(block, MODE) & 0o7777,
    sizeBytes: checkSize(numberOf(block, SIZE)),
    mtimeSeconds: numberOf(block, MTIME),
    flag: block[FLAG_AT] === 0 ? '0' : String.fromCharCode(block[FLAG_AT] ?? 0),
    target: block[TARGET.at] === 0 ? '' : textOf(block, TARGET),
  };
}

/** Throws TarError for an impossible file size. */
export function checkSize(sizeBytes: number): number {
  if (Number.isSafeInteger(sizeBytes) && sizeBytes >= 0) return sizeBytes;
  throw new TarError(`the archive is damaged: a member of ${sizeBytes} bytes`);
}

/** A number in octal digits, or in base 256 when the first bit is set. Throws TarError. */
export function numberOf(block: Buffer, { at, bytes }: Field): number {
  const end = at + bytes;
  const first = block[at] ?? 0;
  if ((first & 0x80) !== 0) return binaryNumber(block, at, end);
  let position = at;
  while (position < end && block[position] === 0x20) position++;
  let value = 0;
  for (; position < end; position++) {
    const byte = block[position] ?? 0;
    if (byte === 0 || byte === 0x20) break;
    if (byte < 0x30 || byte > 0x37)
      throw new TarError('the archive is damaged: a number of a header has no octal digits');
    value = value * 8 + (byte - 0x30);
  }
  return value;
}

/** Two's complement, big-endian, after the bit that marks the format. */
function binaryNumber(block: Buffer, at: number, end: number): number {
  const isNegative = ((block[at] ?? 0) & 0x40) !== 0;
  let value = isNegative ? (block[at] ?? 0) - 0x100 : (block[at] ?? 0) & 0x7f;
  for (let position = at + 1; position < end; position++) value = value * 256 + (block[position] ?? 0);
  return value;
}

function textOf(block: Buffer, { at, bytes }: Field): string {
  const end = block.indexOf(0, at);
  return block.toString('latin1', at, end < 0 || end > at + bytes ? at + bytes : end);
}

function sumBytes(block: Buffer): number {
  let sum = 0;
  for (let at = 0; at < BLOCK_BYTES; at++) sum += block[at] ?? 0;
  return sum;
}

/** The checksum counts its own field as spaces. Some old programs summed signed bytes. */
function checkSum(block: Buffer, sum: number): void {
  let own = 0;
  for (let at = CHECKSUM.at; at < CHECKSUM.at + CHECKSUM.bytes; at++) own += block[at] ?? 0;
  const expected = sum - own + CHECKSUM.bytes * 0x20;
  const stated = numberOf(block, CHECKSUM);
  if (stated === expected) return;
  let signed = expected;
  for (let at = 0; at < BLOCK_BYTES; at++) {
    if ((block[at] ?? 0) > 0x7f && (at < CHECKSUM.at || at >= CHECKSUM.at + CHECKSUM.bytes)) signed -= 0x100;
  }
  if (stated !== signed)
    throw new TarError('this is not a tar archive, or it is damaged: the checksum of a header is wrong');
}
