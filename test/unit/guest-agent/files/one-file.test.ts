// One file out and an archive in, as a client asks for them: what is refused, with which words, and what is told of the rest.
import '../support/addon-dir.ts';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Channel, Result } from '@sandboxd/proto';
import t from 'tap';
import { push, startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';
import { archive } from '../support/tar-blocks.ts';

const dir = mkdtempSync(join(tmpdir(), 'one-file-'));
t.teardown(() => rmSync(dir, { recursive: true }));

type Pulled = { readonly result: Result; readonly text: string; readonly file: object | undefined };

function pull(channel: Channel, path: string, maxBytes = 2 ** 40): Promise<Pulled> {
  const chunks: Buffer[] = [];
  let file: object | undefined;
  return new Promise((resolve, reject) => {
    const stream = channel.open(
      { filePull: { path, maxBytes } },
      {
        started: (_pid, info) => {
          file = info;
        },
        data: (_flow, chunk) => {
          chunks.push(Buffer.from(chunk));
          stream.consumed(chunk.length);
        },
        result: (result) => resolve({ result, text: Buffer.concat(chunks).toString('latin1'), file }),
        lost: ({ kind }) => reject(new Error(`lost: ${kind}`)),
      },
    );
  });
}

t.test('a file has its size, whatever it says of it, and as much of it as was asked for', async (t) => {
  const channel = await startLocalAgent(t).connect();
  for (const size of [0, 1, 16_383, 16_384, 70_000]) {
    const path = join(dir, `of-${size}`);
    const content = Buffer.alloc(size, 'abcdefg').toString();
    writeFileSync(path, content);
    for (const maxBytes of [0, 1, size, size + 1]) {
      const wanted = Math.min(size, maxBytes);
      const { result, text, file } = await pull(channel, path, maxBytes);
      t.ok(result.filePull, `${size} bytes, at most ${maxBytes}`);
      t.ok(text === content.slice(0, wanted));
      t.match(file, { isSizeKnown: true, sizeBytes: size, contentBytes: wanted });
    }
  }
  const { text, file } = await pull(channel, '/proc/self/status');
  t.match(text, /^Name:/, 'the kernel says that it is empty');
  t.match(file, { isSizeKnown: true, sizeBytes: text.length, contentBytes: text.length });
});

t.test('one whose end is not in sight is read to where the client wants it', async (t) => {
  const channel = await startLocalAgent(t).connect();
  // More than is read beforehand, of a size that nobody states.
  const path = `/proc/${process.pid}/pagemap`;
  const { result, text, file } = await pull(channel, path, 3_000_000);
  t.ok(result.filePull);
  t.equal(text.length, 3_000_000);
  t.match(file, { isSizeKnown: false });
});

t.test('what cannot be read is refused by name, and nothing of it stays open', async (t) => {
  const channel = await startLocalAgent(t).connect();
  mkdirSync(join(dir, 'directory'));
  symlinkSync('loop', join(dir, 'loop'));
  const server = createServer().listen(join(dir, 'socket'));
  await new Promise((resolve) => server.once('listening', resolve));
  t.teardown(() => server.close());
  const before = openDescriptors();
  for (const [path, code, message] of [
    [join(dir, 'directory'), 'is_directory', /directory" is a directory; format=tar gives what is in it$/],
    [join(dir, 'absent'), 'not_found', /absent" does not exist$/],
    [join(dir, 'of-1/below'), 'not_directory', /goes through something that is no directory$/],
    [join(dir, 'loop'), 'invalid', /too many symbolic links/],
    [join(dir, 'socket'), 'invalid', /is a socket; only regular files can be read$/],
    ['/dev/null', 'invalid', /is a character device; only regular files/],
    ['/'.padEnd(5000, 'x'), 'invalid', /too long a name for Linux$/],
    ['relative', 'invalid', /^path "relative" is not an absolute path$/],
    ['/a\0b', 'invalid', /not an absolute path$/],
  ] as const) {
    const { result, text } = await pull(channel, path);
    t.match(result.error, { code, message }, path.slice(0, 80));
    t.equal(text, '');
  }
  t.equal(openDescriptors(), before);
});

const TWO = archive([
  { name: 'one', content: 'first' },
  { name: 'sub/two', content: 'x'.repeat(100_000) },
]);

t.test('an archive may be compressed, and come in any pieces', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const before = openDescriptors();
  for (const [name, bytes, pieceBytes] of [
    ['plain', TWO, 65_536],
    ['plain, begun by one byte', TWO, 1],
    ['gzip', gzipSync(TWO), 65_536],
    ['gzip, byte by byte', gzipSync(TWO), 1],
  ] as const) {
    const to = join(dir, `to ${name}`);
    let sent = 0;
    const { filePush } = await push(channel, to, bytes, () => (sent++ < 5 ? pieceBytes : 65_536)).done;
    t.match(filePush, { files: 2, bytes: 100_005 }, name);
    t.equal(readFileSync(join(to, 'one'), 'utf8'), 'first');
    t.equal(readFileSync(join(to, 'sub/two'), 'utf8').length, 100_000);
  }
  t.equal(openDescriptors(), before);
});

t.test('what is no archive, or not all of one, is said, with what was written before', async (t) => {
  const channel = await startLocalAgent(t).connect();
  const before = openDescriptors();
  const zipped = gzipSync(TWO, { level: 0 });
  const damaged = Buffer.from(zipped);
  damaged.fill(0xff, 60_000, 60_100);
  damaged.writeUInt32LE(0, damaged.length - 8);
  const random = (hex: string) => Buffer.concat([Buffer.from(hex, 'hex'), Buffer.alloc(600)]);
  for (const [name, bytes, message] of [
    [
      'zstd',
      random('28b52ffd'),
      /^this is zstd; send a tar archive, plain or gzip; 0 files were written before$/,
    ],
    ['xz', random('fd377a58'), /^this is xz;/],
    ['bzip2', random('425a68'), /^this is bzip2;/],
    ['zip', random('504b0304'), /^this is zip;/],
    [
      'cut gzip',
      zipped.subarray(0, 50_000),
      /^the archive is cut off: its gzip stream has no end; 1 file was written/,
    ],
    ['damaged gzip', damaged, /^the archive is damaged: its gzip stream cannot be read \(.+\)/],
    ['cut', TWO.subarray(0, 50_000), /; 1 file was written before$/],
    ['one byte', Buffer.of(1), /; 0 files were written before$/],
    ['nothing', Buffer.alloc(0), /; 0 files were written before$/],
  ] as const) {
    const { error } = await push(channel, join(dir, `bad ${name}`), bytes).done;
    t.match(error, { code: 'invalid', message }, name);
  }
  const { error } = await push(channel, join(dir, 'of-1'), TWO).done;
  t.match(error, { message: /of-1/ }, 'nor is a file a destination');
  t.equal(openDescriptors(), before);
});
