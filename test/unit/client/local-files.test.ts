// What the library and the command write here and read here, where another user can put and exchange names meanwhile.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
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
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { writeContexts } from '../../../client/src/command/context.ts';
import { SandboxdError } from '../../../client/src/errors.ts';
import { writeWhole } from '../../../client/src/platform/whole-file.ts';
import { STRANGER } from '../../support/stranger.ts';
import { archiveOf, type Entry, packed, pieces, unpackInto } from './local-archives.ts';

async function* bytes(...parts: readonly (string | (() => void))[]): AsyncGenerator<Uint8Array, void> {
  for (const part of parts) {
    if (typeof part === 'string') yield Buffer.from(part);
    else part();
  }
}

/** A directory of somebody else, a directory that is none of his business, and a file in that. */
function makePlaces(t: Test) {
  const dir = t.testdir({ theirs: {}, private: { secret: 'secret' } });
  const [theirs, own] = [join(dir, 'theirs'), join(dir, 'private')];
  const secret = join(own, 'secret');
  const assertUntouched = () => {
    t.equal(readFileSync(secret, 'utf8'), 'secret');
    t.same(readdirSync(own), ['secret']);
  };
  /** Another user gives his directory another name, and a link has the one it had. */
  const exchange = (path: string) => {
    renameSync(path, `${path}-moved`);
    symlinkSync(own, path);
  };
  return { dir, theirs, own, secret, assertUntouched, exchange };
}

t.test(
  'a file that is written whole follows no link, neither one that was there nor one that comes',
  async (t) => {
    const { theirs, secret, assertUntouched, exchange } = makePlaces(t);
    symlinkSync(secret, join(theirs, `.out.${process.pid}.part`));
    symlinkSync(secret, join(theirs, 'out'));
    await writeWhole(join(theirs, 'out'), bytes('te', 'xt'), { mode: 0o600 });
    t.ok(lstatSync(join(theirs, 'out')).isFile(), 'a link of its name is replaced');
    t.equal(readFileSync(join(theirs, 'out'), 'utf8'), 'text');
    t.equal(statSync(join(theirs, 'out')).mode & 0o777, 0o600);
    assertUntouched();
    await writeWhole(
      join(theirs, 'secret'),
      bytes('te', () => exchange(theirs), 'xt'),
    );
    t.equal(readFileSync(`${theirs}-moved/secret`, 'utf8'), 'text', 'it is where it was begun');
    assertUntouched();
  },
);

t.test('what fails leaves nothing, and a signal ends it', async (t) => {
  const { theirs } = makePlaces(t);
  const ended = new AbortController();
  const cut = bytes('te', () => ended.abort(new Error('enough')), 'xt');
  await t.rejects(writeWhole(join(theirs, 'out'), cut, { signal: ended.signal }), { message: 'enough' });
  t.same(readdirSync(theirs), []);
});

t.test('a device or a pipe, and what leads to one, is not replaced by a file', async (t) => {
  const { theirs } = makePlaces(t);
  execFileSync('mkfifo', [join(theirs, 'pipe')]);
  symlinkSync('/dev/null', join(theirs, 'null'));
  for (const name of ['pipe', 'null'])
    await t.rejects(writeWhole(join(theirs, name), bytes('x')), {
      constructor: SandboxdError,
      message: /is not a file, and would be replaced by one/,
    });
  t.equal(readlinkSync(join(theirs, 'null')), '/dev/null');
  t.same(readdirSync(theirs).sort(), ['null', 'pipe']);
});

t.test('contexts are written through no link', async (t) => {
  const { theirs, secret, assertUntouched } = makePlaces(t);
  const path = join(theirs, 'sandbox/contexts.json');
  mkdirSync(join(theirs, 'sandbox'));
  symlinkSync(secret, `${path}.${process.pid}`);
  chmodSync(secret, 0o640);
  await writeContexts({ contexts: { near: { host: 'http://x' } } }, path);
  assertUntouched();
  t.equal(statSync(secret).mode & 0o777, 0o640);
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.same(readdirSync(join(theirs, 'sandbox')).sort(), ['contexts.json', `contexts.json.${process.pid}`]);
});

t.test('an archive is unpacked with modes, times and links, and twice', async (t) => {
  const { theirs } = makePlaces(t);
  const to = join(theirs, 'new/deep');
  for (const content of ['one', 'two']) {
    await unpackInto(
      to,
      archiveOf(
        { name: './', type: 'directory', mode: 0o700 },
        { name: './sealed/', type: 'directory', mode: 0o555 },
        { name: './sealed/run', mode: 0o6755, text: content },
        { name: 'implied/above/x', text: content },
        { name: 'link', type: 'symlink', linkname: './sealed/run' },
        { name: 'implied/up', type: 'symlink', linkname: '../sealed' },
        { name: 'same', type: 'link', linkname: 'sealed/run' },
        { name: 'pipe', type: 'fifo' },
      ),
    );
    t.equal(readFileSync(join(to, 'link'), 'utf8'), content);
    t.equal(readFileSync(join(to, 'same'), 'utf8'), content);
    t.equal(readFileSync(join(to, 'implied/up/run'), 'utf8'), content);
    t.same(readdirSync(to).sort(), ['implied', 'link', 'same', 'sealed']);
    t.same(readdirSync(join(to, 'sealed')), ['run'], 'no parts are left');
    const { mode, ino, mtimeMs } = statSync(join(to, 'sealed/run'));
    t.match([mode & 0o7777, mtimeMs], [0o755, 1000], 'permissions, and no more');
    t.equal(statSync(join(to, 'same')).ino, ino);
    const sealed = statSync(join(to, 'sealed'));
    t.equal(sealed.mode & 0o7777, content === 'one' ? 0o555 : 0o755, 'of what was there already its own');
    if (content === 'one') t.equal(sealed.mtimeMs, 1000);
    chmodSync(join(to, 'sealed'), 0o755);
  }
});

t.test('what an archive holds leads nowhere out of the directory', async (t) => {
  const { theirs, own, assertUntouched } = makePlaces(t);
  const bad: (readonly Entry[])[] = [
    [{ name: '../private/x' }],
    [{ name: 'a/../../private/x' }],
    [{ name: 'up', type: 'symlink', linkname: '..' }],
    [{ name: 'abs', type: 'symlink', linkname: own }],
    [{ name: 'a/b', type: 'symlink', linkname: 'x/../../..' }],
    [{ name: 'self', type: 'symlink', linkname: '.' }, { name: 'self/x' }],
    [{ name: 'x', type: 'link', linkname: '../private/secret' }],
    [{ name: 'x', type: 'link', linkname: 'no/such' }],
  ];
  for (const entries of bad)
    await t.rejects(unpackInto(join(theirs, 'to'), archiveOf(...entries)), JSON.stringify(entries));
  const odd: (readonly [Record<string, string>, RegExp | undefined])[] = [
    [{ path: 'a\0b' }, /"a\\u0000b" cannot be the name of a file here/],
    [{ path: 'x'.repeat(300) }, /ENAMETOOLONG/],
    [{ mtime: '1e300' }, undefined],
    [{ mtime: '-1e12' }, undefined],
  ];
  for (const [pax, message] of odd) {
    const made = unpackInto(join(theirs, 'to'), archiveOf({ name: 'odd', pax }));
    await (message === undefined ? t.resolves(made, pax) : t.rejects(made, { message }));
  }
  await unpackInto(join(theirs, 'to'), archiveOf({ name: `${own}/x` }));
  t.ok(statSync(join(theirs, 'to', own, 'x')).isFile(), 'an absolute name is one beneath it');
  assertUntouched();
});

t.test('nothing is unpacked through links that were there or come meanwhile', async (t) => {
  const { theirs, own, secret, assertUntouched, exchange } = makePlaces(t);
  symlinkSync(secret, join(theirs, 'file'));
  symlinkSync(own, join(theirs, 'directory'));
  await unpackInto(theirs, archiveOf({ name: 'file', text: 'new' }));
  t.equal(lstatSync(join(theirs, 'file')).isFile(), true);
  for (const entry of [
    { name: 'directory/secret' },
    { name: 'directory/', type: 'directory', mode: 0 } as const,
  ])
    await t.rejects(unpackInto(theirs, archiveOf(entry)), {
      constructor: SandboxdError,
      message: `${join(theirs, 'directory')} is not a directory, and links on the way are not followed`,
    });
  assertUntouched();
  const modeBefore = statSync(own).mode;
  await unpackInto(
    theirs,
    archiveOf(
      { name: 'd/', type: 'directory', mode: 0o500 },
      { name: 'd/one', text: '1' },
      { at: join(theirs, 'd/one'), act: () => exchange(join(theirs, 'd')) },
      { name: 'd/secret', text: '2' },
      { name: 'd/again', text: '3' },
    ),
  ).catch(() => undefined);
  assertUntouched();
  t.equal(statSync(own).mode, modeBefore);
  t.equal(readFileSync(join(theirs, 'd-moved/secret'), 'utf8'), '2', 'it is where it was begun');
  await t.rejects(
    unpackInto(
      theirs,
      archiveOf(
        { name: 'e/one' },
        { name: 'f' },
        { at: join(theirs, 'f'), act: () => exchange(join(theirs, 'e')) },
        { name: 'e/secret' },
      ),
    ),
    /is not a directory/,
  );
  assertUntouched();
});

t.test(
  'pipes and directories are not replaced, and an archive that is cut leaves no part of a file',
  async (t) => {
    const { theirs } = makePlaces(t);
    execFileSync('mkfifo', [join(theirs, 'pipe')]);
    mkdirSync(join(theirs, 'd'));
    await t.rejects(unpackInto(theirs, archiveOf({ name: 'pipe' })), /pipe is not a file/);
    await t.rejects(unpackInto(theirs, archiveOf({ name: 'd' })), /d is a directory/);
    const whole = await buffer(Readable.from(archiveOf({ name: 'a', text: 'x'.repeat(100_000) })));
    await t.rejects(unpackInto(theirs, pieces(whole.subarray(0, 50_000))), {
      name: 'SandboxdError',
      message: /cannot be unpacked into: .*truncated/,
    });
    async function* lost() {
      yield* pieces(whole.subarray(0, 50_000));
      throw new Error('lost');
    }
    await t.rejects(unpackInto(theirs, lost()), { message: /lost/ });
    t.same(readdirSync(theirs).sort(), ['d', 'pipe']);
  },
);

t.test('a directory is packed as it is, and nothing that its owner puts a link to meanwhile', async (t) => {
  const { theirs, own, assertUntouched, exchange } = makePlaces(t);
  mkdirSync(join(theirs, 'b'));
  writeFileSync(join(theirs, 'a'), 'first');
  linkSync(join(theirs, 'a'), join(theirs, 'c'));
  writeFileSync(join(theirs, 'b/secret'), 'theirs');
  symlinkSync(own, join(theirs, 'd'));
  execFileSync('mkfifo', [join(theirs, 'pipe')]);
  t.same(Object.fromEntries(await packed(theirs)), {
    a: 'first',
    'b/': 'directory',
    'b/secret': 'theirs',
    c: 'link a',
    d: `symlink ${own}`,
  });
  // More than the archiver reads ahead.
  writeFileSync(join(theirs, 'a'), Buffer.alloc(32 << 20, 'x'));
  const found = await packed(theirs, (name) => name === 'a' && exchange(join(theirs, 'b'))).catch(
    (error: unknown) => {
      t.match(error, /is not a directory|ENOTDIR/);
      return new Map<string, string>();
    },
  );
  t.notOk([...found.values()].includes('secret'));
  assertUntouched();
});

/** Another user gives `d` of a directory of theirs to a link and back, as fast as they can, until they are told to leave. */
const EXCHANGER = `
const { renameSync, symlinkSync } = require('node:fs');
const [dir, to, uid] = JSON.parse(process.argv[1]);
process.setgroups([]); process.setgid(uid); process.setuid(uid);
process.chdir(dir);
symlinkSync(to, 'link');
process.stdout.write('begun');
const turn = () => {
  for (let i = 0; i < 200; i++)
    try {
      renameSync('d', 'kept'); renameSync('link', 'd'); renameSync('d', 'link'); renameSync('kept', 'd');
    } catch {}
  setImmediate(turn);
};
turn();
process.stdin.on('end', () => process.exit()).resume();
`;

t.test('root copies out of and into a directory while its owner exchanges names in it', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'exchanged-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  chmodSync(dir, 0o755);
  const [theirs, own] = [join(dir, 'theirs'), join(dir, 'own')];
  for (const path of [theirs, join(theirs, 'd'), own]) mkdirSync(path);
  writeFileSync(join(theirs, 'd/secret'), 'theirs');
  writeFileSync(join(own, 'secret'), 'secret');
  for (const path of [theirs, join(theirs, 'd'), join(theirs, 'd/secret')])
    chownSync(path, STRANGER, STRANGER);
  const words = [process.execPath, '-e', EXCHANGER, JSON.stringify([theirs, own, STRANGER])] as const;
  const child = spawn(words[0], words.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  await once(child.stdout, 'data');
  const ways = { in: 0, out: 0 };
  for (let turn = 0; turn < 200; turn++) {
    const archive = archiveOf({ name: 'd/secret', text: 'guest' }, { name: 'd/more', text: 'guest' });
    await unpackInto(theirs, archive).then(
      () => (ways.in += 1),
      () => undefined,
    );
    const found = await packed(theirs).catch(() => new Map<string, string>());
    if (found.has('d/secret')) ways.out += 1;
    t.notOk([...found.values()].includes('secret'), 'nothing of root’s comes out');
  }
  child.stdin.end();
  await ended;
  t.ok(ways.in > 0 && ways.out > 0, `${ways.in} copies went in, ${ways.out} came out`);
  t.equal(readFileSync(join(own, 'secret'), 'utf8'), 'secret');
  t.same(readdirSync(own), ['secret']);
});
