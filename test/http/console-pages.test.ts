// The console in headless Chromium, over a daemon whose sandboxes are in memory.
import { Client } from '@sandboxd/client';
import t from 'tap';
import { testConsole } from '../support/console.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { assertSound } from './console-axe.ts';
import { openConsole, serveConsole } from './console-daemon.ts';
import { FakeImages } from './fake-images.ts';
import { openKeyring } from './keyed.ts';
import { serve } from './support.ts';

t.setTimeout(180_000);

t.test('each page, by mouse and by keys', async (t) => {
  const images = new FakeImages();
  const pulled = Promise.withResolvers<void>();
  images.onPull = () => pulled.promise;
  const { url } = await serveConsole(t, { images: images.store as never });
  const client = new Client({ host: url });
  const app = await openConsole(t, url);
  const { page } = app;
  await page.emulate({ width: 1300, height: 800 });
  await app.shows('No sandboxes yet');
  await assertSound(t, app, 'the empty list');

  await page.press('c');
  await app.fill('Name', 'build-17');
  await app.fill('Labels', 'team=compilers ready');
  await app.fill('Memory, MiB', '256');
  await app.shows('sandbox run --name build-17 --label team=compilers --label ready= --memory 256m base');
  await app.shows(
    `curl -X POST ${url}/sandboxes -d '{"name":"build-17","labels":{"team":"compilers","ready":""},"memory_mib":256}'`,
  );
  await assertSound(t, app, 'the dialog');
  await app.click('Create');
  await app.shows('Properties');
  const [made] = await client.sandboxes.list();
  t.match(made, { name: 'build-17', labels: { team: 'compilers', ready: '' }, memory_mib: 256 });
  const id = made?.id ?? '';
  t.equal(await page.evaluate('location.hash'), `#/sandboxes/${id}`);
  await assertSound(t, app, 'a sandbox');

  await app.click('Snapshot');
  await app.shows('Took snap_');
  await app.click('Pause');
  await app.shows('Resume');
  await app.click('Resume');
  await app.shows('Pause');
  for (const [key, what] of [
    ['2', 'knows no commands by id'],
    ['3', 'knows no commands by id'],
    ['4', 'Upload'],
    ['5', 'Follow'],
    ['6', 'This sandbox has no network'],
    ['7', 'resumed'],
  ] as const) {
    await page.press(key);
    await app.shows(what);
    await assertSound(t, app, `tab ${key}`);
  }

  await app.go('n', '1 snapshot');
  await app.click('Fork');
  await app.shows('Forked sbx_');
  await app.until(`document.querySelectorAll('.tree .node-sandbox').length === 2`, 'the fork in the tree');
  await assertSound(t, app, 'the tree');
  await app.go('e', 'forked');
  await assertSound(t, app, 'the events');
  await app.go('i', '1 image');
  await app.fill('Reference to pull', 'redis:7');
  await page.press('Enter');
  await app.shows('a60222455a7d');
  await app.shows('2 MiB');
  await assertSound(t, app, 'a pull');
  pulled.resolve();
  await app.shows('Pulled redis:7');
  await app.fill('Reference to pull', 'nothing');
  await app.click('Pull');
  await app.shows('cannot pull nothing: manifest unknown');
  await app.click('Delete nginx:alpine');
  await app.shows('Delete this image?');
  await assertSound(t, app, 'the question');
  await page.evaluate(`[...document.querySelectorAll('dialog[open] button')].at(-1).click(); 0`);
  await app.hides('Delete this image?');
  await page.evaluate(`document.activeElement.blur(); 0`);
  await app.go('k', 'This daemon has no keys');
  await assertSound(t, app, 'the rights');
  await app.go('h', 'Starts since the daemon began');
  await assertSound(t, app, 'the host');
  await page.press('?');
  await app.shows('Go to Snapshots');
  await assertSound(t, app, 'the help');
  await page.press('Escape');
  await app.hides('Keyboard shortcuts');

  await app.go('s', '2 sandboxes');
  await page.press('/');
  await app.fill('Search', 'nothing-like-it');
  await app.shows('No sandbox matches');
  t.equal(await page.evaluate('location.hash'), '#/sandboxes?q=nothing-like-it');
  await app.click('Remove all filters');
  await app.click('paused');
  await app.shows('0 of 2 sandboxes');
  await app.open('#/sandboxes?label=team%3Dcompilers&q=build');
  await app.shows('1 of 2 sandboxes');
  await app.open('#/sandboxes');
  await app.click('Select all');
  await app.click('Delete');
  await app.shows('Delete 2 sandboxes?');
  await page.evaluate(`[...document.querySelectorAll('dialog[open] button')].at(-1).click(); 0`);
  await app.shows('No sandboxes yet');
  t.same(await client.sandboxes.list(), []);
  for (const scheme of ['light', 'dark'] as const) {
    await page.emulate({ width: 320, height: 700, scheme });
    await assertSound(t, app, `narrow and ${scheme}`);
    t.equal(await page.evaluate('document.documentElement.scrollWidth <= 320'), true, 'nothing is cut off');
  }
  const origins = `performance.getEntriesByType('resource').map(({ name }) => new URL(name).origin)`;
  t.same(await page.evaluate(`[...new Set(${origins})]`), [url], 'no other origin was asked');
});

t.test('keys: none, a wrong one, one that may little, one that is revoked', async (t) => {
  const keyring = await openKeyring(t);
  const { url } = await serveConsole(t, { authenticator: keyring.authenticator });
  const full = await keyring.make({ name: 'full' });
  const narrow = await keyring.make({ policy: { operations: ['view'] } });
  const host = new Client({ host: url, apiKey: full });
  await host.sandboxes.create({ name: 'kept' });
  const app = await openConsole(t, url);
  const { page } = app;
  await app.shows('This daemon has keys');
  await assertSound(t, app, 'the question');
  await app.fill('Key', 'wrong');
  await app.click('Open');
  await app.shows('this daemon has no such key');

  await app.fill('Key', narrow);
  await app.click('Open');
  await app.shows('kept');
  t.same(await page.evaluate('[sessionStorage.length, localStorage.length, document.cookie]'), [0, 0, '']);
  t.notMatch(await page.evaluate('location.href'), narrow);
  const button = `[...document.querySelectorAll('button')].find((each) => each.textContent === 'Create')`;
  t.equal(await page.evaluate(`${button}.title`), 'This key lacks the operation create');
  await app.click('Create');
  await app.shows('This key lacks the operation create');
  await app.open('#/access');
  await app.shows('see lists, states, figures and events');
  await assertSound(t, app, 'the rights of a narrow key');
  await app.open('#/host');
  await app.shows('This key lacks the operation metrics');
  await app.open('#/access');
  await app.click('Forget key');

  await app.shows('This daemon has keys');
  await app.fill('Key', full);
  await page.evaluate(`document.querySelector('input[type=checkbox]').click(); 0`);
  await app.click('Open');
  await app.shows('It may do everything');
  t.equal(await page.evaluate('sessionStorage.length'), 1);
  await app.open('#/host');
  await app.shows('machine: clock');
  await app.shows('install chrony');
  await assertSound(t, app, 'the host');
  await app.open('#/sandboxes');
  await app.shows('kept');
  await app.reload();
  await app.shows('kept');
  await keyring.registry.revoke('full');
  await app.shows('the key was revoked at');
  t.equal(await page.evaluate('sessionStorage.length'), 0);
  t.same(page.problems, []);
});

t.test('a daemon that goes and comes back: the page continues without a reload', async (t) => {
  const daemon = await startMemoryDaemon(t);
  const services = {
    console: await testConsole(),
    sandboxes: daemon.manager,
    logs: daemon.logs,
    events: daemon.journal,
  };
  const first = await serve(t, services);
  await new Client({ host: first.url }).sandboxes.create({ name: 'before' });
  const app = await openConsole(t, first.url);
  await app.shows('before');
  await app.shows('Live');
  await app.page.evaluate('globalThis.isSame = true; 0');
  await first.server.close();
  await app.shows('No connection to the daemon');
  const second = await serve(t, { ...services, port: first.port });
  await new Client({ host: second.url }).sandboxes.create({ name: 'meanwhile' });
  await app.shows('meanwhile');
  await app.hides('No connection to the daemon');
  await new Client({ host: second.url }).sandboxes.create({ name: 'after' });
  await app.shows('after');
  t.equal(await app.page.evaluate('globalThis.isSame'), true);
  t.same(app.page.problems, []);
});

t.test('of a thousand sandboxes only those on the screen are drawn', async (t) => {
  const { journal } = await startMemoryDaemon(t);
  const { url, sandboxes } = await serve(t, { console: await testConsole(), events: journal });
  for (let at = 0; at < 1000; at++)
    Object.assign(sandboxes.add(), { name: `box-${at}`, createdAt: new Date(at) });
  const app = await openConsole(t, url);
  await app.page.emulate({ width: 1300, height: 800 });
  await app.shows('1,000 sandboxes');
  await app.shows('box-999');
  const drawn = `document.querySelectorAll('.rows .row').length`;
  t.ok(Number(await app.page.evaluate(drawn)) < 60);
  await app.page.evaluate(`document.querySelector('.rows').scrollTo({ top: 1e6 }); 0`);
  await app.shows('box-0');
  t.ok(Number(await app.page.evaluate(drawn)) < 60);
  await app.page.press('j');
  await app.until(`document.activeElement?.closest('[data-index]') !== null`, 'the focus on a row');
  t.same(app.page.problems, []);
});

t.test('a hidden tab sends nothing, and catches up when it is seen again', async (t) => {
  const { url } = await serveConsole(t);
  const client = new Client({ host: url });
  await client.sandboxes.create({ name: 'first' });
  const app = await openConsole(t, url);
  await app.shows('first');
  const setHidden = (isHidden: boolean) =>
    app.page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
      document.dispatchEvent(new Event('visibilitychange')); 0`);
  const requests = `performance.getEntriesByType('resource').length`;
  await app.until(`${requests} > 8`, 'samples of usage');
  await setHidden(true);
  await client.sandboxes.create({ name: 'second' });
  const before = Number(await app.page.evaluate(requests));
  // Longer than a round of samples.
  await app.page.evaluate('new Promise((resolve) => setTimeout(resolve, 2500))');
  // One that had begun may end; the entry appears at its end.
  t.ok(Number(await app.page.evaluate(requests)) - before <= 2);
  t.notMatch(await app.text(), 'second');
  await setHidden(false);
  await app.shows('second');
  t.same(app.page.problems, []);
});
