// The examples of docs/client.md, run as they are written, as one program with a real guest.
import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { checkedUrl } from '../support/checked-proxy.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(300_000));
const ROOT = resolve(import.meta.dirname, '../..');

t.test('every example of the page on the library', async (t) => {
  const { api, ...daemon } = await startDaemon(t);
  const url = await checkedUrl(t, daemon.url);
  const page = readFileSync(join(ROOT, 'docs/client.md'), 'utf8');
  const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, code]) => code);
  t.ok(blocks.length > 3);
  const dir = t.testdir({ docs: { 'page.md': 'a page' } });
  writeFileSync(join(dir, 'package.json'), '{"type":"module"}');
  writeFileSync(join(dir, 'examples.ts'), blocks.join('\n'));
  mkdirSync(join(dir, 'node_modules/@sandboxd'), { recursive: true });
  symlinkSync(join(ROOT, 'client'), join(dir, 'node_modules/@sandboxd/client'));
  const env = { ...process.env, SANDBOXD_HOST: url };
  const { stdout } = await promisify(execFile)(process.execPath, ['examples.ts'], { cwd: dir, env });
  t.match(stdout, /^Linux \S+\n/);
  t.match(stdout, '\nstdout one\nstderr two\n');
  t.match(stdout, '\n"a\\nb\\n" true 0\n');
  t.match(stdout, /\nls exited with 2: ls: .*No such file or directory 2\n/);
  t.match(stdout, '\npiece by piece\n');
  t.match(stdout, '\nready\n');
  t.equal(stdout.split('\n').filter((line) => line === 'hello').length, 3, 'the file, and in each fork');
  t.equal(readFileSync(join(dir, 'docs-copy/page.md'), 'utf8'), 'a page');
  t.same(await api.list(), [], 'what the program made is gone');
  t.same((await api.ask('listSnapshots')).snapshots, []);
});
