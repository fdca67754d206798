// Pure functions of the files module: tar headers, error numbers, and names.
import '../support/addon-dir.ts';
import { constants } from 'node:os';
import fc from 'fast-check';
import t from 'tap';
import { normalize } from '../../../../guest-agent/src/files/destination.ts';
import { fileError } from '../../../../guest-agent/src/files/errors.ts';
import { toPathBytes } from '../../../../guest-agent/src/files/guest-path.ts';
import {
  isDirectory,
  isSymlink,
  linkKey,
  modeOf,
  mtimeOf,
  newStatus,
  ownerOf,
  sizeOf,
  specialKind,
} from '../../../../guest-agent/src/files/status.ts';
import { encodeHeader, endMark, type TarMember } from '../../../../guest-agent/src/files/tar/writer.ts';

const PLAIN: TarMember = {
  flag: '0',
  name: 'name',
  target: '',
  mode: 0o100644,
  uid: 0,
  gid: 0,
  sizeBytes: 0,
  mtimeSeconds: 0,
};

/** Parses a block field by field as POSIX defines it, with its checksum. */
function readBlock(bytes: Buffer) {
  const text = (at: number, length: number): string => bytes.toString('latin1', at, at + length);
  const untilZero = (at: number, length: number): string => text(at, length).split('\0')[0] ?? '';
  const spaced = Buffer.from(bytes.subarray(0, 512));
  spaced.fill(' ', 148, 156);
  const sum = spaced.reduce((total, byte) => total + byte, 0);
  return {
    name: untilZero(0, 100),
    mode: text(100, 8),
    uid: text(108, 8),
    gid: text(116, 8),
    size: text(124, 12),
    mtime: text(136, 12),
    isSumRight: text(148, 8) === `${sum.toString(8).padStart(6, '0')}\0 `,
    flag: text(156, 1),
    target: untilZero(157, 100),
    magic: text(257, 8),
    prefix: untilZero(345, 155),
  };
}

/** The header block, and the records of the extended header before it. */
function readHeader(changes: Partial<TarMember>) {
  const bytes = encodeHeader({ ...PLAIN, ...changes });
  if (bytes.length === 512) return { own: readBlock(bytes), records: [], ahead: undefined };
  const ahead = readBlock(bytes);
  const length = Number.parseInt(ahead.size, 8);
  const records: string[] = [];
  for (let at = 512; at < 512 + length; ) {
    const space = bytes.indexOf(' ', at);
    const end = at + Number(bytes.toString('latin1', at, space));
    if (bytes[end - 1] !== 0x0a) throw new Error('a record does not end where it says');
    records.push(bytes.toString('latin1', space + 1, end - 1));
    at = end;
  }
  const padded = 512 + Math.ceil(length / 512) * 512;
  if (bytes.length !== padded + 512) throw new Error(`${bytes.length} bytes for records of ${length}`);
  if (bytes.subarray(512 + length, padded).some((byte) => byte !== 0)) throw new Error('padding of no zeros');
  return { own: readBlock(bytes.subarray(padded)), records, ahead };
}

t.test('a header has every field where it belongs', async (t) => {
  const { own, records } = readHeader({
    flag: '2',
    target: 'to',
    mode: 0o104751,
    uid: 0o1234567,
    gid: 0o7654321,
    sizeBytes: 0o12345670123,
    mtimeSeconds: 0o32101234567,
  });
  t.same(records, []);
  t.same(own, {
    name: 'name',
    mode: '0004751\0',
    uid: '1234567\0',
    gid: '7654321\0',
    size: '12345670123\0',
    mtime: '32101234567\0',
    isSumRight: true,
    flag: '2',
    target: 'to',
    magic: 'ustar\x0000',
    prefix: '',
  });
  t.ok(endMark().equals(Buffer.alloc(1024)));
});

t.test('values too large for a header are in records before it', async (t) => {
  const max = 8 ** 11 - 1;
  for (const [changes, field, inField, record] of [
    [{ uid: 8 ** 7 - 1 }, 'uid', '7777777\0', undefined],
    [{ uid: 8 ** 7 }, 'uid', '7777777\0', `uid=${8 ** 7}`],
    [{ gid: 8 ** 7 - 1 }, 'gid', '7777777\0', undefined],
    [{ gid: 8 ** 7 }, 'gid', '7777777\0', `gid=${8 ** 7}`],
    [{ sizeBytes: max }, 'size', '77777777777\0', undefined],
    [{ sizeBytes: max + 1 }, 'size', '77777777777\0', `size=${max + 1}`],
    [{ mtimeSeconds: max }, 'mtime', '77777777777\0', undefined],
    [{ mtimeSeconds: max + 1 }, 'mtime', '77777777777\0', `mtime=${max + 1}`],
    [{ mtimeSeconds: -1 }, 'mtime', '00000000000\0', 'mtime=-1'],
    [{ target: 't'.repeat(100) }, 'target', 't'.repeat(100), undefined],
    [{ target: 't'.repeat(101) }, 'target', 't'.repeat(100), `linkpath=${'t'.repeat(101)}`],
    [{ name: 'n'.repeat(101) }, 'name', 'n'.repeat(100), `path=${'n'.repeat(101)}`],
  ] as const) {
    const { own, records, ahead } = readHeader(changes);
    const label = JSON.stringify(changes).slice(0, 40);
    t.equal(own[field], inField, label);
    t.same(records, record === undefined ? [] : [record], label);
    t.ok(own.isSumRight && (ahead?.isSumRight ?? true), label);
  }
  const { ahead, records } = readHeader({
    flag: '1',
    mode: 0o7777,
    uid: 8 ** 8,
    gid: 8 ** 9,
    target: 'x'.repeat(300),
  });
  t.match(ahead, { flag: 'x', mode: '0000644\0', target: '', prefix: '', magic: 'ustar\x0000' });
  t.equal(records.length, 3, 'in one header');
});

t.test('a name is split at a slash where both parts fit', async (t) => {
  const part = (bytes: number): string => 'p'.repeat(bytes);
  for (const [name, prefix] of [
    [part(100), ''],
    [`${part(1)}/${part(99)}`, part(1)],
    [`${part(1)}/${part(100)}`, part(1)],
    [`${part(155)}/${part(100)}`, part(155)],
    [`${part(50)}/${part(60)}/${part(60)}`, `${part(50)}/${part(60)}`],
    [`${part(50)}/${part(50)}/${part(49)}`, part(50)],
    [`${part(60)}/${part(60)}/`, part(60)],
  ] as const) {
    const { own, records } = readHeader({ name });
    t.same(
      [own.prefix, own.name, records],
      [prefix, prefix === '' ? name : name.slice(prefix.length + 1), []],
    );
  }
  for (const name of [
    part(101),
    `/${part(100)}`,
    `${part(156)}/${part(10)}`,
    `${part(1)}/${part(101)}`,
    `${part(150)}/`,
  ]) {
    const { own, records } = readHeader({ name });
    t.same(
      [own.prefix, own.name, records],
      ['', name.slice(0, 100), [`path=${name}`]],
      `${name.length} bytes`,
    );
  }
});

t.test('a record counts its own digits', (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 101, max: 1100 }), (length) => {
      const name = 'r'.repeat(length);
      const { records } = readHeader({ name });
      return records.length === 1 && records[0] === `path=${name}`;
    }),
    { numRuns: 200, examples: [[998 - 9], [999 - 9], [1000 - 9], [1001 - 9]] },
  );
  t.end();
});

t.test('each error of the kernel has its code and words', async (t) => {
  const { errno } = constants;
  for (const [number, code, words] of [
    [errno.ENOENT, 'not_found', /^"f" does not exist$/],
    [errno.ENOTDIR, 'not_directory', /not a directory$/],
    [errno.EISDIR, 'is_directory', /is a directory$/],
    [errno.EACCES, 'permission_denied', /permission denied/],
    [errno.EPERM, 'permission_denied', /not permitted/],
    [errno.EROFS, 'read_only', /read-only file system/],
    [errno.ENOSPC, 'no_space', /disk is full/],
    [errno.EDQUOT, 'no_space', /quota/],
    [errno.EFBIG, 'no_space', /larger than/],
    [errno.EXDEV, 'invalid', /leads out/],
    [errno.ELOOP, 'invalid', /symbolic links/],
    [errno.ENAMETOOLONG, 'invalid', /too long a name/],
    [errno.EEXIST, 'conflict', /in the way/],
    [errno.EBUSY, 'conflict', /in use/],
    [errno.EMLINK, 'invalid', /too many links/],
    [errno.EINVAL, 'invalid', /refused/],
    [errno.EIO, 'invalid', /input\/output error/],
    [errno.EMFILE, 'invalid', /^"f" cannot be used \(EMFILE\)$/],
    [9999, 'invalid', /^"f" cannot be used \(error 9999\)$/],
  ] as const)
    t.match(fileError(-number, 'f'), { name: 'AgentError', code, message: words });
  t.equal(fileError(-errno.ENOENT, 'caf\xc3\xa9', 'target ').message, 'target "café" does not exist');
});

t.test('what the kernel says of a file is read from its fields', async (t) => {
  const status = newStatus();
  t.equal(status.length, 12);
  status.set([0o100640, 2 ** 60, 12, 0, 2, 7, 8, 9, 1000, 1001]);
  t.same([modeOf(status), sizeOf(status), mtimeOf(status)], [0o100640, Number.MAX_SAFE_INTEGER, 12]);
  t.same(ownerOf(status), { uid: 1000, gid: 1001 });
  t.same([isDirectory(status), isSymlink(status), specialKind(status)], [false, false, 'no file']);
  status[1] = 5;
  t.equal(sizeOf(status), 5);
  t.equal(linkKey(status), '7:8:9');
  status[4] = 1;
  t.equal(linkKey(status), undefined);
  for (const [type, kind] of [
    [0o010000, 'a FIFO'],
    [0o020000, 'a character device'],
    [0o060000, 'a block device'],
    [0o140000, 'a socket'],
  ] as const) {
    status[0] = type + 0o777;
    t.equal(specialKind(status), kind);
  }
  status[0] = 0o040755;
  t.same([isDirectory(status), isSymlink(status)], [true, false]);
  status[0] = 0o120777;
  t.same([isDirectory(status), isSymlink(status)], [false, true]);
});

t.test('names of archives are split, and names that lead outside or are invalid are refused', async (t) => {
  t.same(normalize('/a//./b/../c/'), ['a', 'c']);
  t.same(normalize('a/..'), []);
  t.same(normalize('.'), []);
  t.same(normalize(`${'a/'.repeat(2047)}a`).length, 2048, '4095 bytes are a path');
  t.throws(() => normalize(`${'a/'.repeat(2047)}ab`), { message: /too long a name for Linux$/ });
  for (const name of ['', 'a\0b'])
    t.throws(() => normalize(name, 'x '), { code: 'invalid', message: /^x ".*" is not a file name$/ });
  for (const name of ['..', 'a/../..', '/..'])
    t.throws(() => normalize(name, 'x '), { code: 'invalid', message: /^x ".*" leads out/ });
  t.equal(toPathBytes('/é'), '/\xc3\xa9');
  for (const path of ['', 'a', './a', '/a\0'])
    t.throws(() => toPathBytes(path), { code: 'invalid', message: /is not an absolute path$/ });
  t.throws(() => toPathBytes('x'.repeat(200)), {
    message: `path "${'x'.repeat(120)}" is not an absolute path`,
  });
});
