// Archives that chance has changed: each becomes an image that erofs-utils accepts, or meets one sentence. SOAK=1: ten minutes of
// them (SOAK_MINUTES says how many), with seeds of their own; FUZZ_SEED runs one again.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { DEFAULT_CONVERT_LIMITS, ImageError } from '../../../../host-agent/src/images/convert/limits.ts';
import { scaled } from '../../../support/time-scale.ts';
import { archive, type Member, pax, withChecksum } from '../../guest-agent/support/tar-blocks.ts';
import { convert } from './merge.ts';
import { makeLayoutOf, skopeo, stored, World } from './world.ts';

const isSoak = process.env.SOAK === '1';
const SOAK_MS = Number(process.env.SOAK_MINUTES ?? 10) * 60_000;
const ROUNDS = 200;
const IMPORTS = isSoak ? 200 : 8;
const FIRST_SEED = Number(process.env.FUZZ_SEED ?? (isSoak ? Date.now() % 2 ** 31 : 1));
/** Small, so that no wrong number makes a test of disks of this. */
const LIMITS = { ...DEFAULT_CONVERT_LIMITS, bytes: 4 << 20, entries: 5000 };
const BLOCK = 512;

t.setTimeout(SOAK_MS + scaled(900_000));
const dir = mkdtempSync(join(tmpdir(), 'fuzz-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const image = join(dir, 'image');

const VALID: readonly (readonly Member[])[] = [
  [
    { name: './', flag: '5', mode: 0o755 },
    { name: 'd/', flag: '5', mode: 0o755 },
    { name: 'd/file', content: Buffer.alloc(5000, 'x') },
    { name: 'd/link', flag: '1', target: 'd/file' },
    { name: 'soft', flag: '2', target: 'd/file' },
    pax({ path: `d/${'long/'.repeat(40)}name`, mtime: '1500000000.25', uid: '3000000' }),
    { name: 'long', content: 'y' },
    pax({ 'SCHILY.xattr.user.a': 'value', 'SCHILY.xattr.security.capability': '\x01\0\0\x02' }),
    { name: 'attributed', mode: 0o4755, content: 'z' },
    { name: 'null', flag: '3' },
    { name: 'pipe', flag: '6' },
    pax({
      'GNU.sparse.major': '0',
      'GNU.sparse.minor': '1',
      'GNU.sparse.size': '100000',
      'GNU.sparse.map': '4096,10,90000,10',
    }),
    { name: 'sparse', content: Buffer.alloc(20, 's') },
    { name: '././@LongLink', flag: 'L', content: `${'g'.repeat(200)}\0` },
    { name: 'g', content: 'gnu' },
  ],
  [
    { name: '.wh.soft' },
    { name: 'd/.wh..wh..opq' },
    { name: 'd/new', content: 'new' },
    { name: 'hard', flag: '1', target: 'attributed' },
  ],
];

/** Numbers below a bound; the same for the same seed. */
function makeChance(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

type Chance = ReturnType<typeof makeChance>;
const NUMBERS = [
  '77777777777',
  '00000000000',
  '-0000000001',
  '40000000000',
  'zzz',
  '\x80\0\0\0\0\0\0\x01',
  '\xff'.repeat(11),
];
/** Mode, owner, group, time, device. */
const FIELDS = [100, 108, 116, 136, 329, 337];
const FLAGS = [...'01234567xgLKSDAV \0Q'];
const NAMES = [
  '..',
  '../x',
  '/',
  '.',
  '.wh.',
  '.wh..',
  '.wh..wh..opq',
  'd/../../x',
  'd/file/x',
  'soft/x',
  '\0',
  '\xff\xfe',
];

/** One change of one archive, in place or to a new one. */
function mutate(tar: Buffer, chance: Chance): Buffer {
  if (tar.length < BLOCK) return tar;
  const blocks = Math.floor(tar.length / BLOCK);
  const header = chance(blocks) * BLOCK;
  const inHeader = (at: number, text: string): Buffer => {
    const changed = Buffer.from(tar);
    changed.write(text, header + at, 'latin1');
    // With a wrong sum nothing of it would be read.
    withChecksum(changed.subarray(header, header + BLOCK));
    return changed;
  };
  const pick = (texts: readonly string[]): string => texts[chance(texts.length)] ?? '';
  switch (chance(11)) {
    case 0: {
      const changed = Buffer.from(tar);
      const at = chance(tar.length);
      changed[at] = (changed[at] ?? 0) ^ (1 << chance(8));
      return changed;
    }
    case 1:
      return tar.subarray(0, chance(tar.length));
    case 2:
      return Buffer.concat([tar.subarray(0, header), tar.subarray(header + BLOCK)]);
    case 3: {
      const from = chance(blocks) * BLOCK;
      return Buffer.concat([tar.subarray(0, header), tar.subarray(from, from + BLOCK), tar.subarray(header)]);
    }
    case 4:
      return inHeader(124, pick(NUMBERS));
    case 5:
      return inHeader(FIELDS[chance(FIELDS.length)] ?? 0, pick(NUMBERS));
    case 6:
      return inHeader(156, pick(FLAGS));
    case 7:
      return inHeader(0, `${pick(NAMES)}\0`);
    case 8:
      return inHeader(157, `${pick(NAMES)}\0`);
    case 9: {
      // Within the numbers and words of extended headers.
      const changed = Buffer.from(tar);
      const at = header + chance(64);
      changed.write(pick(['9', '0', '-', '=', '\n', '99999', ',', ' ']), at, 'latin1');
      return changed;
    }
    default:
      return Buffer.concat([tar.subarray(0, chance(tar.length)), tar.subarray(chance(tar.length))]);
  }
}

function makeLayers(seed: number): Buffer[] {
  const chance = makeChance(seed);
  return VALID.map((members) => {
    let tar: Buffer = archive(members);
    for (let count = chance(4); count > 0; count--) tar = mutate(tar, chance);
    const packed = [tar, gzipSync(tar), zstdCompressSync(tar)][chance(6)] ?? tar;
    return chance(20) === 0 ? mutate(packed, chance) : packed;
  });
}

async function* inOnePiece(bytes: Buffer): AsyncGenerator<Buffer> {
  yield bytes;
}

t.test('layers', async (t) => {
  const until = performance.now() + SOAK_MS;
  const counts = { images: 0, refused: 0 };
  const sentences = new Set<string>();
  for (let seed = FIRST_SEED; isSoak ? performance.now() < until : seed < FIRST_SEED + ROUNDS; seed++) {
    const packed = makeLayers(seed).map((layer) => ({ packed: layer }));
    try {
      await convert(image, packed, LIMITS);
      counts.images += 1;
      execFileSync('fsck.erofs', [image], { stdio: 'pipe' });
    } catch (error) {
      counts.refused += 1;
      const { name, message } = error as Error;
      // Anything else is a fault of ours.
      if (name !== ImageError.name || /[\n\0]/.test(message) || message.length > 1000) {
        t.fail(`seed ${seed}: ${(error as Error).stack}`);
        break;
      }
      sentences.add(message.replaceAll(/"[^"]*"|\d+/g, '…'));
    }
    if (readdirSync(dir).join() !== 'image') t.fail(`seed ${seed} made ${readdirSync(dir)}`);
  }
  t.comment(
    `from seed ${FIRST_SEED}: ${counts.images} images, ${counts.refused} refused with ${sentences.size} sentences`,
  );
  t.ok(counts.images > 0 && sentences.size > 10);
});

t.test('archives of images', async (t) => {
  const world = new World(t);
  const dataDir = world.path('data');
  const images = await world.openImages(dataDir);
  const layout = makeLayoutOf(world.path('layout'), { layers: VALID.map((members) => archive(members)) });
  const saved = ['docker-archive', 'oci-archive'].map((kind) => {
    const path = world.path('archive');
    skopeo('copy', `oci:${layout}:latest`, `${kind}:${path}`);
    return execFileSync('cat', [path], { maxBuffer: 1 << 28 });
  });
  const counts = { images: 0, refused: 0 };
  for (let seed = FIRST_SEED; seed < FIRST_SEED + IMPORTS; seed++) {
    const chance = makeChance(seed);
    let bytes: Buffer = saved[chance(2)] ?? Buffer.alloc(0);
    for (let count = 1 + chance(3); count > 0; count--) bytes = mutate(bytes, chance);
    const made = await images.import(inOnePiece(bytes), undefined).then(
      ({ digest }) => digest,
      (error: Error) => error,
    );
    if (typeof made === 'string') {
      counts.images += 1;
      await images.delete(made);
    } else {
      counts.refused += 1;
      t.match(
        made,
        { code: 'invalid_argument', message: /^[^\n\0]{1,1000}$/ },
        `seed ${seed}: ${made.message}`,
      );
    }
    t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 }, `seed ${seed}`);
  }
  t.comment(`from seed ${FIRST_SEED}: ${counts.images} images, ${counts.refused} refused`);
  await images.close();
});
