// The guest's tar reader and writer: against tar-stream, GNU tar, and random bytes.
import { deepEqual } from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { TarError, TarReader } from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { extract, pack } from 'tar-stream';
import { encodeHeader, endMark, type TarMember } from '../../../../guest-agent/src/files/tar/writer.ts';
import { archive, block, type Member, pax, readArchive } from '../support/tar-blocks.ts';

const dir = mkdtempSync(join(tmpdir(), 'tar-test-'));
t.teardown(() => rmSync(dir, { recursive: true, force: true }));

const names = fc
  .array(
    fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }).filter((part) => !/[/\0]/.test(part)),
    {
      minLength: 1,
      maxLength: 6,
    },
  )
  .map((parts) => parts.join('/'))
  .filter((name) => !name.endsWith('/'));

t.test('what tar-stream writes is read, however it is cut', async () => {
  const members = fc.array(
    fc.record({
      name: names,
      mode: fc.integer({ min: 1, max: 0o7777 }),
      mtime: fc.nat(),
      content: fc.uint8Array({ maxLength: 3000 }),
    }),
    { maxLength: 5 },
  );
  await fc.assert(
    fc.asyncProperty(members, fc.integer({ min: 1, max: 4000 }), async (list, pieceBytes) => {
      fc.pre(list.length > 0);
      const stream = pack();
      for (const { name, mode, mtime, content } of list)
        stream.entry({ name, mode, mtime: new Date(mtime * 1000) }, Buffer.from(content));
      stream.finalize();
      const read = readArchive(await buffer(stream), () => pieceBytes);
      deepEqual(
        read.map((entry) => [Buffer.from(entry.name, 'latin1').toString(), entry.mode, entry.content]),
        list.map(({ name, mode, content }) => [name, mode, Buffer.from(content).toString('latin1')]),
      );
    }),
    { numRuns: 150 },
  );
});

t.test('what is written here is read by tar-stream and by the reader', async (t) => {
  const member: fc.Arbitrary<TarMember> = fc.record({
    flag: fc.constant('0' as const),
    name: names,
    target: fc.constant(''),
    mode: fc.nat(0o7777),
    uid: fc.nat(2 ** 31 - 1),
    gid: fc.nat(2 ** 31 - 1),
    sizeBytes: fc.constant(0),
    mtimeSeconds: fc.integer({ min: 0, max: 2 ** 33 }),
  });
  await fc.assert(
    fc.asyncProperty(member, async (given) => {
      const name = Buffer.from(given.name).toString('latin1');
      const bytes = Buffer.concat([encodeHeader({ ...given, name }), endMark()]);
      const [own] = readArchive(bytes);
      deepEqual([own?.name, own?.mode, own?.mtimeSeconds], [name, given.mode, given.mtimeSeconds]);
      const reader = extract();
      const seen: string[] = [];
      reader.on('entry', (header, content, next) => {
        seen.push(header.name);
        content.resume().on('end', next);
      });
      reader.end(bytes);
      await new Promise<void>((resolve) => reader.on('finish', () => resolve()));
      deepEqual(seen, [given.name]);
    }),
    { numRuns: 150 },
  );
  const far = encodeHeader({
    flag: '0',
    name: 'x',
    target: 'y'.repeat(300),
    mode: 0o644,
    uid: 0,
    gid: 0,
    sizeBytes: 0,
    mtimeSeconds: -5,
  });
  t.match(readArchive(Buffer.concat([far, endMark()])), [{ target: 'y'.repeat(300), mtimeSeconds: -5 }]);
});

t.test('every format of GNU tar, with long names, links and holes', (t) => {
  const tree = join(dir, 'tree');
  const deep = join(tree, 'd'.repeat(90), 'e'.repeat(90), 'f'.repeat(90));
  mkdirSync(deep, { recursive: true });
  writeFileSync(join(deep, 'long'), 'content of long');
  symlinkSync('t'.repeat(200), join(tree, 'link'));
  const hole = openSync(join(tree, 'holes'), 'w');
  for (let n = 0; n < 40; n++) writeSync(hole, `part ${n}`, n * 65_536);
  closeSync(hole);
  for (const format of ['gnu', 'pax', 'posix', 'oldgnu']) {
    for (const sparse of [
      [],
      ['--sparse', '--sparse-version=0.0'],
      ['--sparse', '--sparse-version=0.1'],
      ['--sparse', '--sparse-version=1.0'],
    ]) {
      const bytes = execFileSync('tar', ['c', `--format=${format}`, ...sparse, '-C', tree, '.'], {
        maxBuffer: 2 ** 26,
      });
      const label = `${format} ${sparse.join(' ')} ${bytes.length} bytes`;
      const read = readArchive(bytes, () => 700);
      const find = (end: string) => read.find(({ name }) => name.endsWith(end));
      t.equal(find('/long')?.content, 'content of long', label);
      t.equal(find('/link')?.target, 't'.repeat(200), label);
      const holes = find('/holes');
      t.equal(holes?.sizeBytes, 39 * 65_536 + 7, label);
      t.equal(holes?.content.slice(39 * 65_536), 'part 39', label);
      t.equal(holes?.content.slice(65_536, 65_542), 'part 1', label);
    }
  }
  const v7 = execFileSync('tar', ['c', '--format=v7', '-C', tree, 'holes'], { maxBuffer: 2 ** 26 });
  t.match(readArchive(v7), [{ name: 'holes', type: 'file' }]);
  t.end();
});

t.test('names are bytes, and headers of others are understood', (t) => {
  t.match(readArchive(archive([{ name: 'caf\xe9\xff' }])), [{ name: 'caf\xe9\xff' }]);
  t.match(readArchive(archive([{ name: 'old/', flag: '\0' }])), [{ type: 'directory', name: 'old/' }]);
  t.match(readArchive(archive([pax({ mtime: '12.5', path: 'ü' }), { name: 'x' }])), [
    { name: Buffer.from('ü').toString('latin1'), mtimeSeconds: 12, mtimeNanos: 500_000_000 },
  ]);
  t.match(readArchive(archive([pax({ mtime: '7' }, 'g'), { name: 'a' }, { name: 'b' }])), [
    { name: 'a', mtimeSeconds: 7 },
    { name: 'b', mtimeSeconds: 7 },
  ]);
  t.match(readArchive(archive([pax({ path: 'one' }), { name: 'x' }, { name: 'two' }])), [
    { name: 'one' },
    { name: 'two' },
  ]);
  for (const [flag, type] of [
    ['1', 'link'],
    ['2', 'symlink'],
  ] as const)
    t.match(
      readArchive(archive([{ name: 'l', flag, target: 'a', sizeField: '00000001000' }, { name: 'b' }])),
      [{ type }, { name: 'b' }],
      `a ${type} has no content, whatever size it says`,
    );
  t.match(readArchive(archive([{ name: 'volume', flag: 'V' }, { name: 'b' }])), [{ name: 'b' }]);
  const early = Buffer.alloc(512);
  t.match(readArchive(Buffer.concat([archive([{ name: 'a' }], { isWhole: false }), early])), [{ name: 'a' }]);
  t.match(readArchive(Buffer.concat([archive([{ name: 'a' }]), Buffer.from('rubbish')])), [{ name: 'a' }]);
  t.end();
});

t.test('what cannot be an archive is refused with a sentence', (t) => {
  const base256 =
    (...bytes: number[]): ((header: Buffer) => void) =>
    (header) =>
      void Buffer.from(bytes).copy(header, 124);
  const cases: readonly (readonly [string, Buffer, RegExp])[] = [
    ['nothing', Buffer.alloc(0), /empty/],
    ['text', Buffer.from('hello world\n'.repeat(100)), /checksum|damaged/],
    ['half a header', archive([{ name: 'a' }]).subarray(0, 300), /cut off/],
    ['no end mark', archive([{ name: 'a', content: 'x' }], { isWhole: false }), /cut off.*"a"/],
    [
      'cut in the content',
      archive([{ name: 'a', content: 'x'.repeat(2000) }]).subarray(0, 900),
      /cut off.*"a"/,
    ],
    ['an unknown type', archive([{ name: 'odd', flag: 'Z' }]), /"odd" is of the type "Z"/],
    ['a negative size', archive([{ name: 'a', patch: base256(0xff, ...Array(11).fill(0xfe)) }]), /damaged/],
    [
      'a size beyond numbers',
      archive([{ name: 'a', patch: base256(0x80, 0, 0, 0, ...Array(8).fill(0xff)) }]),
      /damaged/,
    ],
    ['no octal size', archive([{ name: 'a', sizeField: '9999' }]), /octal/],
    [
      'a huge extended header',
      archive([{ name: 'a', flag: 'x', sizeField: '77777777777' }]),
      /extended header.*too long/,
    ],
    [
      'a huge long name',
      archive([{ name: 'a', flag: 'L', sizeField: '77777777777' }]),
      /extended header.*too long/,
    ],
    [
      'PAX without a length',
      archive([{ name: 'a', flag: 'x', content: 'path=x\n' }, { name: 'b' }]),
      /malformed/,
    ],
    [
      'PAX with a wrong length',
      archive([{ name: 'a', flag: 'x', content: '99 path=x\n' }, { name: 'b' }]),
      /malformed/,
    ],
    ['PAX with a bad size', archive([pax({ size: '-1' }), { name: 'b' }]), /damaged/],
    [
      'a sparse map in reverse',
      archive([
        pax({ 'GNU.sparse.map': '512,1,0,1', 'GNU.sparse.size': '600' }),
        { name: 'b', content: 'xy' },
      ]),
      /map/,
    ],
    [
      'a sparse map beyond the file',
      archive([
        pax({ 'GNU.sparse.map': '512,100', 'GNU.sparse.size': '600' }),
        { name: 'b', content: 'x'.repeat(100) },
      ]),
      /map/,
    ],
    [
      'a sparse map without content',
      archive([pax({ 'GNU.sparse.map': '0,512', 'GNU.sparse.size': '600' }), { name: 'b' }]),
      /map/,
    ],
    [
      'a sparse map that does not end',
      archive([
        pax({ 'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.realsize': '9' }),
        { name: 'b', content: '9'.repeat(2000) },
      ]),
      /map/,
    ],
  ];
  for (const [label, bytes, pattern] of cases) {
    for (const pieceBytes of [1, 511, 65_536]) {
      t.throws(() => readArchive(bytes, () => pieceBytes), { name: 'TarError', message: pattern }, label);
    }
  }
  t.end();
});

t.test('no bytes do anything but be read or refused', (t) => {
  const flags = fc.constantFrom(...'01234567xgLKSDVMZ\0');
  const damaged = fc
    .record({
      members: fc.array(
        fc.record({
          name: fc.string({ maxLength: 120 }),
          flag: flags,
          content: fc.string({ maxLength: 700 }),
        }),
        { maxLength: 4 },
      ),
      changes: fc.array(fc.tuple(fc.nat(6000), fc.nat(255)), { maxLength: 6 }),
      isFixed: fc.boolean(),
      cutAt: fc.nat(8000),
    })
    .map(({ members, changes, isFixed, cutAt }) => {
      const patch: Member['patch'] = isFixed
        ? (header) => {
            for (const [at, value] of changes) header[at % 512] = value;
          }
        : undefined;
      const bytes = archive(members.map((member) => ({ ...member, ...(patch && { patch }) })));
      if (!isFixed) for (const [at, value] of changes) if (at < bytes.length) bytes[at] = value;
      return bytes.subarray(0, cutAt);
    });
  const read = (bytes: Buffer, pieceBytes: number): string => {
    try {
      // A sparse file may have any size: it needs no memory.
      return JSON.stringify(readSizes(bytes, pieceBytes));
    } catch (error) {
      if (error instanceof TarError) return error.message;
      throw error;
    }
  };
  fc.assert(
    fc.property(damaged, fc.integer({ min: 1, max: 1500 }), (bytes, pieceBytes) => {
      const whole = read(bytes, 1_000_000);
      if (whole !== read(bytes, pieceBytes)) throw new Error('the result depends on how the archive is cut');
    }),
    { numRuns: 1500 },
  );
  t.ok(block({ name: 'x' }).length === 512);
  t.end();
});

function readSizes(bytes: Buffer, pieceBytes: number): unknown[] {
  const seen: unknown[] = [];
  let total = 0;
  const reader = new TarReader({
    begin: (entry) => void seen.push(entry),
    content: (piece) => {
      total += piece.length;
    },
    finish: () => void seen.push(total),
  });
  for (let at = 0; at < bytes.length; at += pieceBytes) reader.push(bytes.subarray(at, at + pieceBytes));
  reader.end();
  return seen;
}
