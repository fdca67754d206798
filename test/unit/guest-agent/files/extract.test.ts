// Extraction below a destination: the resulting files.
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { openDescriptors } from '../support/open-descriptors.ts';
import { archive, type Member, pax } from '../support/tar-blocks.ts';
import { freshDirectory, put, unpack } from '../support/unpack.ts';

t.test('files, directories and links are as the archive says', (t) => {
  const dir = freshDirectory();
  const to = join(dir, 'new/place');
  const result = put(
    to,
    { name: './', flag: '5', mode: 0o711, mtime: 1_100_000_000 },
    { name: 'sub/', flag: '5', mode: 0o750, mtime: 1_200_000_000 },
    pax({ mtime: '1300000000.123456789' }),
    { name: 'sub/file', content: 'content', mode: 0o4755 },
    { name: 'sub/hard', flag: '1', target: 'sub/file' },
    { name: 'sub/soft', flag: '2', target: '../far/away' },
    { name: '/abs/olute', content: 'stripped' },
    { name: 'far/x/../empty', mode: 0o400 },
    { name: 'large', content: 'x'.repeat(200_000) },
  );
  t.same(result, { files: 4, bytes: 7 + 8 + 200_000 });
  t.equal(readFileSync(join(to, 'sub/file'), 'latin1'), 'content');
  const file = statSync(join(to, 'sub/file'), { bigint: true });
  t.equal(file.mode & 0o7777n, 0o4755n);
  t.equal(file.mtimeNs, 1_300_000_000_123_456_789n);
  t.equal(file.ino, statSync(join(to, 'sub/hard'), { bigint: true }).ino);
  t.equal(readlinkSync(join(to, 'sub/soft')), '../far/away');
  t.equal(lstatSync(join(to, 'sub/soft')).mtimeMs, 1e12);
  t.equal(readFileSync(join(to, 'abs/olute'), 'latin1'), 'stripped');
  t.equal(statSync(join(to, 'far/empty')).mode & 0o777, 0o400);
  t.equal(readFileSync(join(to, 'large')).length, 200_000);
  t.match(
    statSync(join(to, 'sub')),
    { mode: 0o040750, mtimeMs: 1.2e12 },
    'a directory’s time is not that of its last change',
  );
  t.match(statSync(to), { mode: 0o040711, mtimeMs: 1.1e12 }, 'a destination that is new is what ./ says');
  const before = statSync(dir).mode;
  put(dir, { name: './', flag: '5', mode: 0o700 });
  t.equal(statSync(dir).mode, before, 'one that was there stays');
  t.end();
});

t.test('a set-user-ID program of another user does not become one of root', (t) => {
  const to = freshDirectory();
  const owned = (uid: string, gid: string) => (header: Buffer) => {
    header.write(uid.padStart(7, '0'), 108);
    header.write(gid.padStart(7, '0'), 116);
  };
  const cases: readonly (readonly [name: string, mode: number, owner: [string, string], wanted: number])[] = [
    ['roots', 0o6755, ['0', '0'], 0o6755],
    ['users', 0o6755, ['1750', '1750'], 0o755],
    ['of a user', 0o6755, ['1750', '0'], 0o2755],
    ['of a group', 0o7755, ['0', '62'], 0o5755],
    ['of a broken number', 0o6755, ['x', '9'], 0o755],
    ['plain', 0o644, ['1750', '1750'], 0o644],
  ];
  for (const [name, mode, owner] of cases)
    for (const size of [1, 100_000])
      put(to, { name: `${name} ${size}`, mode, content: 'x'.repeat(size), patch: owned(...owner) });
  for (const [name, , , wanted] of cases)
    for (const size of [1, 100_000])
      t.equal(statSync(join(to, `${name} ${size}`)).mode & 0o7777, wanted, `${name}, ${size} bytes`);
  put(to, { name: 'shared/', flag: '5', mode: 0o2775, patch: owned('1750', '1750') });
  t.equal(statSync(join(to, 'shared')).mode & 0o7777, 0o775);
  put(to, pax({ uid: '1000', gid: '0' }), { name: 'by pax', mode: 0o6755, content: 'x' });
  t.equal(statSync(join(to, 'by pax')).mode & 0o7777, 0o2755);
  t.end();
});

t.test('what exists is replaced, but for directories', (t) => {
  const dir = freshDirectory();
  writeFileSync(join(dir, 'outside'), 'kept');
  const to = join(dir, 'to');
  mkdirSync(join(to, 'directory/full'), { recursive: true });
  writeFileSync(join(to, 'old'), 'old');
  linkSync(join(to, 'old'), join(dir, 'same as old'));
  symlinkSync('../outside', join(to, 'leaf'));
  symlinkSync('directory', join(to, 'inside'));
  symlinkSync('nowhere', join(to, 'dangling'));
  put(
    to,
    { name: 'old', content: 'new' },
    { name: 'leaf', content: 'new' },
    { name: 'inside/', flag: '5' },
    { name: 'inside/x', content: 'through a link that stays' },
    { name: 'dangling/', flag: '5' },
    { name: 'old2', flag: '2', target: 'a' },
    { name: 'old2', flag: '2', target: 'b' },
    { name: 'self', content: 's' },
    { name: 'self', flag: '1', target: 'self' },
  );
  t.equal(readFileSync(join(to, 'old'), 'latin1'), 'new');
  t.equal(readFileSync(join(dir, 'same as old'), 'latin1'), 'old', 'another name of the old file keeps it');
  t.equal(readFileSync(join(dir, 'outside'), 'latin1'), 'kept');
  t.ok(lstatSync(join(to, 'leaf')).isFile());
  t.ok(lstatSync(join(to, 'inside')).isSymbolicLink());
  t.ok(existsSync(join(to, 'directory/x')));
  t.ok(lstatSync(join(to, 'dangling')).isDirectory());
  t.equal(readlinkSync(join(to, 'old2')), 'b');
  t.equal(readFileSync(join(to, 'self'), 'latin1'), 's');
  t.throws(() => put(to, { name: 'directory', content: 'x' }), {
    code: 'is_directory',
    message: /"directory" is a directory/,
  });
  t.throws(() => put(to, { name: 'old/x', content: 'x' }), { code: 'not_directory', message: /"old\/x"/ });
  t.end();
});

t.test('a file that is not whole is not left behind', (t) => {
  const dir = freshDirectory();
  const bytes = archive([
    { name: 'd/', flag: '5', mtime: 5 },
    { name: 'd/whole', content: 'w' },
    { name: 'd/part', content: 'p'.repeat(100_000) },
  ]);
  t.throws(() => unpack(dir, bytes.subarray(0, 60_000), 1000), { message: /cut off/ });
  t.same(readdirSync(join(dir, 'd')), ['whole']);
  t.end();
});

t.test('no descriptor is left, however many directories there are', (t) => {
  const dir = freshDirectory();
  const before = openDescriptors();
  const members = Array.from({ length: 50 }, (_, n): Member[] => [
    { name: `made/by/${n}/file`, content: 'x' },
    { name: `kept-${n}/`, flag: '5' },
    { name: `kept-${n}/file`, content: 'x'.repeat(100_000) },
    { name: `kept-${n}/link`, flag: '1', target: `made/by/${n}/file` },
  ]);
  put(join(dir, 'new/place'), ...members.flat());
  t.equal(openDescriptors(), before);
  put(dir, ...members.flat(), ...members.flat());
  t.equal(openDescriptors(), before);
  t.throws(() => put(dir, { name: 'file', content: 'x' }, { name: 'file/x/y', content: 'x' }));
  t.throws(() => put(join(dir, 'file/x'), { name: 'file', content: 'x' }));
  t.throws(() => put(dir, { name: 'link', flag: '1', target: 'made/by/none' }));
  for (let n = 0; n < 3; n++) {
    const cut = archive([{ name: 'part', content: 'p'.repeat(100_000) }]).subarray(0, 60_000);
    t.throws(() => unpack(dir, cut, 1000), { message: /cut off/ });
  }
  t.equal(openDescriptors(), before, 'after a refusal neither');
  t.end();
});

t.test('a sparse file uses disk space only for its content', (t) => {
  const dir = freshDirectory();
  const size = 2 ** 40;
  const map = { 'GNU.sparse.map': `0,3,${size - 3},3`, 'GNU.sparse.size': String(size) };
  const result = put(dir, pax(map), { name: 'sparse', content: 'abcxyz' });
  t.same(result, { files: 1, bytes: 6 });
  const { size: sizeBytes, blocks } = statSync(join(dir, 'sparse'));
  t.equal(sizeBytes, size);
  t.ok(blocks * 512 < 1024 * 1024, `${blocks} blocks`);
  put(
    dir,
    pax({
      'GNU.sparse.map': '',
      'GNU.sparse.major': '1',
      'GNU.sparse.minor': '0',
      'GNU.sparse.realsize': '70000',
    }),
    {
      name: 'hole',
      content: `0\n${'\0'.repeat(510)}`,
    },
  );
  t.equal(statSync(join(dir, 'hole')).size, 70_000);
  t.end();
});

t.test('a destination that cannot be had is named as it was given', (t) => {
  const dir = freshDirectory();
  writeFileSync(join(dir, 'file'), '');
  symlinkSync('nowhere', join(dir, 'link'));
  for (const path of [`${dir}/file`, `${dir}/./file/x/y`, `${dir}//new/../file/x`, `${dir}/link/x`])
    t.throws(() => put(path, { name: 'a' }), {
      message: `destination ${JSON.stringify(path)} goes through something that is not a directory`,
    });
  t.end();
});

t.test('devices and FIFOs are refused by name', async (t) => {
  const kinds = [
    ['3', 'a character device'],
    ['4', 'a block device'],
    ['6', 'a FIFO'],
  ] as const;
  for (const [flag, kind] of kinds) {
    const dir = freshDirectory();
    t.throws(() => put(dir, { name: 'odd', flag }), {
      name: 'TarError',
      message: new RegExp(`^"odd" is ${kind}, which may not be in an archive`),
    });
    t.same(readdirSync(dir), []);
  }
});
