// Random invalid archives, reproducible by seed.
import { gzipSync } from 'node:zlib';
import { archive, type Member, pax, withChecksum } from '../unit/guest-agent/support/tar-blocks.ts';

/** A number from 0 to `below` - 1. */
type Dice = (below: number) => number;

/** Mulberry32: small, and deterministic on every platform. */
export function makeDice(seed: number): Dice {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

/** `out`, `up` and `abs` are links in the destination that lead outside, `inside` is one that does not. */
const PARTS = [
  ...['a', 'b', 'c', 'd', 'e', 'ü', 'a', 'b', 'c', 'd', 'inside'],
  ...['..', '.', '', 'out', 'up', 'abs', 'loop', 'f', 'x'.repeat(120)],
];
const TARGETS = [
  'a',
  '../a',
  '../../..',
  '/fuzz/outside/f',
  '/etc/passwd',
  'out/f',
  'inside/f',
  '',
  '/',
  '.',
];
const FLAGS = '000000000000112222555567xgLKSDVMZ34\0';
const LENGTHS = [0, 0, 1, 511, 512, 513, 5000, 70_000];
const NUMBERS = ['-1', '0', '1', '512', '99999999999', '18446744073709551616', 'x', '', '1e9', '0x10'];
const KEYS = [
  ...['path', 'linkpath', 'size', 'mtime', 'uid', 'comment', 'GNU.sparse.major', 'GNU.sparse.minor'],
  ...['GNU.sparse.name', 'GNU.sparse.realsize', 'GNU.sparse.map', 'GNU.sparse.size', 'GNU.sparse.numblocks'],
];

export function fuzzArchive(dice: Dice): Buffer {
  const members = Array.from({ length: 1 + dice(4) }, () => fuzzMember(dice));
  const bytes = archive(members.flat(), { isWhole: dice(16) > 0 });
  return damage(dice, bytes);
}

function pick<T>(dice: Dice, items: ArrayLike<T>): T {
  return items[dice(items.length)] as T;
}

function fuzzPath(dice: Dice): string {
  const parts = Array.from({ length: 1 + dice(4) }, () => pick(dice, PARTS));
  return `${dice(6) === 0 ? '/' : ''}${parts.join('/')}${dice(12) === 0 ? '/' : ''}`;
}

function fuzzMember(dice: Dice): Member[] {
  const flag = pick(dice, FLAGS);
  // A link or directory with content is read as two members, so it is generated rarely.
  const lengthBytes = '125'.includes(flag) && dice(8) > 0 ? 0 : pick(dice, LENGTHS);
  const plain: Member = {
    name: fuzzPath(dice),
    flag,
    content: Buffer.alloc(lengthBytes, dice(256)),
    target: dice(2) === 0 ? fuzzPath(dice) : pick(dice, TARGETS),
    mode: dice(0o10000),
    ...(dice(20) === 0 && {
      sizeField: pick(dice, ['77777777777', '00000001000', '-1', 'zzz', '\x80\0\0\0\x7f\xff']),
    }),
    ...(dice(8) === 0 && { patch: (header: Buffer) => void header.writeUInt8(dice(256), dice(512)) }),
  };
  if (dice(4) > 0) return [plain];
  if (dice(3) === 0)
    return [{ name: '././@LongLink', flag: pick(dice, 'LK'), content: fuzzPath(dice) }, plain];
  const records: Record<string, string> = {};
  for (let left = 1 + dice(4); left > 0; left--)
    records[pick(dice, KEYS)] = dice(2) === 0 ? fuzzPath(dice) : pick(dice, NUMBERS);
  return [pax(records, dice(6) === 0 ? 'g' : 'x'), plain];
}

function damage(dice: Dice, bytes: Buffer): Buffer {
  const at = dice(bytes.length);
  switch (dice(20)) {
    case 0:
      return bytes.subarray(0, at);
    case 1:
      for (let left = 1 + dice(8); left > 0; left--) bytes[dice(bytes.length)] = dice(256);
      return bytes;
    case 2: {
      // Duplicates or removes a block.
      const block = at - (at % 512);
      const from = dice(2) === 0 ? block : block + 512;
      return Buffer.concat([bytes.subarray(0, dice(2) === 0 ? block + 512 : block), bytes.subarray(from)]);
    }
    case 3: {
      // Changes any byte of a header and corrects the checksum.
      const block = at - (at % 512);
      if (block + 512 > bytes.length) return bytes;
      bytes.writeUInt8(dice(256), block + dice(512));
      withChecksum(bytes.subarray(block, block + 512));
      return bytes;
    }
    case 4:
      return gzipSync(bytes);
    case 5:
      return gzipSync(bytes).subarray(0, 1 + dice(100));
    case 6: {
      const zipped = gzipSync(bytes);
      zipped[dice(zipped.length)] = dice(256);
      return zipped;
    }
    case 7:
      return Buffer.from(Array.from({ length: dice(3000) }, () => dice(256)));
    default:
      return bytes;
  }
}
