// The reader of archives where tar-stream alone would hang, accept or misread something.
import { deepEqual } from 'node:assert/strict';
import { setTimeout } from 'node:timers/promises';
import { ArchiveError, readArchive } from '@sandboxd/api/archive';
import t from 'tap';
import { fuzzArchive, makeDice } from '../../support/tar-fuzz.ts';
import { archive, type Member, pax } from '../guest-agent/support/tar-blocks.ts';

async function* pieces(bytes: Buffer, pieceBytes: number): AsyncGenerator<Uint8Array, void> {
  for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
}

/** Names, types and contents. */
async function read(bytes: Buffer, pieceBytes = 700): Promise<string[]> {
  const found: string[] = [];
  for await (const { header, body } of readArchive(pieces(bytes, pieceBytes))) {
    let content = '';
    if (header.type !== 'fifo') for await (const part of body) content += Buffer.from(part).toString();
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
    { name: 'sized/', flag: '5', sizeField: '00000000777' },
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
      'directory sized/',
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
    text: [Buffer.from('hello world\n'.repeat(100)), /not a tar archive/],
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

t.test('extended headers take a bounded time and memory', async (t) => {
  const records = (count: number, from = 0) =>
    pax(Object.fromEntries(Array.from({ length: count }, (_, n) => [`key${from + n}`, 'x'])), 'g');
  const one = pax({ comment: 'x' });
  const fails = async (name: string, message: RegExp, members: readonly Member[]) => {
    const startedAt = process.cpuUsage();
    await t.rejects(read(archive(members), 1 << 20), { name: 'ArchiveError', message }, name);
    const { user } = process.cpuUsage(startedAt);
    t.ok(user < 5e6, `${name}: ${user / 1e6} s`);
  };
  const members = Array.from({ length: 5000 }, (_, n) => [one, { name: `${n}` }]).flat();
  await fails('many global records, then members', /100 extended records/, [records(5000), ...members]);
  await fails('many global records, then no member', /bytes of headers/, [
    records(5000),
    ...Array.from({ length: 5000 }, () => one),
  ]);
  await fails('a long header', /bytes of headers/, [pax({ comment: 'x'.repeat(300_000) }), { name: 'a' }]);
  await fails('global headers without end', /bytes of headers/, Array(2000).fill(records(1)));
  deepEqual(await read(archive([records(90), one, { name: 'a' }])), ['file a']);
  const padded = Buffer.concat([archive([{ name: 'a' }]), Buffer.alloc(1 << 20)]);
  deepEqual(await read(padded), ['file a'], 'zeros behind the end are no headers');
});

t.test('random archives are read or refused', async () => {
  for (let seed = 0; seed < 1500; seed++)
    await read(fuzzArchive(makeDice(seed)), 1 + ((seed * 977) % 3000)).catch((error: unknown) => {
      if (!(error instanceof ArchiveError)) throw error;
    });
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
