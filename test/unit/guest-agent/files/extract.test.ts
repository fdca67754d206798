// Extraction beneath a destination, in a temporary directory of this machine: what is made, and what never is.
import '../support/addon-dir.ts';
import { fork } from 'node:child_process';
import {
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import t from 'tap';
import { Destination } from '../../../../guest-agent/src/files/destination.ts';
import { Extractor } from '../../../../guest-agent/src/files/extractor.ts';
import { TarReader } from '../../../../guest-agent/src/files/tar/reader.ts';
import { archive, type Member, pax } from '../support/tar-blocks.ts';

if (process.argv[2] === 'swap') swapForEver(process.argv[3] ?? '', process.argv[4] ?? '');

const base = mkdtempSync(join(tmpdir(), 'extract-test-'));
t.teardown(() => rmSync(base, { recursive: true, force: true }));
let count = 0;

function freshDirectory(): string {
  const dir = join(base, `n${count++}`);
  mkdirSync(dir);
  return dir;
}

/** Unpacks beneath `dir`; what was refused is thrown after everything was closed. */
function unpack(dir: string, bytes: Buffer, pieceBytes = 65_536): { files: number; bytes: number } {
  const extractor = new Extractor(Destination.open(Buffer.from(dir).toString('latin1')), true);
  try {
    const reader = new TarReader(extractor);
    for (let at = 0; at < bytes.length; at += pieceBytes) reader.push(bytes.subarray(at, at + pieceBytes));
    reader.end();
    return extractor.counts;
  } finally {
    extractor.close();
  }
}

const put = (dir: string, ...members: Member[]) => unpack(dir, archive(members));

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

t.test('nothing is written outside', (t) => {
  const dir = freshDirectory();
  const to = join(dir, 'to');
  const outside = join(dir, 'out');
  mkdirSync(outside);
  mkdirSync(to);
  writeFileSync(join(outside, 'secret'), 'secret');
  symlinkSync('../out', join(to, 'leaves'));
  symlinkSync(outside, join(to, 'leaves-absolutely'));
  symlinkSync('../out/made', join(to, 'leaf'));
  const good: Member = { name: 'good', content: 'good' };
  const cases: readonly (readonly [RegExp, ...Member[]])[] = [
    [/"\.\.\/x" leads out/, { name: '../x', content: 'x' }],
    [/"a\/..\/..\/x" leads out/, { name: 'a/../../x', content: 'x' }],
    [/"\/..\/x" leads out/, { name: '/../x', content: 'x' }],
    [/"..\/" leads out/, { name: '../', flag: '5' }],
    [/"leaves\/x" leads out/, { name: 'leaves/x', content: 'x' }],
    [/"leaves\/" leads out/, { name: 'leaves/', flag: '5', mode: 0o777 }],
    [/"leaves\/sub\/x" leads out/, { name: 'leaves/sub/x', content: 'x' }],
    [/"leaves-absolutely\/x" leads out/, { name: 'leaves-absolutely/x', content: 'x' }],
    [
      /"s" is a symbolic link to "..\/out", out of/,
      { name: 's', flag: '2', target: '../out' },
      { name: 's/x', content: 'x' },
    ],
    [
      /"s" is a symbolic link to "\/etc", out of/,
      { name: 's', flag: '2', target: '/etc' },
      { name: 's/x', content: 'x' },
    ],
    [/"d\/s" is a symbolic link/, { name: 'd/s', flag: '2', target: '../../out' }],
    // Two links, each harmless as it stands.
    [
      /"a\/b\/s" is a symbolic link/,
      { name: 'a/b', flag: '2', target: '..' },
      { name: 'a/b/s', flag: '2', target: '../out' },
    ],
    [
      /"h" is a hard link, and "..\/out\/secret" leads out/,
      { name: 'h', flag: '1', target: '../out/secret' },
    ],
    [/"h" is a hard link, and "leaves\/secret" leads out/, { name: 'h', flag: '1', target: 'leaves/secret' }],
    [/"h" is a hard link, and "none" does not exist/, { name: 'h', flag: '1', target: 'none' }],
    [/"" is not a file name/, { name: '', content: 'x' }],
    [/"\." is the destination itself/, { name: '.', content: 'x' }],
    [/"x\\u0000y" is not a file name/, pax({ path: 'x\0y' }), { name: 'z' }],
    [/is too long a name/, pax({ path: `${'a/'.repeat(10_000)}x` }), { name: 'z' }],
    [
      /is too long a name/,
      { name: 'x', flag: '0', content: '' },
      pax({ path: 'a'.repeat(300) }),
      { name: 'z' },
    ],
    [/"fifo" is a FIFO/, { name: 'fifo', flag: '6' }],
    [/"dev" is a block device/, { name: 'dev', flag: '4' }],
  ];
  for (const [pattern, ...members] of cases) {
    rmSync(join(to, 'good'), { force: true });
    t.throws(() => put(to, good, ...members), { message: pattern }, String(pattern));
    t.equal(readFileSync(join(to, 'good'), 'latin1'), 'good', 'what came before stays');
    t.same(readdirSync(outside), ['secret']);
    t.same(readdirSync(dir).sort(), ['out', 'to']);
  }
  // A link whose target leaves is replaced, not followed.
  put(to, { name: 'leaf', content: 'x' });
  t.same(readdirSync(outside), ['secret']);
  t.equal(readFileSync(join(outside, 'secret'), 'latin1'), 'secret');
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
  const openDescriptors = (): number => readdirSync('/proc/self/fd').length;
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
  t.equal(openDescriptors(), before, 'after a refusal neither');
  t.end();
});

t.test('a sparse file takes the room of its content only', (t) => {
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

t.test('any archive stays inside', (t) => {
  const dir = freshDirectory();
  const outside = join(dir, 'outside');
  mkdirSync(outside);
  writeFileSync(join(outside, 'f'), 'outside');
  const part = fc.constantFrom('a', 'b', 'c', '..', '.', '', 'outside', 'to', 'f');
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
  const member = fc.record({
    name: path,
    target: fc.oneof(
      path,
      path.map((rest) => `${dir}/${rest}`),
    ),
    flag: fc.constantFrom('0', '0', '1', '2', '2', '5'),
    content: fc.constantFrom('', 'x', 'y'.repeat(600)),
  });
  const to = join(dir, 'to');
  fc.assert(
    fc.property(
      fc.array(member, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 2000 }),
      (members, piece) => {
        rmSync(to, { recursive: true, force: true });
        // Each by itself, so that one that is refused does not spare the others.
        for (const one of members) {
          try {
            unpack(to, archive([one]), piece);
          } catch (error) {
            if (!(error instanceof Error) || !['AgentError', 'TarError'].includes(error.name)) throw error;
          }
        }
        if (readdirSync(dir).some((name) => name !== 'to' && name !== 'outside'))
          throw new Error('something is beside');
        if (readdirSync(outside).join() !== 'f' || readFileSync(join(outside, 'f'), 'latin1') !== 'outside')
          throw new Error('something outside was changed');
      },
    ),
    { numRuns: 300 },
  );
  t.end();
});

t.test('links that are swapped in meanwhile lead nowhere', async (t) => {
  const dir = freshDirectory();
  const to = join(dir, 'to');
  const outside = join(dir, 'outside');
  mkdirSync(join(to, 'd/e'), { recursive: true });
  mkdirSync(join(outside, 'e'), { recursive: true });
  const swapper = fork(import.meta.filename, ['swap', to, outside], { execArgv: [] });
  await new Promise((resolve) => swapper.once('message', resolve));
  let refused = 0;
  let written = 0;
  const until = Date.now() + 2000;
  for (let n = 0; Date.now() < until; n++) {
    try {
      put(
        to,
        { name: 'd/', flag: '5', mode: 0o755 },
        { name: `d/x${n % 10}`, content: 'x' },
        { name: `d/e/y${n % 10}`, content: 'y' },
        { name: `d/l${n % 10}`, flag: '2', target: 'x' },
      );
      written += 1;
    } catch {
      refused += 1;
    }
  }
  const gone = new Promise((resolve) => swapper.once('exit', resolve));
  swapper.kill('SIGKILL');
  await gone;
  t.comment(`${written} extractions written, ${refused} refused`);
  t.ok(written > 0);
  t.same(readdirSync(outside), ['e']);
  t.same(readdirSync(join(outside, 'e')), []);
});

t.test('a destination that cannot be had is named as it was given', (t) => {
  const dir = freshDirectory();
  writeFileSync(join(dir, 'file'), '');
  symlinkSync('nowhere', join(dir, 'link'));
  for (const path of [`${dir}/file`, `${dir}/./file/x/y`, `${dir}//new/../file/x`, `${dir}/link/x`])
    t.throws(() => put(path, { name: 'a' }), {
      message: `destination ${JSON.stringify(path)} goes through something that is no directory`,
    });
  t.end();
});

/** A process that makes `d` of the destination a directory and a link to the outside in turn, whatever else happens to it. */
function swapForEver(to: string, outside: string): never {
  const d = join(to, 'd');
  const attempt = (step: () => void): void => {
    try {
      step();
    } catch {}
  };
  process.send?.('ready');
  for (let n = 0; ; n++) {
    attempt(() => renameSync(d, join(to, `was-${n}`)));
    attempt(() => symlinkSync(outside, d));
    attempt(() => unlinkSync(d));
    attempt(() => mkdirSync(join(d, 'e'), { recursive: true }));
  }
}
