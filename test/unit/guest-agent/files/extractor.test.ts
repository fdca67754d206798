// Extraction below a destination: kernel errors, concurrent changes, and large files.
import '../support/addon-dir.ts';
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import type { TarEntry } from '@sandboxd/proto';
import t from 'tap';
import { Destination } from '../../../../guest-agent/src/files/destination.ts';
import { Extractor } from '../../../../guest-agent/src/files/extractor.ts';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { openDescriptors } from '../support/open-descriptors.ts';
import { replaceInAddon } from '../support/replaced-addon.ts';
import { archive, type Member, pax } from '../support/tar-blocks.ts';
import { freshDirectory, put, unpack } from '../support/unpack.ts';

const { errno } = constants;

t.test('a kernel error names the file, and leaves no descriptor or partial file', (t) => {
  const dir = freshDirectory();
  const before = openDescriptors();
  const small: Member = { name: 'sub/small', content: 'x' };
  const large: Member = { name: 'sub/large', content: 'x'.repeat(200_000) };
  const link: Member = { name: 'sub/link', flag: '1', target: 'sub/small' };
  const soft: Member = { name: 'sub/soft', flag: '2', target: 'small' };
  const real = replaceInAddon(t, {});
  for (const [method, number, members, code, message] of [
    ['putFile', errno.EROFS, [small], 'read_only', /^"sub\/small" is on a read-only/],
    ['createFile', errno.ENOSPC, [large], 'no_space', /^"sub\/large" cannot be written/],
    ['writeAt', errno.ENOSPC, [large], 'no_space', /^"sub\/large" cannot be written/],
    ['finishFile', errno.EPERM, [large], 'permission_denied', /^"sub\/large" may not/],
    ['addDirectory', errno.EROFS, [small], 'read_only', /^"sub" is on a read-only/],
    ['addDirectory', errno.EROFS, [{ name: 'sub/', flag: '5' }], 'read_only', /^"sub\/" is on a read-only/],
    ['addSymlink', errno.EPERM, [soft], 'permission_denied', /^"sub\/soft" may not/],
    [
      'addLink',
      errno.EXDEV,
      [small, link],
      'invalid',
      /^"sub\/link" is a hard link to a file on another file system$/,
    ],
    ['addLink', errno.EMLINK, [small, link], 'invalid', /^"sub\/link" has too many links$/],
    [
      'addLink',
      errno.ENOENT,
      [small, link],
      'not_found',
      /^"sub\/link" is a hard link, and "sub\/small" does not exist$/,
    ],
    ['addLink', errno.EPERM, [small, link], 'invalid', /^"sub\/link" is a hard link to a directory, or/],
  ] as const) {
    const { finishFile } = real;
    const refuse = (fd: unknown): number => {
      if (method === 'finishFile') finishFile(Number(fd), -1, 0, 0, 0);
      return -number;
    };
    Object.assign(addon, { [method]: refuse });
    t.throws(() => unpack(dir, archive([...members]), 50_000), { code, message }, method);
    Object.assign(addon, real);
    t.equal(openDescriptors(), before, method);
    t.notOk(existsSync(join(dir, 'sub/large')), 'it was not whole');
    rmSync(join(dir, 'sub'), { recursive: true, force: true });
  }
  t.end();
});

t.test('links to directories, to the destination and to no name are refused', (t) => {
  const dir = freshDirectory();
  const name = `${'n/'.repeat(2047)}n`;
  const before = openDescriptors();
  for (const [message, ...members] of [
    [
      /^"h" is a hard link to a directory, or to a file that may not/,
      { name: 'd/', flag: '5' },
      { name: 'h', flag: '1', target: 'd' },
    ],
    [/^"h" is a hard link to the destination itself$/, { name: 'h', flag: '1', target: 'd/..' }],
    [/^"h" is a hard link, and "" is not a file name$/, { name: 'h', flag: '1', target: '' }],
    [/^"h" is a hard link, and "no\/one" does not exist$/, { name: 'h', flag: '1', target: 'no/one' }],
    [/^"s" is a symbolic link to "", which is not a file name$/, { name: 's', flag: '2', target: '' }],
    [
      /^"s" is a symbolic link to "a\\u0000b", which is not/,
      pax({ linkpath: 'a\0b' }),
      { name: 's', flag: '2' },
    ],
    [
      /^"s" is a symbolic link to ".+\(4096 bytes\), which is not/,
      pax({ linkpath: `${name}n` }),
      { name: 's', flag: '2' },
    ],
  ] as readonly (readonly [RegExp, ...Member[]])[])
    t.throws(() => put(dir, ...members), { code: /invalid|not_found/, message });
  t.equal(openDescriptors(), before);
  put(dir, pax({ linkpath: name }), { name: 's', flag: '2' }, { name: 'in', flag: '2', target: `${dir}/d` });
  t.equal(readlinkSync(join(dir, 's')), name, 'as long as Linux has them');
  t.equal(readlinkSync(join(dir, 'in')), `${dir}/d`, 'an absolute one may lead inside');
  t.throws(() => put(dir, { name: 'near', flag: '2', target: `${dir}1` }), {
    message: /out of the destination/,
  });
  t.end();
});

t.test('directories take the place of files and of links to nowhere, and of nothing else', (t) => {
  const dir = freshDirectory();
  writeFileSync(join(dir, 'file'), 'x');
  put(dir, { name: 'file/', flag: '5', mode: 0o700 }, { name: 'file/x', content: 'y' });
  t.equal(statSync(join(dir, 'file')).mode & 0o777, 0o700);
  put(dir, { name: 'file/', flag: '5', mode: 0o750 });
  t.equal(readFileSync(join(dir, 'file/x'), 'latin1'), 'y', 'one that is there stays, and gets its mode');
  t.equal(statSync(join(dir, 'file')).mode & 0o777, 0o750);
  symlinkSync('nowhere', join(dir, 'link'));
  t.throws(() => put(dir, { name: 'link/x', content: 'x' }), {
    code: 'not_directory',
    message: /^"link" goes through/,
  });
  replaceInAddon(t, { removeFile: () => -errno.EBUSY });
  t.throws(() => put(dir, { name: 'link/', flag: '5' }), {
    code: 'conflict',
    message: /^"link\/" is in use/,
  });
  t.end();
});

t.test('a directory that another process creates concurrently is accepted', (t) => {
  const dir = freshDirectory();
  const real = replaceInAddon(t, {
    addDirectory: (parent, leaf) => real.addDirectory(parent, leaf) || real.addDirectory(parent, leaf),
  });
  put(join(dir, 'new/place'), { name: 'a/b/file', content: 'x' });
  t.equal(readFileSync(join(dir, 'new/place/a/b/file'), 'latin1'), 'x');
  t.end();
});

/** An extractor whose members the test passes directly. */
function extractorOf(dir: string, writesDirect = false): Extractor {
  return new Extractor(Destination.open(dir), writesDirect);
}

const entryOf = (changes: Partial<TarEntry>): TarEntry => ({
  type: 'file',
  name: 'name',
  target: '',
  mode: 0o644,
  mtimeSeconds: 1_000_000_000,
  mtimeNanos: 0,
  sizeBytes: 0,
  contentBytes: 0,
  ...changes,
});

t.test('what became of a directory or of the way to a file meanwhile is left alone', (t) => {
  const dir = freshDirectory();
  const before = openDescriptors();
  mkdirSync(join(dir, 'outside'));
  mkdirSync(join(dir, 'to'));
  const mode = statSync(join(dir, 'outside')).mode;
  const extractor = extractorOf(join(dir, 'to'));
  for (const name of ['swapped', 'gone', 'kept'])
    extractor.begin(entryOf({ type: 'directory', name: `${name}/`, mode: 0o700 }));
  extractor.begin(entryOf({ name: 'moved/part', sizeBytes: 10 }));
  extractor.content(Buffer.from('part'), 0);
  rmSync(join(dir, 'to/swapped'), { recursive: true });
  symlinkSync('../outside', join(dir, 'to/swapped'));
  rmSync(join(dir, 'to/gone'), { recursive: true });
  renameSync(join(dir, 'to/moved'), join(dir, 'to/elsewhere'));
  extractor.close();
  t.equal(statSync(join(dir, 'outside')).mode, mode);
  t.equal(statSync(join(dir, 'to/kept')).mode & 0o777, 0o700);
  t.same(readdirSync(join(dir, 'to')).sort(), ['elsewhere', 'kept', 'swapped']);
  t.equal(openDescriptors(), before);
  t.end();
});

t.test('of very many directories the oldest get their times early', (t) => {
  const extractor = extractorOf(freshDirectory());
  const finished: string[] = [];
  replaceInAddon(t, {
    addDirectory: () => 0,
    openBeneath: (_directory, name) => {
      finished.push(name);
      return -errno.ENOENT;
    },
  });
  const begin = (n: number): void => extractor.begin(entryOf({ type: 'directory', name: `${n}/` }));
  for (let n = 0; n < 20_000; n++) begin(n);
  t.same(finished, []);
  begin(20_000);
  begin(20_001);
  t.same(finished, ['0', '1']);
  extractor.close();
  t.equal(finished.length, 20_002, 'each once');
  t.end();
});

t.test('large files of an emulated guest are written by the addon, in order', (t) => {
  const dir = freshDirectory();
  const calls: string[] = [];
  let isDirect = true;
  let ended = 0;
  replaceInAddon(t, {
    startDirectWrite: (_fd, sizeBytes) => {
      calls.push(`start ${sizeBytes}`);
      return isDirect;
    },
    writeDirect: (_buffer, _offset, length) => {
      calls.push(`write ${length}`);
      return length;
    },
    endDirectWrite: () => {
      calls.push('end');
      return ended;
    },
  });
  const MIB = 2 ** 20;
  const begun = (sizeBytes: number, writesDirect = true): Extractor => {
    calls.length = 0;
    const extractor = extractorOf(dir, writesDirect);
    extractor.begin(entryOf({ sizeBytes }));
    t.equal(extractor.directFile, undefined);
    extractor.content(Buffer.alloc(10), 0);
    return extractor;
  };
  for (const [sizeBytes, writesDirect] of [
    [MIB / 4 - 1, true],
    [4 * MIB, false],
  ] as const) {
    const extractor = begun(sizeBytes, writesDirect);
    t.same([calls, extractor.directFile], [[], undefined]);
    extractor.close();
  }
  const least = begun(MIB / 4);
  t.same([calls, typeof least.directFile], [[`start ${MIB / 4}`, 'write 10'], 'number']);
  least.close();
  const whole = begun(4 * MIB);
  t.type(whole.directFile, 'number');
  whole.wrote(4 * MIB - 20);
  whole.content(Buffer.alloc(10), 4 * MIB - 10);
  t.same(whole.counts, { files: 0, bytes: 4 * MIB });
  whole.finish();
  t.same(calls, [`start ${4 * MIB}`, 'write 10', 'write 10', 'end']);
  t.same([whole.counts.files, whole.directFile], [1, undefined]);
  t.throws(() => whole.failed(errno.ENOSPC), { code: 'no_space' });
  whole.close();

  const holes = begun(5 * MIB);
  holes.content(Buffer.from('behind a hole'), 5 * MIB - 13);
  t.same([calls, holes.directFile], [[`start ${5 * MIB}`, 'write 10', 'end'], undefined]);
  holes.finish();
  t.match(readFileSync(join(dir, 'name'), 'latin1'), /behind a hole$/, 'it goes on as any other');
  holes.close();

  for (const position of [10, 5 * MIB - 10]) {
    ended = 0;
    const failing = begun(5 * MIB);
    ended = -errno.EIO;
    t.throws(
      () => {
        failing.content(Buffer.alloc(10), position);
        failing.finish();
      },
      { code: 'invalid', message: /^"name" cannot be read or written/ },
    );
    t.throws(() => failing.failed(errno.ENOSPC), { code: 'no_space', message: /^"name" cannot be written/ });
    failing.close();
    t.notOk(existsSync(join(dir, 'name')));
  }
  ended = 0;
  isDirect = false;
  const refused = begun(4 * MIB);
  t.same([calls, refused.directFile], [[`start ${4 * MIB}`], undefined]);
  refused.close();
  t.end();
});

t.test('the root is a destination like any other, in which absolute links lead where they say', (t) => {
  const dir = freshDirectory();
  mkdirSync(join(dir, 'real'));
  symlinkSync(join(dir, 'real'), join(dir, 'absolute'));
  put('/', { name: `${dir}/absolute/file`, content: 'x' }, { name: `${dir}/up`, flag: '2', target: '/etc' });
  t.equal(readFileSync(join(dir, 'real/file'), 'latin1'), 'x');
  t.equal(readlinkSync(join(dir, 'up')), '/etc');
  t.throws(
    () => put(dir, { name: 'absolute/file', content: 'x' }),
    { message: /leads out/ },
    'which others are not',
  );
  put(join(dir, 'absolute/made'), { name: 'file', content: 'y' });
  t.equal(readFileSync(join(dir, 'real/made/file'), 'latin1'), 'y', 'a destination may be named through one');
  t.end();
});

t.test('a destination cannot be had without descriptors', (t) => {
  replaceInAddon(t, { openBeneath: () => -errno.EMFILE });
  t.throws(() => Destination.open('/tmp'), { message: '"/" cannot be used (EMFILE)' });
  t.end();
});
