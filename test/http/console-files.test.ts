// Files and commands of a sandbox in the console: the tree, uploads, edits that are not lost, output that grows.
import t from 'tap';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import type { SandboxCommands } from '../../host-agent/src/sandboxes/commands.ts';
import { testConsole } from '../support/console.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { assertSound } from './console-axe.ts';
import { openConsole } from './console-daemon.ts';
import { fakeCommands } from './fake-commands.ts';
import { FILE, outflow } from './fake-sandboxes.ts';
import { serve } from './support.ts';

t.setTimeout(180_000);

const CHANGED = `document.querySelector('.file .button-primary')?.disabled === false`;

t.test('a tree of directories, files that are dropped, and edits that nothing discards', async (t) => {
  const { journal } = await startMemoryDaemon(t);
  const { url, sandboxes } = await serve(t, { console: await testConsole(), events: journal });
  const { id } = sandboxes.add();
  const tree: Record<string, string[]> = {
    '/': ['etc/', 'srv/'],
    '/etc': ['hosts'],
    '/srv': ['app/'],
    '/srv/app': [],
  };
  const contents = new Map([['/etc/hosts', 'localhost\n']]);
  const listed: string[] = [];
  sandboxes.onFileCall = async ({ place, list }) => {
    const path = Buffer.from(place?.path ?? '').toString();
    if (list === undefined || list === null)
      return {
        entry: { ...FILE, path: Buffer.from(path), sizeBytes: 10 },
        entries: [],
        hasMore: false,
        count: 0,
      };
    listed.push(path);
    const names = tree[path];
    if (names === undefined) throw new AppError('not_found', `${path} does not exist`);
    const entries = names.map((name) => ({
      ...FILE,
      path: Buffer.from(name.replace('/', '')),
      type: name.endsWith('/') ? ('directory' as const) : ('file' as const),
    }));
    // A guest that lists a directory within itself.
    const itself = { ...FILE, path: Buffer.from('..'), type: 'directory' as const };
    return { entry: FILE, entries: [...entries, itself], hasMore: false, count: entries.length };
  };
  sandboxes.onRead = async ({ place }) => {
    const text = contents.get(Buffer.from(place?.path ?? '').toString()) ?? '';
    return { body: outflow(text), sizeBytes: text.length, contentBytes: text.length, entry: FILE };
  };
  sandboxes.onWrite = async ({ place, ifNoneMatch }, read) => {
    const path = Buffer.from(place?.path ?? '').toString();
    const parts: Buffer[] = [];
    for (let part = await read(); part !== undefined; part = await read()) parts.push(Buffer.from(part));
    if (ifNoneMatch?.includes('*') && contents.has(path))
      throw new AppError('precondition_failed', 'it exists');
    contents.set(path, Buffer.concat(parts).toString());
    return { ...FILE, path: Buffer.from(path) };
  };
  const app = await openConsole(t, url, `#/sandboxes/${id}?tab=files`);
  const { page } = app;
  await page.emulate({ width: 1300, height: 800 });
  await app.until(`document.querySelectorAll('[role=treeitem]').length === 2`, 'the tree');
  await assertSound(t, app, 'the tree');
  t.same([...new Set(listed)], ['/'], 'only what is open is read');
  const focused = `document.activeElement.dataset.path`;
  await page.evaluate(`document.querySelector('[role=treeitem]').focus(); 0`);
  await page.press('ArrowDown');
  t.equal(await page.evaluate(focused), '/srv');
  await page.press('ArrowRight');
  await app.until(`document.querySelector('[data-path="/srv/app"]') !== null`, 'the directory in it');
  await page.press('ArrowRight');
  t.equal(await page.evaluate(focused), '/srv/app');
  await page.press('ArrowLeft');
  await page.press('ArrowLeft');
  await app.until(`document.querySelector('[data-path="/srv/app"]') === null`, 'a closed directory');
  await page.press('ArrowRight');
  await app.until(`document.querySelector('[data-path="/srv/app"]') !== null`, 'the directory again');
  await page.press('ArrowRight');
  await page.press('Enter');
  await app.until(`document.querySelector('.crumbs').innerText.includes('app')`, 'the opened directory');

  const drop = (name: string, text: string) =>
    page.evaluate(`(() => {
      const data = new DataTransfer();
      data.items.add(new File([${JSON.stringify(text)}], ${JSON.stringify(name)}));
      document.querySelector('.files').dispatchEvent(new DragEvent('drop', { bubbles: true, dataTransfer: data }));
    })()`);
  await drop('a.txt', 'one');
  await app.shows('Uploaded a.txt');
  t.equal(contents.get('/srv/app/a.txt'), 'one');
  await drop('a.txt', 'two');
  await app.shows('Replace the file?');
  await app.click('Cancel');
  await app.hides('Replace the file?');
  t.equal(contents.get('/srv/app/a.txt'), 'one');
  await drop('a.txt', 'two');
  await app.shows('Replace the file?');
  await app.click('Replace');
  await until(() => contents.get('/srv/app/a.txt') === 'two', 'the replaced file');

  await app.open(`#/sandboxes/${id}?tab=files&path=/etc&file=/etc/hosts`);
  await app.until(`document.querySelector('.editor')?.value === 'localhost\\n'`, 'the content');
  await app.fill('Content of /etc/hosts', 'changed\n');
  await app.until(CHANGED, 'the change');
  const at = () => page.evaluate('location.hash');
  const before = await at();
  for (const go of [`document.querySelector('.side nav a[href="#/events"]').click()`, 'history.go(-2)']) {
    await page.evaluate(`${go}; 0`);
    await app.shows('Discard the changes?');
    await assertSound(t, app, 'the question');
    await app.click('Cancel');
    await app.hides('Discard the changes?');
    t.equal(await at(), before);
    t.equal(await page.evaluate(`document.querySelector('.editor').value`), 'changed\n');
  }
  t.equal(await page.evaluate(`dispatchEvent(new Event('beforeunload', { cancelable: true }))`), false);
  await app.click('Save');
  await app.shows('Saved');
  t.equal(contents.get('/etc/hosts'), 'changed\n');
  await app.fill('Content of /etc/hosts', 'lost\n');
  await app.until(CHANGED, 'the change');
  await app.open('#/events');
  await app.shows('Discard the changes?');
  await app.click('Discard');
  await app.until(`location.hash === '#/events'`, 'the other page');
  t.equal(await page.evaluate(`dispatchEvent(new Event('beforeunload', { cancelable: true }))`), true);
  t.equal(contents.get('/etc/hosts'), 'changed\n');
  t.same(page.problems, []);
});

t.test('commands: their list, output as it grows, one that is started and killed', async (t) => {
  const { journal } = await startMemoryDaemon(t);
  const { url, sandboxes } = await serve(t, { console: await testConsole(), events: journal });
  const { id } = sandboxes.add();
  const about = { isCmdCut: false, hasStdin: false, pid: 7, startedUnixMs: Date.now() };
  const old = { ...about, id: 'cmd_0123456789abc', cmd: ['make', 'test'], isDetached: false };
  const list: object[] = [{ ...old, endedUnixMs: Date.now(), outcome: { exitCode: 2, durationMs: 900 } }];
  let sink: Parameters<SandboxCommands['attach']>[2] | undefined;
  const killed: unknown[] = [];
  const made = { ...about, id: 'cmd_0123456789abd', cmd: ['sh', '-c', 'seq 9'], isDetached: true };
  sandboxes.commandCalls = {
    ...fakeCommands(),
    list: async () => list as never,
    start: async () => {
      list.push(made);
      return made as never;
    },
    kill: async (...args: unknown[]) => {
      killed.push(args);
      Object.assign(made, {
        endedUnixMs: Date.now(),
        outcome: { exitCode: -1, signal: 'SIGKILL', durationMs: 5 },
      });
      return made as never;
    },
    attach: (_id, _request, events) => {
      sink = events;
      const nothing = (): void => undefined;
      const calls = { consumed: nothing, closeStdin: nothing, signal: nothing, resize: nothing };
      return { ...calls, write: () => true, cancel: nothing };
    },
  };
  const app = await openConsole(t, url, `#/sandboxes/${id}?tab=commands`);
  const { page } = app;
  await app.shows('make test');
  await app.shows('exit 2');
  await app.shows('Its output goes to the client that started it');
  await app.fill('Command line for sh', 'seq 9');
  await page.press('Enter');
  await app.shows('running');
  await until(() => sink !== undefined, 'a reader of the output');
  const print = (seq: number, data: Buffer) =>
    sink?.records([{ kind: 'output', seq, stream: 'stdout', unixMs: 1, data }] as never, 0);
  const [first, second] = [Buffer.from('größe 1\n'), Buffer.from('<b>2</b>\u001b[31m red')];
  print(0, first.subarray(0, 3));
  print(1, first.subarray(3));
  await app.shows('größe 1');
  print(2, second);
  await app.shows('<b>2</b> red');
  await assertSound(t, app, 'the commands');
  await app.click('Kill');
  await until(() => killed.length === 1, 'the kill');
  await app.shows('SIGKILL');
  t.same(page.problems, []);
});
