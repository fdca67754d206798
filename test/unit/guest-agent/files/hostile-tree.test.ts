// Calls about single files in trees that were made to do harm, or that change meanwhile.
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import t from 'tap';
import { calls, start } from '../support/file-calls.ts';
import { openDescriptors } from '../support/open-descriptors.ts';

const to = (path: string) => Buffer.from(path);

t.test('a list ends where paths are too long for a request', async (t) => {
  const { dir, call } = await start(t);
  const name = 'x'.repeat(250);
  const deeper = `mkdir ${name}; cd -P ${name} || exit`;
  execFileSync('sh', ['-c', `cd ${dir}; for n in $(seq 20); do ${deeper}; done; touch end`]);
  let after: Buffer = Buffer.alloc(0);
  const list = async () => {
    for (let pages = 0; pages < 30; pages++) {
      const { entries, hasMore } = await call('/', { list: { depth: 256, maxEntries: 1, after } });
      const last = entries.at(-1)?.path ?? Buffer.alloc(0);
      t.ok(Buffer.compare(last, after) > 0, 'each page is behind the one before');
      if (!hasMore) return;
      after = last;
    }
    throw new Error('it never ends');
  };
  await t.rejects(list(), { code: 'invalid_argument', message: /too long/ });
  execFileSync('rm', ['-rf', dir]);
});

t.test('holes of a copied file stay holes, at any size', async (t) => {
  const { dir, call, read } = await start(t, '/dev/shm');
  execFileSync('truncate', ['--size', String(2 ** 62), join(dir, 'huge')]);
  t.match(await call('/huge', { stat: {} }), { entry: { sizeBytes: Number.MAX_SAFE_INTEGER } });
  t.equal((await read('/huge', { first: 5, last: 6 })).text, '\0\0');
  await call('/huge', { copy: { to: to('/copy') } });
  t.equal(statSync(join(dir, 'copy')).blocks, 0);
  writeFileSync(join(dir, 'mixed'), 'start');
  truncateSync(join(dir, 'mixed'), 50_000_000);
  writeFileSync(join(dir, 'mixed'), 'middle', { flag: 'r+' });
  execFileSync('sh', ['-c', `printf end >> ${dir}/mixed; truncate -s +30M ${dir}/mixed`]);
  await call('/mixed', { copy: { to: to('/mixed-copy') } });
  execFileSync('cmp', [join(dir, 'mixed'), join(dir, 'mixed-copy')]);
  t.equal(statSync(join(dir, 'mixed-copy')).blocks, statSync(join(dir, 'mixed')).blocks);
});

t.test(
  'a name that ends with a slash is a directory’s, and links are followed from where they are',
  async (t) => {
    const { dir, call, write } = await start(t);
    mkdirSync(join(dir, 'd/d'), { recursive: true });
    writeFileSync(join(dir, 'd/one'), '');
    symlinkSync('d', join(dir, 'link'));
    symlinkSync('d/one', join(dir, 'file'));
    for (const path of ['/link', '/link/', '/link/.', '/link//', '/./link/./']) {
      await call(path, { copy: { to: to('/copy'), recursive: true } });
      t.same(readdirSync(join(dir, 'copy')), ['d', 'one'], path);
      rmSync(join(dir, 'copy'), { recursive: true });
    }
    const notDirectory = { code: 'invalid_argument', message: /not a directory/ };
    for (const path of ['/d/one/', '/d/one/.', '/link/', '/file/']) {
      await t.rejects(call(path, { remove: {} }), notDirectory, path);
      await t.rejects(call(path, { move: { to: to('/moved') } }), notDirectory, path);
    }
    await t.rejects(call('/file/', { copy: { to: to('/copy') } }), notDirectory);
    await t.rejects(write('/file/', 'x'), notDirectory);
    await t.rejects(write('/new/', 'x'), { code: 'invalid_argument', message: /directory/ });
    await call('/made/', { makeDirectory: {} });
    await call('/made/', { remove: {} });
    t.same(readdirSync(dir).sort(), ['d', 'file', 'link']);
  },
);

t.test('a move between file systems loses nothing: what cannot be copied stays', async (t) => {
  const { dir, channel } = await start(t);
  const other = mkdtempSync('/dev/shm/files-');
  t.teardown(() => rmSync(other, { recursive: true }));
  mkdirSync(join(dir, 'tree'));
  writeFileSync(join(dir, 'tree/file'), 'text');
  execFileSync('mkfifo', [join(dir, 'tree/fifo')]);
  const { call } = calls(channel, '/');
  const move = () => call(join(dir, 'tree'), { move: { to: to(join(other, 'tree')) } });
  await t.rejects(move(), { code: 'invalid_argument', message: /FIFO/ });
  t.same(readdirSync(join(dir, 'tree')), ['fifo', 'file']);
  t.same(readdirSync(other), []);
  rmSync(join(dir, 'tree/fifo'));
  await move();
  t.notOk(existsSync(join(dir, 'tree')));
  t.equal(readFileSync(join(other, 'tree/file'), 'utf8'), 'text');
});

t.test('a copy does not copy itself, by whatever way its directory is reached', async (t) => {
  const { dir, call } = await start(t);
  mkdirSync(join(dir, 'a/sub'), { recursive: true });
  mkdirSync(join(dir, 'b'));
  writeFileSync(join(dir, 'a/file'), 'x'.repeat(100_000));
  execFileSync('mount', ['--bind', join(dir, 'a'), join(dir, 'b')]);
  t.teardown(() => execFileSync('umount', [join(dir, 'b')]));
  await t.rejects(call('/a', { copy: { to: to('/b/copy'), recursive: true } }), {
    code: 'invalid_argument',
    message: /inside what is copied/,
  });
  t.same(readdirSync(join(dir, 'a')), ['file', 'sub']);
});

t.test('on an overlay, a file of the lower layer has one ETag until it is written', async (t) => {
  const { dir, channel } = await start(t);
  for (const name of ['lower', 'layer', 'root']) mkdirSync(join(dir, name));
  writeFileSync(join(dir, 'lower/file'), 'old');
  execFileSync('mount', ['-t', 'tmpfs', 'none', join(dir, 'layer')]);
  t.teardown(() => execFileSync('umount', [join(dir, 'layer')]));
  for (const name of ['upper', 'work']) mkdirSync(join(dir, 'layer', name));
  const layers = `lowerdir=${dir}/lower,upperdir=${dir}/layer/upper,workdir=${dir}/layer/work,xino=on`;
  execFileSync('mount', ['-t', 'overlay', '-o', layers, 'none', join(dir, 'root')]);
  t.teardown(() => execFileSync('umount', [join(dir, 'root')]));
  const { stat, write } = calls(channel, join(dir, 'root'));
  const { version } = await stat('/file');
  await t.rejects(write('/file', 'x', { ifMatch: ['another'] }), { code: 'precondition_failed' });
  t.equal((await stat('/file')).version, version, 'a write that is refused changes nothing');
  await write('/file', 'new', { ifMatch: [version] });
  t.equal(readFileSync(join(dir, 'root/file'), 'utf8'), 'new');
  await t.rejects(write('/file', 'x', { ifMatch: [version] }), { code: 'precondition_failed' });
});

t.test('where no file can be made, a write says so', async (t) => {
  const { channel } = await start(t);
  const { write } = calls(channel, '/');
  await t.rejects(write('/proc/sys/vm/swappiness', '60'), {
    code: 'invalid_argument',
    message: /makes no new files/,
  });
});

t.test('links that are swapped in meanwhile lead nowhere', async (t) => {
  const { dir, channel, agent } = await start(t);
  for (const name of ['to', 'outside/e']) mkdirSync(join(dir, name), { recursive: true });
  writeFileSync(join(dir, 'outside/secret'), 'content');
  for (const name of ['e/secret', 'hidden'])
    linkSync(join(dir, 'outside/secret'), join(dir, 'outside', name));
  const { call, write, read, list } = calls(channel, join(dir, 'to'));
  const descriptors = openDescriptors();
  const workerData = { to: join(dir, 'to'), outside: join(dir, 'outside') };
  const worker = new Worker(new URL('../support/swap-for-ever.ts', import.meta.url), { workerData });
  t.teardown(() => worker.terminate());
  await once(worker, 'message');
  let done = 0;
  const seen = new Set<string>();
  const attempt = async (work: Promise<unknown>): Promise<void> => {
    try {
      const value = await work;
      done += 1;
      if (Array.isArray(value)) for (const name of value) seen.add(String(name).replace(/^.*\//, ''));
      else if (typeof value === 'object' && value !== null && 'text' in value) seen.add(String(value.text));
    } catch {
      // The name was just not there.
    }
  };
  for (let n = 0; n < 300; n++) {
    await Promise.all([
      attempt(write(`/d/e/file-${n}`, 'x', { parents: true })),
      attempt(write('/d/secret', 'overwritten')),
      attempt(read('/d/secret')),
      attempt(read('/d/e/secret')),
      attempt(list('/d', 3)),
      attempt(call(`/d/made-${n}/x`, { makeDirectory: { parents: true } })),
      attempt(call('/d/e', { change: { mode: 0o711, owner: '1:1' } })),
      attempt(call('/d', { copy: { to: to(`/copy-${n}`), recursive: true } })),
      attempt(call('/d/secret', { move: { to: to(`/moved-${n}`) } })),
      attempt(call('/d/secret', { remove: {} })),
      attempt(call('/d/e', { remove: { recursive: true } })),
    ]);
  }
  await worker.terminate();
  t.ok(done > 20, `${done} calls had success`);
  t.same(readdirSync(join(dir, 'outside')), ['e', 'hidden', 'secret']);
  t.same(readdirSync(join(dir, 'outside/e')), ['secret']);
  t.equal(readFileSync(join(dir, 'outside/secret'), 'utf8'), 'content');
  t.match(statSync(join(dir, 'outside/e')), { uid: 0, mode: 0o40755 });
  t.notOk(seen.has('content') || seen.has('hidden'), 'nothing outside was read');
  t.equal(openDescriptors(), descriptors);
  t.same(agent.faults, []);
});
