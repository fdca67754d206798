// The reader of archives where tar-stream alone would hang, accept or misread something.
import { deepEqual } from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import { ArchiveError, readArchive } from '@sandboxd/api/archive';
import t from 'tap';
import { archive, type Member, pax, withChecksum } from '../guest-agent/support/tar-blocks.ts';

async function* pieces(bytes: Buffer, pieceBytes: number): AsyncGenerator<Uint8Array, void> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

/** Names, types and contents. */
async function read(bytes: Buffer, pieceBytes = 700): Promise<string[]> {
  const found: string[] = [];
  for await (const { header, body } of readArchive(pieces(bytes, pieceBytes))) {
    let content = '';
    if (header.type === 'file') for await (const part of body) content += Buffer.from(part).toString();
    found.push(`${header.type} ${header.name} ${content}`.trim());
  }
  return found;
}

const base256 =
  (...bytes: number[]): ((header: Buffer) => void) =>
  (header) =>
    void Buffer.from(bytes).copy(header, 124);

t.test('members are read, however they are cut', async () => {
  const bytes = archive([
    { name: 'a', content: 'one' },
    { name: 'old/', flag: '0' },
    pax({ path: 'ü'.repeat(80) }),
    { name: 'x', content: 'two' },
    { name: 'unread', flag: '6', content: 'z'.repeat(5000) },
    { name: 'empty' },
    { name: 'v7', content: '3', patch: (header) => header.fill(0, 257, 265) },
  ]);
  for (const pieceBytes of [1, 511, 513, 100_000])
    deepEqual(await read(bytes, pieceBytes), [
      'file a one',
      'directory old/',
      `file ${'ü'.repeat(80)} two`,
      'fifo unread',
      'file empty',
      'file v7 3',
    ]);
  deepEqual(await read(Buffer.alloc(1024)), []);
});

t.test('an archive that is cut anywhere is refused, even behind a file of zeros', async (t) => {
  const members: Member[] = [{ name: 'a', content: 'x'.repeat(700) }, pax({ mtime: '1' }), { name: 'b' }];
  const whole = archive([...members, { name: 'zeros', content: Buffer.alloc(2048) }]);
  for (let bytes = 1; bytes < whole.length - 512; bytes += 7)
    await t.rejects(read(whole.subarray(0, bytes)), { name: 'ArchiveError', message: /cut off/ }, `${bytes}`);
  for (let bytes = 512; bytes < whole.length - 512; bytes += 512)
    await t.rejects(read(whole.subarray(0, bytes)), { name: 'ArchiveError', message: /cut off/ }, `${bytes}`);
  await t.resolves(read(whole.subarray(0, whole.length - 512)), 'one block of the end mark is enough');
  await t.rejects(read(Buffer.alloc(0)), { message: 'the archive is empty' });
});

t.test('what is no archive is refused, and never waited for', async (t) => {
  const cases: Readonly<Record<string, readonly [Buffer, RegExp]>> = {
    text: [Buffer.from('hello world\n'.repeat(100)), /no tar archive/],
    'a size that is no number': [
      archive([{ name: 'a', content: 'x', patch: base256(0x81, ...Array(11).fill(1)) }]),
      /a member of null bytes/,
    ],
    'a size beyond numbers': [
      archive([{ name: 'a', patch: base256(0x80, 0, 0, 0, ...Array(8).fill(0xff)) }]),
      /a member of \d/,
    ],
    'a negative size': [archive([{ name: 'a', patch: base256(0xff, ...Array(11).fill(0xfe)) }]), /damaged/],
    'no octal size': [archive([{ name: 'a', sizeField: '9999' }]), /damaged/],
    'an extended header of 8 GB': [
      archive([{ name: 'a', flag: 'x', sizeField: '77777777777' }]),
      /exceeds max size/,
    ],
    'a name of 8 GB': [archive([{ name: 'a', flag: 'L', sizeField: '77777777777' }]), /exceeds max size/],
    'a size of 1 GB': [archive([{ name: 'a', content: 'x', sizeField: '10000000000' }]), /cut off/],
    'PAX with a bad size': [archive([pax({ size: '-1' }), { name: 'b' }]), /damaged/],
    'rubbish behind the end': [Buffer.concat([archive([{ name: 'a' }]), Buffer.alloc(600, 'x')]), /./],
  };
  for (const [name, [bytes, message]] of Object.entries(cases))
    await t.rejects(read(bytes), { name: 'ArchiveError', message }, name);
});

t.test('extended headers without end take no memory', async (t) => {
  const header = archive([pax({ comment: 'x'.repeat(1 << 20) }, 'g')], { isWhole: false });
  async function* many() {
    for (let count = 0; count < 200; count++) {
      yield header;
      if (count % 20 === 0) await setTimeout(0);
    }
    yield archive([{ name: 'a' }]);
  }
  const before = process.memoryUsage().rss;
  for await (const { header } of readArchive(many())) t.equal(header.name, 'a');
  const grownMib = (process.memoryUsage().rss - before) / 2 ** 20;
  t.ok(grownMib < 100, `200 MiB of headers took ${grownMib.toFixed()} MiB`);
});

t.test('random damage is read or refused', async () => {
  const whole = archive([{ name: 'a', content: 'x'.repeat(600) }, pax({ path: 'b' }), { name: 'x' }]);
  for (let seed = 0; seed < 1500; seed++) {
    const bytes = Buffer.from(whole);
    const block = (seed % 4) * 512;
    bytes[block + ((seed * 7) % 512)] = (seed * 31) & 0xff;
    if (seed % 2 === 0) withChecksum(bytes.subarray(block, block + 512));
    await read(bytes).catch((error: unknown) => {
      if (!(error instanceof ArchiveError)) throw error;
    });
  }
});

t.test('errors of the source and of the reader are not changed, and the source is closed', async (t) => {
  const bytes = archive([{ name: 'a', content: 'x'.repeat(5000) }]);
  let isClosed = false;
  async function* source(error?: Error) {
    try {
      yield bytes.subarray(0, 1000);
      if (error !== undefined) throw error;
      for (;;) yield Buffer.alloc(512, 'x');
    } finally {
      isClosed = true;
    }
  }
  const lost = new Error('lost');
  const use = async (from: AsyncIterable<Uint8Array>, onMember?: () => void) => {
    for await (const { body } of readArchive(from)) {
      onMember?.();
      for await (const _ of body);
    }
  };
  await t.rejects(use(source(lost)), lost);
  const full = new Error('disk full');
  isClosed = false;
  await t.rejects(
    use(source(), () => {
      throw full;
    }),
    full,
  );
  await setTimeout(20);
  t.ok(isClosed);
});
