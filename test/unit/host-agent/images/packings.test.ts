// Layers and archives in every way of packing that there is: taken, or refused by its name.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import t from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { archive } from '../../guest-agent/support/tar-blocks.ts';
import { convert } from './merge.ts';
import { makeLayout, skopeo, World } from './world.ts';

t.setTimeout(scaled(120_000));
const dir = mkdtempSync(join(tmpdir(), 'packings-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const tar = archive([
  { name: 'a', content: 'hello'.repeat(3000) },
  { name: 'b', content: 'x' },
]);
const diffId = `sha256:${createHash('sha256').update(tar).digest('hex')}`;
const [first, rest] = [tar.subarray(0, 4096), tar.subarray(4096)];

/** A frame that readers of zstd skip. */
function skipped(bytes: number, kind = 0): Buffer {
  const frame = Buffer.alloc(8 + bytes, 'skip');
  frame.writeUInt32LE(0x184d2a50 + kind, 0);
  frame.writeUInt32LE(bytes, 4);
  return frame;
}
const by = (...command: readonly [string, ...string[]]) =>
  execFileSync(command[0], command.slice(1), { input: tar });

const TAKEN: Readonly<Record<string, Buffer>> = {
  'not at all': tar,
  gzip: gzipSync(tar),
  'gzip in two members': Buffer.concat([gzipSync(first), gzipSync(rest)]),
  'gzip after an empty member': Buffer.concat([gzipSync(''), gzipSync(tar)]),
  'gzip before an empty member': Buffer.concat([gzipSync(tar), gzipSync('')]),
  'gzip with a name and a comment': by('gzip', '-c'),
  'gzip before zeros': Buffer.concat([gzipSync(tar), Buffer.alloc(512)]),
  zstd: zstdCompressSync(tar),
  'zstd in two frames': Buffer.concat([zstdCompressSync(first), zstdCompressSync(rest)]),
  'zstd after a frame to skip': Buffer.concat([skipped(16), zstdCompressSync(tar)]),
  'zstd after several frames to skip': Buffer.concat([skipped(0), skipped(9, 15), zstdCompressSync(tar)]),
  'zstd around a frame to skip': Buffer.concat([
    zstdCompressSync(first),
    skipped(3, 7),
    zstdCompressSync(rest),
  ]),
  'zstd before a frame to skip': Buffer.concat([zstdCompressSync(tar), skipped(100)]),
  'zstd after an empty frame': Buffer.concat([zstdCompressSync(''), zstdCompressSync(tar)]),
  'zstd with its largest usual window': by('zstd', '-q', '-c', '--long=27'),
};

const REFUSED: Readonly<Record<string, readonly [packed: Buffer, message: RegExp]>> = {
  xz: [by('xz', '-c'), /packed by xz; gzip, zstd and none are taken$/],
  bzip2: [Buffer.from('BZh91AY&SY'), /packed by bzip2; /],
  lz4: [by('lz4', '-q', '-c'), /packed by lz4; /],
  lzip: [Buffer.from('LZIP\u0001.........'), /packed by lzip; /],
  zip: [Buffer.from('PK\u0003\u0004..........'), /packed by zip; /],
  compress: [Buffer.from([0x1f, 0x9d, 0x90, 0, 0, 0]), /packed by compress; /],
  'zstd with a huge window': [
    by('zstd', '-q', '-c', '--ultra', '-22', '--long=31'),
    /window of more than 128 MiB/,
  ],
  'zstd that is cut': [zstdCompressSync(tar).subarray(0, -5), /damaged: it cannot be unpacked/],
  'gzip that is cut': [gzipSync(tar).subarray(0, -5), /damaged: it cannot be unpacked/],
  'gzip before words': [
    Buffer.concat([gzipSync(tar), Buffer.from('words')]),
    /damaged: it cannot be unpacked/,
  ],
  'gzip, then zstd': [Buffer.concat([gzipSync(first), zstdCompressSync(rest)]), /damaged|cut off/],
  'zstd, then gzip': [Buffer.concat([zstdCompressSync(first), gzipSync(rest)]), /damaged|cut off|unpacks to/],
  'frames to skip, and nothing': [skipped(100), /unpacks to/],
  'gzip in gzip': [gzipSync(gzipSync(tar)), /archive|unpacks to/],
  deflate: [deflateSync(tar), /archive|unpacks to/],
};

const image = (name: string) => join(dir, name.replaceAll(' ', '-'));

t.test('layers that are taken are one image', async (t) => {
  const { digest } = await convert(image('plain'), [tar]);
  for (const [name, packed] of Object.entries(TAKEN))
    t.equal((await convert(image(name), [{ packed, diffId }])).digest, digest, name);
});

for (const [name, [packed, message]] of Object.entries(REFUSED)) {
  t.test(`refused: a layer packed as ${name}`, async (t) => {
    await t.rejects(convert(image(name), [{ packed, diffId }]), { name: 'ImageError', message });
    await t.rejects(convert(image(name), [{ packed, diffId }]), { message: /^layer 1\b/ });
  });
}

t.test('a plain layer whose first file has the name of a packing', async (t) => {
  for (const name of ['BZh9', 'LZIP', 'PK'])
    t.equal((await convert(image(name), [archive([{ name, content: 'x' }])])).entries, 1, name);
});

t.test('whole archives', async (t) => {
  const world = new World(t);
  const images = await world.openImages(world.path('data'));
  const path = world.path('saved.tar');
  const layout = makeLayout(world.path('layout'), { layers: [[{ name: 'a', content: 'x' }]] });
  skopeo('copy', `oci:${layout}:latest`, `docker-archive:${path}:a:b`);
  const send = (pack: string) => {
    async function* pieces(): AsyncGenerator<Buffer> {
      yield execFileSync('sh', ['-c', `${pack} < ${path}`], { maxBuffer: 2 ** 28 });
    }
    return images.import(pieces(), undefined);
  };
  const { digest } = await send('cat');
  for (const pack of [
    'gzip -c',
    'zstd -q -c',
    '(head -c 4096 | gzip; gzip)',
    '(printf "P*M\\030\\0\\0\\0\\0"; zstd -q -c)',
  ])
    t.equal((await send(pack)).digest, digest, pack);
  for (const [pack, message] of [
    ['xz -c', /^the archive is packed by xz; send it packed by gzip or zstd, or not at all$/],
    ['lz4 -q -c', /^the archive is packed by lz4; /],
    ['(cat > /dev/null; printf "BZh91AY&SY")', /^the archive is packed by bzip2; /],
    ['zstd -q -c --ultra -22 --long=31', /window of more than 128 MiB/],
    ['(gzip -c | head -c 200)', /^the archive is damaged: it cannot be unpacked$/],
  ] as const)
    await t.rejects(send(pack), { code: 'invalid_argument', message }, pack);
  await images.close();
});
