// The images that are written, as the tools of the file system read them.
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { type Member, pax } from '../../guest-agent/support/tar-blocks.ts';
import { convert } from './merge.ts';

const dir = mkdtempSync(join(tmpdir(), 'erofs-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const image = join(dir, 'image');

/** Checked and unpacked by erofs-utils. */
function unpack(): string {
  const out = join(dir, 'out');
  rmSync(out, { recursive: true, force: true });
  execFileSync('fsck.erofs', [`--extract=${out}`, '--preserve', image], { stdio: 'pipe' });
  return out;
}

t.test('files of every size, links, modes, owners and times are there', async (t) => {
  const sizes = [0, 1, 4095, 4096, 4097, 3 * 4096, 1_000_003];
  const layer: Member[] = [
    { name: './', flag: '5', mode: 0o711 },
    ...sizes.map((size) => ({
      name: `f${size}`,
      mode: 0o640,
      mtime: 1_234_567_890,
      content: Buffer.alloc(size, size % 251),
    })),
    { name: 'hard', flag: '1', target: 'f4097' },
    { name: 'soft', flag: '2', target: '../etc/x' },
    pax({ linkpath: 't/'.repeat(2000) }),
    { name: 'far', flag: '2', target: '' },
    pax({ uid: '3000000', gid: '70000', mtime: '1500000000.25' }),
    { name: 'owned', mode: 0o4755, content: 'o' },
  ];
  const converted = await convert(image, [layer]);
  t.equal(converted.entries, sizes.length + 4);
  t.equal(converted.contentBytes, sizes.reduce((a, b) => a + b) + 1);
  const out = unpack();
  for (const size of sizes)
    t.ok(readFileSync(join(out, `f${size}`)).equals(Buffer.alloc(size, size % 251)), `${size} bytes`);
  t.equal(readlinkSync(join(out, 'soft')), '../etc/x');
  t.equal(lstatSync(join(out, 'soft')).mode & 0o7777, 0o777);
  t.equal(readlinkSync(join(out, 'far')).length, 4000);
  const owned = lstatSync(join(out, 'owned'));
  t.match(owned, { uid: 3_000_000, gid: 70_000, mtimeMs: 1_500_000_000_250 });
  // Unpacking gives it away before it could be set-user-ID.
  t.equal(owned.mode & 0o777, 0o755);
  t.match(lstatSync(join(out, 'f1')), { mtimeMs: 1_234_567_890_000 });
});

t.test('a negative owner, which some systems use, keeps its 32 bits', async (t) => {
  const binary = (header: Buffer) => header.fill(0xff, 108, 115).fill(0xfe, 115, 116);
  await convert(image, [[pax({ uid: '-2', gid: '-3' }), { name: 'a' }, { name: 'b', patch: binary }]]);
  const out = unpack();
  t.match(lstatSync(join(out, 'a')), { uid: 4_294_967_294, gid: 4_294_967_293 });
  t.match(lstatSync(join(out, 'b')), { uid: 4_294_967_294 });
});

t.test('a hard link says whose a file is, and leaves the attributes that it does not name', async (t) => {
  const named = (name: string, value: string) =>
    pax({ uid: '7', mtime: '5', [`SCHILY.xattr.user.${name}`]: value });
  const link = (name: string): Member => ({ name, flag: '1', target: 'a', mode: 0o600 });
  const digests = [];
  for (const links of [
    [pax({ uid: '7', mtime: '5' }), link('b')],
    [named('k', 'v'), link('b')],
    [named('l', 'v'), link('b')],
  ])
    digests.push((await convert(image, [[named('k', 'v'), { name: 'a' }, ...links]])).digest);
  t.equal(digests[0], digests[1]);
  t.not(digests[0], digests[2]);
  t.match(lstatSync(join(unpack(), 'a')), { uid: 7, mtimeMs: 5000 });
  t.equal(lstatSync(join(unpack(), 'a')).mode & 0o777, 0o600);
  // Each may have nearly all that a file may: together they are no more.
  const much = Array.from({ length: 30 }, (_, n) => [
    named(`x${n}`, 'v'.repeat(60_000)),
    link(`b${n}`),
  ]).flat();
  t.equal((await convert(image, [[{ name: 'a' }, ...much]])).entries, 31);
  unpack();
});

t.test('directories of many blocks have all of their names', async (t) => {
  const names = Array.from({ length: 3000 }, (_, n) => `${'!-.0a~'[n % 6]}${n}${'x'.repeat(n % 200)}`);
  await convert(image, [
    names.flatMap((name) => [pax({ path: `d/${name}` }), { name: 'long', content: '' }]),
  ]);
  t.same(readdirSync(join(unpack(), 'd')).sort(), [...names].sort());
});

t.test('directories that just fill their blocks are whole', async (t) => {
  for (const length of [230, 231, 232, 233, 234]) {
    const names = Array.from({ length: 40 }, (_, n) => String(n).padStart(length, 'p'));
    await convert(image, [
      names.flatMap((name) => [pax({ path: `d/${name}` }), { name: 'long', content: '' }]),
    ]);
    t.same(readdirSync(join(unpack(), 'd')).sort(), [...names].sort(), `${length}`);
  }
});

t.test('equal layers make equal images, in whatever order their attributes come', async (t) => {
  const attributes = { 'SCHILY.xattr.user.a': '1', 'SCHILY.xattr.user.b': '2' };
  const turned = { 'SCHILY.xattr.user.b': '2', 'SCHILY.xattr.user.a': '1' };
  const first = await convert(image, [[pax(attributes), { name: 'a', content: 'x' }]]);
  const second = await convert(image, [[pax(turned), { name: 'a', content: 'x' }]]);
  t.equal(first.digest, second.digest);
  t.not(first.digest, (await convert(image, [[{ name: 'a', content: 'x' }]])).digest);
});

t.test('one layer and the same in two make equal images', async (t) => {
  const members: Member[] = [
    { name: 'a', content: 'x' },
    { name: 'b', content: 'y' },
  ];
  const [a, b] = members;
  if (a === undefined || b === undefined) return;
  t.equal((await convert(image, [members])).digest, (await convert(image, [[a], [b]])).digest);
});
