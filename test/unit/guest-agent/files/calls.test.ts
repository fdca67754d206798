// Calls about single files, in this process: what they answer, whose rights apply, and that nothing is half done or
// leads out of the root.
import '../support/addon-dir.ts';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { writeFile } from '../../../../host-agent/src/guest/files.ts';
import { calls, start } from '../support/file-calls.ts';
import { openDescriptors } from '../support/open-descriptors.ts';

const NOBODY = '65534:65534';

t.test('a file is described, with and without its link', async (t) => {
  const { dir, stat } = await start(t);
  writeFileSync(join(dir, 'file'), 'content');
  chmodSync(join(dir, 'file'), 0o4750);
  utimesSync(join(dir, 'file'), 0, 1_100_000_000.5);
  symlinkSync('/file', join(dir, 'link'));
  const entry = {
    type: 'file',
    sizeBytes: 7,
    mode: 0o4750,
    modifiedAtMs: 1_100_000_000_500,
    uid: 0,
    user: 'root',
    group: 'root',
    links: 1,
  };
  t.match(await stat('/file'), entry);
  t.match(await stat('/link'), entry, 'an absolute link leads below the root');
  t.match(await stat('/link', true), { type: 'symlink', target: Buffer.from('/file') });
  t.match(await stat('/'), { type: 'directory' });
  await t.rejects(stat('/missing'), { code: 'not_found', message: /missing" does not exist/ });
  await t.rejects(stat('/file/below'), { code: 'invalid_argument' });
  await t.rejects(stat(`/${'x'.repeat(300)}`), { code: 'invalid_argument', message: /too long/ });
});

t.test('no path and no link leads out of the root', async (t) => {
  const { dir, channel, stat, read, write, call } = await start(t);
  mkdirSync(join(dir, 'root'));
  const inside = calls(channel, join(dir, 'root'));
  writeFileSync(join(dir, 'secret'), 'secret');
  symlinkSync('../secret', join(dir, 'root/up'));
  symlinkSync(join(dir, 'secret'), join(dir, 'root/absolute'));
  symlinkSync('..', join(dir, 'root/parent'));
  for (const path of ['/up', '/absolute', '/parent/secret', '/../secret', '/parent/../../secret']) {
    await t.rejects(inside.stat(path), { code: 'not_found' }, path);
    await t.rejects(inside.read(path), { code: 'not_found' }, path);
    if (path.slice(1).includes('/'))
      await t.rejects(inside.call(path, { remove: {} }), { code: 'not_found' }, path);
    await t.rejects(inside.call(path, { copy: { to: Buffer.from('/copy') } }), { code: 'not_found' }, path);
  }
  await inside.write('/up', 'below');
  await inside.write('/parent/secret2', 'below');
  t.equal(readFileSync(join(dir, 'secret'), 'utf8'), 'secret');
  t.same(readdirSync(dir).sort(), ['root', 'secret']);
  t.equal(readFileSync(join(dir, 'root/secret'), 'utf8'), 'below', 'the link leads to a name in the root');
  t.equal((await stat('/secret')).sizeBytes, 6);
  t.equal((await read('/secret')).text, 'secret');
  await write('/secret', 'changed');
  await call('/secret', { remove: {} });
});

t.test('pages of a tree are in order, without gaps or repeats', async (t) => {
  const { dir, list, call } = await start(t);
  const names = ['a', 'a/1', 'a/2', 'a/2/x', 'a.b', 'b', 'b/y', 'c'];
  for (const name of ['a', 'a/2', 'b']) mkdirSync(join(dir, name));
  for (const name of ['a/1', 'a/2/x', 'a.b', 'b/y', 'c']) writeFileSync(join(dir, name), '');
  writeFileSync(Buffer.concat([Buffer.from(`${dir}/`), Buffer.from([0xff, 0xfe])]), '');
  symlinkSync('a', join(dir, 'd'));
  const all = [...names, 'd', '\xff\xfe'];
  for (const size of [1, 2, 3, 100]) t.same(await list('/', 9, size), all, `pages of ${size}`);
  t.same(
    await list('/', 2, 1),
    all.filter((name) => name !== 'a/2/x'),
    'two levels',
  );
  t.same(await list('/d', 1, 1), ['1', '2'], 'the link that is asked for is followed');
  await t.rejects(list('/c'), { code: 'invalid_argument' });
  const after = Buffer.from('a/2');
  const first = await call('/', { list: { depth: 9, maxEntries: 2, after } });
  rmSync(join(dir, 'a/2'), { recursive: true });
  const then = await call('/', { list: { depth: 9, maxEntries: 2, after } });
  t.same(
    [first, then].map(({ entries }) => entries.map(({ path }) => String(path))),
    [
      ['a/2/x', 'a.b'],
      ['a.b', 'b'],
    ],
    'a directory that is gone loses nothing behind it',
  );
});

t.test('a large directory costs a page, not itself', async (t) => {
  const { dir, call, list } = await start(t);
  for (let n = 0; n < 6000; n++) writeFileSync(join(dir, `file-${n}`), '');
  const { entries, hasMore } = await call('/', { list: { depth: 1, maxEntries: 10 } });
  t.equal(entries.length, 10);
  t.ok(hasMore);
  const names = await list('/', 1, 5000);
  t.equal(new Set(names).size, 6000);
  t.same(names, names.toSorted());
});

t.test('a write is whole or nothing, and keeps whose the file was', async (t) => {
  const { dir, write, agent, channel, read } = await start(t);
  t.match(await write('/new/dir/file', ['one ', 'two'], { parents: true, mode: 0o600 }), {
    sizeBytes: 7,
    mode: 0o600,
  });
  await t.rejects(write('/other/file', 'x'), { code: 'not_found', message: /other" does not exist/ });
  chownSync(join(dir, 'new/dir/file'), 1000, 1001);
  symlinkSync('new/dir/file', join(dir, 'link'));
  t.match(await write('/link', 'three'), { sizeBytes: 5, mode: 0o600, uid: 1000, gid: 1001 });
  t.ok(lstatSync(join(dir, 'link')).isSymbolicLink());
  t.equal((await read('/link')).text, 'three');
  await t.rejects(write('/new', 'x'), { code: 'invalid_argument', message: /is a directory/ });
  await t.rejects(write('/', 'x'), { code: 'invalid_argument' });
  const descriptors = openDescriptors();
  const failing = writeFile(
    { channel },
    { place: { path: Buffer.from('/new/half'), root: Buffer.from(dir) } },
    async () => {
      if (readdirSync(join(dir, 'new')).length === 1) return Buffer.alloc(1000);
      throw new Error('the client is gone');
    },
  );
  await t.rejects(failing, { message: 'the client is gone' });
  while (readdirSync(join(dir, 'new')).length > 1) await new Promise((resolve) => setTimeout(resolve, 5));
  t.same(readdirSync(join(dir, 'new')), ['dir'], 'nothing is left of a write that was given up');
  t.equal(openDescriptors(), descriptors);
  t.same(agent.faults, []);
});

t.test('an ETag changes with each change, and guards a write', async (t) => {
  const { dir, write, stat } = await start(t);
  const versions = new Set<string>();
  for (let n = 0; n < 20; n++) {
    const { version } = await write('/file', 'same size');
    versions.add(version);
    t.equal((await stat('/file')).version, version);
    writeFileSync(join(dir, 'file'), 'size same');
    versions.add((await stat('/file')).version);
  }
  t.equal(versions.size, 40);
  const { version } = await stat('/file');
  await t.rejects(write('/file', 'x', { ifNoneMatch: ['*'] }), { code: 'precondition_failed' });
  await t.rejects(write('/file', 'x', { ifMatch: ['1.2'] }), { code: 'precondition_failed' });
  await t.rejects(write('/missing', 'x', { ifMatch: ['*'] }), { code: 'precondition_failed' });
  await t.rejects(write('/no/such', 'x', { ifMatch: ['*'], parents: true }), { code: 'precondition_failed' });
  t.equal(readFileSync(join(dir, 'file'), 'utf8'), 'size same');
  await write('/file', 'x', { ifMatch: ['1.2', version] });
  await write('/missing', 'y', { ifNoneMatch: ['*'] });
  t.same(readdirSync(dir).sort(), ['file', 'missing']);
});

t.test('ranges of small and large files', async (t) => {
  const { dir, read, write } = await start(t);
  for (const size of [0, 10, 100_000]) {
    const content = 'abcdefghij'.repeat(size / 10);
    await write('/file', content);
    const file = async (part = {}) => {
      const { text, offsetBytes, sizeBytes } = await read('/file', part);
      t.equal(sizeBytes, size);
      return [offsetBytes, text];
    };
    t.same(await file(), [0, content]);
    t.same(await file({ first: 3, last: 5 }), size ? [3, content.slice(3, 6)] : [0, '']);
    t.same(await file({ first: size }), [size, '']);
    t.same(await file({ lastBytes: 4 }), [Math.max(0, size - 4), content.slice(-4)]);
    t.same(await file({ lastBytes: size * 2 }), [0, content]);
    t.same(await file({ first: 1, last: 2 ** 52 }), size ? [1, content.slice(1)] : [0, '']);
  }
  t.ok((await read('/file')).entry.version);
  mkdirSync(join(dir, 'directory'));
  await t.rejects(read('/directory'), { code: 'invalid_argument', message: /is a directory/ });
});

t.test('move, copy, remove and change', async (t) => {
  const { dir, call, list, agent } = await start(t);
  const to = (path: string) => Buffer.from(path);
  mkdirSync(join(dir, 'tree/sub'), { recursive: true });
  writeFileSync(join(dir, 'tree/sub/file'), 'x'.repeat(3_000_000));
  symlinkSync('sub/file', join(dir, 'tree/link'));
  chmodSync(join(dir, 'tree/sub/file'), 0o4711);
  await t.rejects(call('/tree', { copy: { to: to('/copy') } }), { code: 'invalid_argument' });
  t.match(await call('/tree', { copy: { to: to('/copy'), recursive: true } }), {
    entry: { type: 'directory' },
    count: 0,
  });
  t.same(await list('/copy', 3), ['link', 'sub', 'sub/file']);
  t.equal(statSync(join(dir, 'copy/sub/file')).mode & 0o7777, 0o711, 'no set-user-id bit is copied');
  t.equal(readlinkSync(join(dir, 'copy/link')), 'sub/file');
  await t.rejects(call('/tree', { copy: { to: to('/tree/sub/in'), recursive: true } }), {
    code: 'invalid_argument',
    message: /inside/,
  });
  await t.rejects(call('/tree', { move: { to: to('/copy') } }), { code: 'conflict' });
  await t.rejects(call('/tree', { move: { to: to('/copy'), replaces: true } }), { code: 'conflict' });
  await t.rejects(call('/tree', { move: { to: to('/tree/sub/in') } }), { code: 'invalid_argument' });
  t.match(await call('/tree', { move: { to: to('/moved') } }), { entry: { type: 'directory' } });
  await t.rejects(call('/moved', { remove: {} }), { code: 'conflict', message: /recursive/ });
  t.match(await call('/moved', { remove: { recursive: true } }), { count: 4 });
  await t.rejects(call('/', { remove: { recursive: true } }), { code: 'invalid_argument' });
  t.match(await call('/copy/link', { remove: {} }), { count: 1 });
  t.ok(existsSync(join(dir, 'copy/sub/file')), 'a link is removed, not its target');
  t.match(await call('/copy/sub/file', { change: { mode: 0o640, owner: NOBODY, mtimeUs: -1 } }), {
    entry: { mode: 0o640, uid: 65534, gid: 65534, modifiedAtMs: -1 },
  });
  t.match(await call('/copy/sub/file', { change: { owner: '0' } }), { entry: { uid: 0, gid: 65534 } });
  await t.rejects(call('/copy', { change: { owner: 'nobody-of-that-name' } }), { message: /no user/ });
  t.match(await call('/made', { makeDirectory: { mode: 0o1777 } }), { entry: { mode: 0o1777 } });
  await t.rejects(call('/made', { makeDirectory: {} }), { code: 'conflict' });
  await call('/made', { makeDirectory: { mayExist: true } });
  await t.rejects(call('/copy/sub/file', { makeDirectory: { mayExist: true } }), { code: 'conflict' });
  await call('/made/a/b', { makeDirectory: { parents: true } });
  t.same(agent.faults, []);
});

t.test('the rights of the user apply, and only until the call has ended', async (t) => {
  const { dir, call, read, write } = await start(t);
  writeFileSync(join(dir, 'private'), 'secret', { mode: 0o600 });
  mkdirSync(join(dir, 'open'));
  chmodSync(join(dir, 'open'), 0o777);
  writeFileSync(join(dir, 'open/read-only'), 'text', { mode: 0o644 });
  const denied = { code: 'invalid_argument', message: /permission denied|not permitted/ };
  await t.rejects(read('/private', {}, NOBODY), denied);
  await t.rejects(write('/file', 'x', {}, NOBODY), denied);
  await t.rejects(write('/open/read-only', 'x', {}, NOBODY), denied);
  await t.rejects(call('/private', { remove: {} }, NOBODY), denied);
  await t.rejects(call('/private', { change: { mode: 0o666 } }, NOBODY), denied);
  await t.rejects(call('/private', { copy: { to: Buffer.from('/open/copy') } }, NOBODY), denied);
  t.match(await write('/open/mine', 'x', {}, NOBODY), { uid: 65534, gid: 65534, mode: 0o644 });
  t.match(await call('/open/dir', { makeDirectory: {} }, NOBODY), { entry: { uid: 65534 } });
  t.match(await call('/open/read-only', { copy: { to: Buffer.from('/open/copy') } }, NOBODY), {
    entry: { uid: 65534 },
  });
  await t.rejects(call('/open', { stat: {} }, 'no-such-user'), { code: 'invalid_argument' });
  t.same(readdirSync(join(dir, 'open')).sort(), ['copy', 'dir', 'mine', 'read-only']);
  t.equal(process.geteuid?.(), 0);
  t.equal((await read('/private')).text, 'secret');
});
