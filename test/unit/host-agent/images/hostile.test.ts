// Archives that somebody made to do harm: each meets one clear sentence, or harms nothing but its own image.
import { createHash } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { DEFAULT_CONVERT_LIMITS, ImageError } from '../../../../host-agent/src/images/convert/limits.ts';
import { archive, type Member, pax } from '../../guest-agent/support/tar-blocks.ts';
import { convert, type Layer, merge } from './merge.ts';

const dir = mkdtempSync(join(tmpdir(), 'hostile-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const image = join(dir, 'image');

const file = (name: string, content: string | Buffer = 'x'): Member => ({ name, content });
const symlink = (name: string, target: string): Member => ({ name, flag: '2', target });
const link = (name: string, target: string): Member => ({ name, flag: '1', target });
const small = { ...DEFAULT_CONVERT_LIMITS, entries: 1000, bytes: 1 << 20, layers: 8 };
const long = 'n'.repeat(300);
const binary = (value: number) => (header: Buffer) => {
  header.fill(value < 0 ? 0xff : 0, 124, 136);
  header[124] = value < 0 ? 0xff : 0x80;
  header.writeBigInt64BE(BigInt.asIntN(64, BigInt(value)), 128);
};

const REFUSED: Readonly<Record<string, readonly [layers: readonly Layer[], message: RegExp]>> = {
  'a name that leads out': [[[file('../../etc/passwd')]], /"\.\.\/\.\.\/etc\/passwd" leads out of the root/],
  'a name that leads out in its middle': [[[file('a/../../b')]], /leads out/],
  'a name that is two dots': [[[{ name: '..', flag: '5' }]], /leads out/],
  'an extended name that leads out': [[[pax({ path: '../x' }), file('a')]], /leads out/],
  'a hard link that leads out': [[[link('a', '../../etc/shadow')]], /leads out/],
  'a hard link to nothing': [[[link('a', 'b')]], /"a" is a hard link to "b", which is not there/],
  'a hard link to what a whiteout hid': [[[file('b')], [file('.wh.b', ''), link('a', 'b')]], /not there/],
  'a hard link to a directory': [[[{ name: 'd', flag: '5' }, link('a', 'd')]], /which is a directory/],
  'a hard link to itself': [[[link('a', 'a')]], /not there/],
  'a hard link to the root': [[[link('a', '/')]], /name of the root/],
  'a whiteout of two dots': [[[file('.wh...', '')]], /whiteout of no name/],
  'a whiteout of one dot': [[[file('.wh..', '')]], /whiteout of no name/],
  'a whiteout of nothing': [[[file('.wh.', '')]], /whiteout of no name/],
  'a whiteout that leads out': [[[file('../.wh.etc', '')]], /leads out/],
  'a file of the name of the root': [[[file('./')], []], /which is not a directory|name of the root|./],
  'a file beneath a file': [[[file('a'), file('a/b')]], /"a\/b" lies beneath "a", which is not a directory/],
  'a file beneath a device': [[[{ name: 'a', flag: '4' }, file('a/b')]], /not a directory/],
  'links in a circle': [[[symlink('a', 'b'), symlink('b', 'a'), file('a/c')]], /more than 40 symbolic links/],
  'a link to itself': [[[symlink('a', 'a/a/a'), file('a/c')]], /more than 40 symbolic links/],
  'a link to nothing': [[[symlink('a', '')]], /which is not a path/],
  'a link to a zero byte': [[[pax({ linkpath: 'a\0b' }), symlink('a', 'x')]], /which is not a path/],
  'a link of 5000 bytes': [
    [[pax({ linkpath: 'l/'.repeat(2500) }), symlink('a', 'x')]],
    /which is not a path/,
  ],
  'a link through a name that is too long': [
    [[pax({ linkpath: long }), symlink('a', 'x'), file('a/b')]],
    /too long/,
  ],
  'a name of 64 KiB': [
    [[pax({ path: 'a/'.repeat(32_768) }), file('a')]],
    /has 65536 bytes; a path has at most 4095/,
  ],
  'a part of a name of 300 bytes': [[[pax({ path: long }), file('a')]], /has 300 bytes; at most 255/],
  'directories 2000 deep': [
    [[pax({ path: 'a/'.repeat(2000) }), file('a')]],
    /2000 directories deep; at most 1024/,
  ],
  'a zero byte in a name': [[[pax({ path: 'a\0b' }), file('a')]], /has a zero byte/],
  'a size of 2^63': [[[{ name: 'a', patch: binary(2 ** 62) }]], /a member of \d+ bytes/],
  'a negative size': [[[{ name: 'a', patch: binary(-1) }]], /a member of -1 bytes/],
  'a negative size in an extended header': [[[pax({ size: '-5' }), file('a')]], /a member of NaN bytes/],
  'a size with letters': [[[{ name: 'a', sizeField: 'zzzzzzzzzzz' }]], /no octal digits/],
  'a content that the archive does not have': [[[{ name: 'a', sizeField: '00000100000' }]], /cut off/],
  'a file larger than any image': [
    [[{ name: 'a', sizeField: '77777777777' }]],
    /has 8589934591 bytes; an image has at most/,
  ],
  'a sparse file of an exbibyte': [
    [[pax({ 'GNU.sparse.size': String(2 ** 52), 'GNU.sparse.map': '0,1' }), file('a', 'x')]],
    /is a sparse file of 4503599627370496 bytes/,
  ],
  'a sparse map that goes back': [
    [[pax({ 'GNU.sparse.size': '100', 'GNU.sparse.map': '50,1,0,1' }), file('a', 'xx')]],
    /out of order/,
  ],
  'an owner below zero': [
    [[{ name: 'a', patch: (header) => header.fill(0xff, 108, 116) }]],
    /a user of the number -1/,
  ],
  'an owner that is no number': [[[pax({ uid: 'root' }), file('a')]], /a user of the number NaN/],
  'an owner above all': [[[pax({ gid: '4294967295' }), file('a')]], /a group of the number 4294967295/],
  'a device number above all': [
    [[{ name: 'a', flag: '3', patch: (header) => header.write('7777777', 329) }]],
    /a device of the number/,
  ],
  'extended attributes without end': [
    [[pax({ 'SCHILY.xattr.user.a': 'v'.repeat(66_000) }), file('a')]],
    /more extended attributes than Linux stores/,
  ],
  'an unknown type': [[[{ name: 'a', flag: 'Q' }]], /of the type "Q", which is not known/],
  'a wrong checksum': [
    [Buffer.concat([Buffer.from('no tar at all'.padEnd(512, '0')), Buffer.alloc(1024)])],
    /not a tar archive/,
  ],
  'more entries than any image': [
    [Array.from({ length: 1001 }, (_, n) => file(`f${n}`, ''))],
    /more than 1000 entries/,
  ],
  'a million entries of one name': [
    [Array.from({ length: 1001 }, () => file('f', ''))],
    /more than 1000 entries/,
  ],
  'more content than any image': [
    [[file('a', Buffer.alloc(600_000)), file('a', Buffer.alloc(600_000))]],
    /have more than 1048576 bytes/,
  ],
};

for (const [name, [layers, message]] of Object.entries(REFUSED)) {
  if (name === 'a file of the name of the root') continue;
  t.test(`refused: ${name}`, async (t) => {
    t.throws(() => merge(layers, small), { message });
  });
}

t.test('refused: a file of the name of the root', async (t) => {
  t.throws(() => merge([[{ name: '.', flag: '0', content: 'x' }]], small), {
    message: /name of the root directory/,
  });
});

t.test('refused: whiteouts that remove and add the same again and again', async (t) => {
  const many = Array.from({ length: 2000 }, (_, n) => file(`d/${n}`, ''));
  const layers: Layer[] = [many, ...Array.from({ length: 3000 }, () => [file('d/x', ''), file('.wh.d', '')])];
  // Each hides what the one before added, so that nothing is looked at twice.
  t.same(merge(layers, { ...small, entries: 1e6 }), ['/d/', '/d/x 0']);
  const again = Array.from({ length: 3000 }, () => file('.wh.d', ''));
  t.throws(() => merge([[...many, ...again]], { ...small, entries: 1e6 }), { message: /again and again/ });
});

const REFUSED_PACKED: Readonly<Record<string, readonly [packed: Buffer, message: RegExp, diffId?: string]>> =
  {
    'a gzip archive that is cut off': [gzipSync(archive([file('a')])).subarray(0, 40), /layer 1 is damaged/],
    'a gzip archive with a wrong byte': [
      damage(gzipSync(archive([file('a', 'y'.repeat(4000))]))),
      /damaged|digest|checksum|tar/,
    ],
    'a zstd archive that is cut off': [zstdCompressSync(archive([file('a')])).subarray(0, 30), /layer 1/],
    'a bomb': [gzipSync(Buffer.alloc(3 << 20)), /unpacks to more than 1048576 bytes/],
    'another digest than the image says': [
      gzipSync(archive([file('a')])),
      /unpacks to sha256:[0-9a-f]+, and the image says that it should be sha256:00/,
      `sha256:${'00'.repeat(32)}`,
    ],
  };

for (const [name, [packed, message, diffId]] of Object.entries(REFUSED_PACKED)) {
  t.test(`refused: ${name}`, async (t) => {
    const layer = { packed, ...(diffId !== undefined && { diffId }) };
    await t.rejects(convert(image, [layer], small), { message, name: ImageError.name });
  });
}

t.test('refused: a packed layer that comes again and again', async (t) => {
  const layer = { packed: gzipSync(archive([file('zeros', Buffer.alloc(100 << 20))])) };
  const limits = { ...small, bytes: 2 ** 40 };
  await t.rejects(convert(image, [layer, layer, layer], limits), {
    message: /layer 3: with it the image unpacks to more than 400 times the \d+ bytes of its layers/,
  });
});

t.test('refused: a thousand layers', async (t) => {
  await t.rejects(
    convert(
      image,
      Array.from({ length: 9 }, () => [file('a')]),
      small,
    ),
    { message: /has 9 layers/ },
  );
});

t.test('taken: gzip in pieces, and what lies behind an archive', async (t) => {
  const whole = archive([file('a', 'hello')]);
  const pieces = Buffer.concat([gzipSync(whole.subarray(0, 700)), gzipSync(whole.subarray(700))]);
  const plain = await convert(image, [whole], small);
  for (const packed of [
    pieces,
    gzipSync(Buffer.concat([whole, Buffer.alloc(9000, 1)])),
    zstdCompressSync(whole),
  ])
    t.equal((await convert(image, [{ packed }], small)).digest, plain.digest);
  const diffId = `sha256:${createHash('sha256').update(whole).digest('hex')}`;
  t.equal((await convert(image, [{ packed: pieces, diffId }], small)).digest, plain.digest);
});

t.test(
  'taken: a layer without its end mark, as umoci writes them, but not one that is cut off',
  async (t) => {
    const whole = archive([file('a', 'hello')]);
    const plain = await convert(image, [whole], small);
    for (const bytes of [1024, 512 + 100, 512 + 5])
      t.equal((await convert(image, [whole.subarray(0, bytes)], small)).digest, plain.digest);
    for (const bytes of [512 + 4, 300])
      await t.rejects(convert(image, [whole.subarray(0, bytes)], small), { message: /cut off/ });
  },
);

t.test('taken: names that only a host would mind', async (t) => {
  const lower = [symlink('etc', '/../../../../../../etc'), symlink('proc', '/proc/self/root')];
  const tree = merge([lower, [file('etc2/passwd'), symlink('out', '../../../../tmp'), file('out/evil')]]);
  t.ok(tree.includes('/tmp/evil 1'), 'within the image');
  t.same(readdirSync(dir), ['image'], 'nothing else was made');
});

t.test('a link that the image has for its own root directory is followed within it', async (t) => {
  t.throws(() => merge([[symlink('a', '/../a'), file('a/x')]]), { message: /more than 40/ });
});

function damage(bytes: Buffer): Buffer {
  const copy = Buffer.from(bytes);
  copy[copy.length - 6] = (copy[copy.length - 6] ?? 0) ^ 0xff;
  return copy;
}
