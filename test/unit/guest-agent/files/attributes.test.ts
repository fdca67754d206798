// Extended attributes of files, in this process: they come with the content, change alone, and are read where asked.
import '../support/addon-dir.ts';
import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { callFiles } from '../../../../host-agent/src/guest/files.ts';
import { start } from '../support/file-calls.ts';

const NOBODY = '65534:65534';
const toInput = (attributes: Record<string, string | null>) =>
  Object.entries(attributes).map(([name, value]) => ({
    name: Buffer.from(name),
    ...(value !== null && { value: Buffer.from(value) }),
  }));
const xattr = (call: string) =>
  execFileSync('python3', ['-c', `import os; print(${call})`], { encoding: 'utf8' }).trim();

t.test('a written file has the attributes of the write and no others', async (t) => {
  const { dir, write, call } = await start(t);
  const read = async (path: string) =>
    Object.fromEntries((await call(path, { stat: { attributes: true } })).entry?.attributes ?? []);
  const attributes = toInput({ 'e2b.author': 'mish', empty: '', ü: 'ö' });
  await write('/file', 'content', { attributes });
  t.same(await read('/file'), { 'e2b.author': 'mish', empty: '', ü: 'ö' });
  t.equal(xattr(`os.getxattr('${dir}/file', 'user.e2b.author')`), "b'mish'");
  const plain = await call('/file', { stat: {} });
  t.equal(plain.entry?.attributes, undefined, 'unless they are asked for');
  await write('/file', 'again');
  t.same(await read('/file'), {}, 'a new content has none of the old');
  const change = { attributes: toInput({ a: '1', b: '2' }) };
  await call('/file', { change });
  await call('/file', { change: { attributes: toInput({ a: null, missing: null, c: '3' }) } });
  t.same(await read('/file'), { b: '2', c: '3' });
  await call('/file', { move: { to: Buffer.from('/moved') } });
  t.same(await read('/moved'), { b: '2', c: '3' });
  mkdirSync(join(dir, 'directory'));
  await call('/directory', { change: { attributes: toInput({ of: 'a directory' }) } });
  t.same(await read('/directory'), { of: 'a directory' });
});

t.test('lists have them, but not those of links or of files that the user may not read', async (t) => {
  const { dir, channel, call, write } = await start(t);
  await write('/a', '', { attributes: toInput({ of: 'a' }) });
  await write('/secret', '', { attributes: toInput({ of: 'secret' }) });
  chmodSync(join(dir, 'secret'), 0o600);
  symlinkSync('a', join(dir, 'link'));
  const list = { depth: 1, maxEntries: 10, attributes: true };
  const seenBy = async (user: string) => {
    const { entries } = await call('/', { list }, user);
    return entries.map(({ path, attributes }) => [path.toString(), Object.fromEntries(attributes ?? [])]);
  };
  t.same(await seenBy(''), [
    ['a', { of: 'a' }],
    ['link', {}],
    ['secret', { of: 'secret' }],
  ]);
  t.same(await seenBy(NOBODY), [
    ['a', { of: 'a' }],
    ['link', {}],
    ['secret', {}],
  ]);
  const { entries } = await callFiles(
    { channel },
    {
      place: { path: Buffer.from('/'), root: Buffer.from(dir), user: '' },
      list: { depth: 1, maxEntries: 10 },
    },
  );
  t.ok(entries.every(({ attributes }) => attributes === undefined));
});

t.test('what is not text is left out, and what a file system cannot have is an error', async (t) => {
  const { dir, call, write } = await start(t);
  await write('/file', 'x');
  xattr(
    `os.setxattr('${dir}/file', 'user.binary', bytes([255, 0])) or os.setxattr('${dir}/file', 'user.text', b'x')`,
  );
  const { entry } = await call('/file', { stat: { attributes: true } });
  t.same([...(entry?.attributes ?? [])], [['text', 'x']]);
  const huge = toInput({ huge: 'x'.repeat(60_000) });
  const refused = { code: 'invalid_argument', message: /no room for these extended attributes/ };
  await t.rejects(write('/large', 'x', { attributes: huge }), refused);
  t.same(readdirSync(dir), ['file'], 'a refused write leaves nothing');
  await t.rejects(write('/proc', 'x', { attributes: toInput({ ['x'.repeat(300)]: 'v' }) }), {
    code: 'invalid_argument',
  });
  execFileSync('mkfifo', [join(dir, 'fifo')]);
  await t.rejects(call('/fifo', { change: { attributes: toInput({ a: 'b' }) } }), {
    code: 'invalid_argument',
    message: /cannot have these extended attributes/,
  });
});

t.test('the rights of the user decide who may set them', async (t) => {
  const { dir, call, write } = await start(t);
  chmodSync(dir, 0o777);
  writeFileSync(join(dir, 'root'), '');
  writeFileSync(join(dir, 'own'), '');
  chownSync(join(dir, 'own'), 65534, 65534);
  const change = { attributes: toInput({ a: 'b' }) };
  await t.rejects(call('/root', { change }, NOBODY), { message: /permission denied/ });
  await t.resolves(call('/own', { change }, NOBODY));
  await write('/new', 'x', change, NOBODY);
  t.equal(xattr(`os.getxattr('${dir}/new', 'user.a')`), "b'b'");
});
