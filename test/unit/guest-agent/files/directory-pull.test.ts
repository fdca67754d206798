// A directory as a tar archive, over a real socket: its content, all ways to read it, and no leaked descriptors.
import '../support/addon-dir.ts';
import { once } from 'node:events';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { AGENT_DIR, AgentError, type Channel, type Result, type Stream } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { until } from '../../../support/until.ts';
import { startLocalAgent } from '../support/local-agent.ts';
import { openDescriptors } from '../support/open-descriptors.ts';
import { replaceInAddon } from '../support/replaced-addon.ts';
import { readArchive } from '../support/tar-blocks.ts';

const dir = mkdtempSync(join(tmpdir(), 'directory-pull-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const large = 'l'.repeat(3_000_001);
mkdirSync(join(dir, 'sub/empty'), { recursive: true });
writeFileSync(join(dir, 'large'), large);
writeFileSync(join(dir, 'sub/small'), 'small', { mode: 0o640 });
utimesSync(join(dir, 'sub/small'), 1_000_000_000, 1_000_000_000);
writeFileSync(join(dir, 'sub/none'), '');
symlinkSync('sub/small', join(dir, 'link'));

const { errno } = constants;

type Pulling = { readonly stream: Stream; readonly done: Promise<Result>; received(): Buffer };

function pull(channel: Channel, path: string, isTaking = true): Pulling {
  const chunks: Buffer[] = [];
  const done = Promise.withResolvers<Result>();
  const stream = channel.open(
    { dirPull: { path } },
    {
      data: (_flow, chunk) => {
        chunks.push(Buffer.from(chunk));
        if (isTaking) stream.consumed(chunk.length);
      },
      result: done.resolve,
      lost: (loss) => done.reject(new Error(`lost: ${loss.kind}`)),
    },
  );
  return { stream, done: done.promise, received: () => Buffer.concat(chunks) };
}

t.test('everything that is in it', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = openDescriptors();
  const { done, received } = pull(channel, dir);
  t.match(await done, { dirPull: {} });
  const entries = readArchive(received()).map(({ name, type, target, content }) => [
    name.replace(/\/$/, ''),
    type,
    target,
    content,
  ]);
  t.same(entries.filter(([name]) => name !== '' && name !== '.').sort(), [
    ['large', 'file', '', large],
    ['link', 'symlink', 'sub/small', ''],
    ['sub', 'directory', '', ''],
    ['sub/empty', 'directory', '', ''],
    ['sub/none', 'file', '', ''],
    ['sub/small', 'file', '', 'small'],
  ]);
  const small = readArchive(received()).find(({ name }) => name === 'sub/small');
  t.match(small, { mode: 0o640, mtimeSeconds: 1_000_000_000 });
  t.equal(openDescriptors(), before);
  t.same(agent.faults, []);
});

t.test('one file is an archive of it alone', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = openDescriptors();
  for (const [path, expected] of [
    ['large', { name: 'large', type: 'file', content: large }],
    ['sub/none', { name: 'none', type: 'file', content: '' }],
    ['sub/./small', { name: 'small', mode: 0o640, mtimeSeconds: 1_000_000_000, content: 'small' }],
    ['link', { name: 'link', type: 'file', mode: 0o640, content: 'small' }],
  ] as const) {
    const { done, received } = pull(channel, join(dir, '/') + path);
    t.match(await done, { dirPull: { leftOut: 0 } }, path);
    const archive = readArchive(received());
    t.equal(archive.length, 1, path);
    t.match(archive[0], expected, path);
  }
  t.equal(openDescriptors(), before);
  t.same(agent.faults, []);
});

t.test('an unread, cancelled or failed pull leaks no descriptor', async (t) => {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  const before = openDescriptors();
  for (let round = 0; round < 5; round++) {
    const { stream, done, received } = pull(channel, dir, false);
    await until(() => received().length > 0, 'the first bytes');
    stream.cancel();
    t.match(await done, { error: { code: 'cancelled' } });
  }
  t.match(await pull(channel, join(dir, 'none')).done, { error: { code: 'not_found' } });
  const one = pull(channel, join(dir, 'large'), false);
  await until(() => one.received().length > 0, 'the first bytes');
  one.stream.cancel();
  t.match(await one.done, { error: { code: 'cancelled' } });
  t.equal(openDescriptors(), before);
  t.same(agent.faults, []);
});

/** A new directory with these files; a name that ends in a slash is a directory. */
function makeTree(t: Test, files: Readonly<Record<string, string>>): string {
  const tree = mkdtempSync(join(tmpdir(), 'tree-'));
  t.teardown(() => rmSync(tree, { recursive: true }));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(join(tree, name, name.endsWith('/') ? '.' : '..'), { recursive: true });
    if (!name.endsWith('/')) writeFileSync(join(tree, name), content);
  }
  return tree;
}

/** Pulls whole directories from one agent. */
async function startPulling(t: Test) {
  const agent = startLocalAgent(t);
  const channel = await agent.connect();
  return async (path: string) => {
    const before = openDescriptors();
    const { done, received } = pull(channel, path);
    const { error, dirPull } = await done;
    t.equal(openDescriptors(), before, 'nothing stays open');
    t.ok(agent.faults.splice(0).every((fault) => fault instanceof AgentError));
    const bytes = received();
    const entries = error ? [] : readArchive(bytes);
    return { error, dirPull, bytes, entries, names: entries.map(({ name }) => name).sort() };
  };
}

t.test('files of any size fill whole blocks, and two of zeros are the end', async (t) => {
  const pullAll = await startPulling(t);
  const sizes = [1, 511, 512, 513, 65_503, 65_504, 65_505, 131_072];
  const content = (size: number): string => 'abcdefg'.repeat(size / 7 + 1).slice(0, size);
  const tree = makeTree(t, Object.fromEntries(sizes.map((size) => [`of-${size}`, content(size)])));
  chmodSync(tree, 0o711);
  const { bytes, entries } = await pullAll(tree);
  t.match(entries[0], { name: './', type: 'directory', mode: 0o711, sizeBytes: 0 });
  for (const size of sizes)
    t.ok(entries.find(({ name }) => name === `of-${size}`)?.content === content(size), `${size} bytes`);
  const blocks = sizes.map((size) => 1 + Math.ceil(size / 512)).reduce((sum, count) => sum + count);
  t.equal(bytes.length, (1 + blocks + 2) * 512);
});

t.test('the padding after a file is zeros, whatever the buffer held before', async (t) => {
  const pullAll = await startPulling(t);
  await pullAll(makeTree(t, { before: 'x'.repeat(200_000) }));
  const { bytes } = await pullAll(makeTree(t, { small: 'y' }));
  t.equal(bytes.length, (1 + 2 + 2) * 512);
  t.ok(bytes.subarray(1025).every((byte) => byte === 0));
});

t.test('a file with several names is a file once, and then links to that', async (t) => {
  const pullAll = await startPulling(t);
  const tree = makeTree(t, { 'a/one': 'shared', 'b/': '', 'a/empty': '' });
  linkSync(join(tree, 'a/one'), join(tree, 'b/two'));
  linkSync(join(tree, 'a/one'), join(tree, 'b/three'));
  linkSync(join(tree, 'a/empty'), join(tree, 'b/empty'));
  symlinkSync('one', join(tree, 'a/soft'));
  linkSync(join(tree, 'a/soft'), join(tree, 'b/soft'));
  const { entries, dirPull } = await pullAll(tree);
  t.equal(dirPull?.leftOut, 0);
  for (const [names, type, content] of [
    [['a/one', 'b/two', 'b/three'], 'file', 'shared'],
    [['a/empty', 'b/empty'], 'file', ''],
    [['a/soft', 'b/soft'], 'symlink', ''],
  ] as const) {
    const [first, ...others] = entries.filter(({ name }) => names.some((one) => one === name));
    t.match(first, { type, content, target: type === 'file' ? '' : 'one' });
    t.equal(others.length, names.length - 1);
    for (const other of others)
      t.match(other, { type: 'link', target: first?.name, content: '', sizeBytes: 0 });
  }
});

t.test('what is neither file, directory nor link is left out, and counted', async (t) => {
  const pullAll = await startPulling(t);
  const tree = makeTree(t, { 'sub/file': 'x' });
  for (const name of ['socket', 'sub/socket']) {
    const server = createServer().listen(join(tree, name));
    t.teardown(() => server.close());
    await once(server, 'listening');
  }
  const { names, dirPull } = await pullAll(tree);
  t.equal(dirPull?.leftOut, 2);
  t.same(names, ['./', 'sub/', 'sub/file']);
  for (const [path, what] of [
    [join(tree, 'socket'), 'a socket'],
    ['/dev/null', 'a character device'],
  ] as const)
    t.match((await pullAll(path)).error, {
      code: 'invalid',
      message: `${JSON.stringify(path)} is ${what}; only directories and regular files can be read`,
    });
});

t.test('another file system is an empty directory', async (t) => {
  const pullAll = await startPulling(t);
  const tree = makeTree(t, { 'here/file': 'x', 'mounted/file': 'x' });
  const real = replaceInAddon(t, {
    openEntry: (directory, leaf, status) => {
      const fd = real.openEntry(directory, leaf, status);
      if (leaf === 'mounted') status[5] = (status[5] ?? 0) + 1;
      return fd;
    },
  });
  const { names } = await pullAll(tree);
  t.same(names, ['./', 'here/', 'here/file', 'mounted/']);
});

t.test('what disappears meanwhile is left out; what cannot be opened is named', async (t) => {
  const pullAll = await startPulling(t);
  const tree = makeTree(t, { 'sub/file': 'x', 'sub/gone': 'x', 'sub/last': 'x' });
  symlinkSync('file', join(tree, 'sub/link'));
  let refusal: number = errno.ENOENT;
  const real = replaceInAddon(t, {
    openEntry: (directory, leaf, status) =>
      leaf === 'gone' ? -refusal : real.openEntry(directory, leaf, status),
    readLink: () => -errno.ENOENT,
  });
  for (refusal of [errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.ENXIO]) {
    const { names, dirPull } = await pullAll(tree);
    t.equal(dirPull?.leftOut, 0);
    t.same(names, ['./', 'sub/', 'sub/file', 'sub/last']);
  }
  refusal = errno.EACCES;
  const { error } = await pullAll(tree);
  t.match(error, { code: 'permission_denied', message: /^"sub\/gone" may not be accessed/ });
  const { nextEntries } = real;
  let lists = 0;
  addon.nextEntries = (fd) => (++lists > 1 ? -errno.EIO : nextEntries(fd));
  t.match((await pullAll(tree)).error, { code: 'invalid', message: /^"sub\/" cannot be read/ });
});

t.test('a file that became shorter is filled up with zeros; one that cannot be read is named', async (t) => {
  const pullAll = await startPulling(t);
  const content = 'c'.repeat(100_000);
  const tree = makeTree(t, { 'sub/file': content });
  let fileFd = -1;
  const real = replaceInAddon(t, {
    openEntry: (directory, leaf, status) => {
      const fd = real.openEntry(directory, leaf, status);
      if (leaf === 'file') fileFd = fd;
      if (leaf === 'file') truncateSync(join(tree, 'sub/file'), 70_001);
      return fd;
    },
  });
  const { entries } = await pullAll(tree);
  const [file] = entries.filter(({ type }) => type === 'file');
  t.ok(file?.content === content.slice(0, 70_001) + '\0'.repeat(29_999));
  addon.read = (fd, ...range) => {
    if (fd === fileFd) throw Object.assign(new Error('read failed'), { code: 'EIO' });
    return real.read(fd, ...range);
  };
  t.same(
    { ...(await pullAll(tree)).error },
    { code: 'invalid', message: '"sub/file" cannot be read or written (input/output error)' },
  );
});

t.test('of the root, the agent’s own directory is left out, and of nothing else', async (t) => {
  const pullAll = await startPulling(t);
  const own = AGENT_DIR.slice(1);
  const tree = makeTree(t, { [`${own}/agent`]: 'x', [`sub/${own}`]: 'x', other: 'x' });
  const all = ['./', `${own}/`, `${own}/agent`, 'other', 'sub/', `sub/${own}`].sort();
  t.same((await pullAll(tree)).names, all);
  const real = replaceInAddon(t, { openFile: (_path, status) => real.openFile(tree, status) });
  for (const root of ['/', '//', '/./', '/..']) {
    t.same((await pullAll(root)).names, ['./', 'other', 'sub/', `sub/${own}`], root);
  }
});

t.test('directories are read to a depth that descriptors are enough for', async (t) => {
  const pullAll = await startPulling(t);
  const tree = makeTree(t, { file: 'x' });
  const FIRST = 1_000_000;
  const open = new Set<number>();
  const listed = new Set<number>();
  let made = 0;
  const real = replaceInAddon(t, {
    nextEntries: (fd) => {
      if (listed.has(fd)) return '';
      listed.add(fd);
      return 'd/';
    },
    openEntry: (_directory, _leaf, status) => {
      status[0] = 0o040755;
      open.add(FIRST + ++made);
      return FIRST + made;
    },
    close: (fd) => {
      if (fd < FIRST) real.close(fd);
      else if (!open.delete(fd)) throw new Error(`${fd} is not open`);
    },
  });
  const { error } = await pullAll(tree);
  t.match(error, { code: 'invalid', message: /…" \(4095 bytes\) is nested deeper than 2048 directories$/ });
  t.equal(open.size, 0);
});
