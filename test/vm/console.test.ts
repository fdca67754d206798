// The console with a real guest: a terminal that survives its page and its daemon, and files.

import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { Client, type Sandbox } from '@sandboxd/client';
import t, { type Test } from 'tap';
import { type ConsolePage, openConsole } from '../http/console-daemon.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { leftovers } from '../support/leftovers.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(240_000));

async function findPort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

t.test('a terminal continues when its page is left and its daemon is replaced', async (t) => {
  const directories = await makeDirectories();
  const flags = ['--listen', `127.0.0.1:${await findPort()}`];
  let daemon = await spawnDaemon(directories, { onExit: 'keep', flags });
  t.teardown(async () => {
    await daemon.end();
    const left = await leftovers(directories);
    await removeDirectories(directories);
    if (left.length > 0) throw new Error(`left: ${left.join(', ')}`);
  });
  const { id } = await daemon.api.create({ memory_mib: 128 });
  const app = await openConsole(t, daemon.url, `#/sandboxes/${id}?tab=terminal`);
  const { page } = app;
  await page.emulate({ width: 1200, height: 700 });
  const type = async (line: string): Promise<void> => {
    for (const key of line) await page.press(key);
    await page.press('Enter');
  };
  const prints = (what: string) =>
    app.until(`document.querySelector('.xterm-rows')?.innerText.includes('${what}')`, `the output ${what}`);
  await app.click('New terminal');
  const attached = () =>
    app.until(
      `document.querySelector('.xterm') && !document.querySelector('.terminal-note')`,
      'the terminal',
    );
  await attached();
  await prints('#');
  await type('a=7; echo one$((a*6))');
  await prints('one42');

  await app.open(`#/sandboxes/${id}?tab=files&path=/etc&file=/etc/hostname`);
  await app.until(`document.querySelector('.editor')?.value.startsWith('sbx')`, 'the content of a file');
  await app.click('Close the file');
  await app.shows('passwd');
  await workWithFiles(t, app, new Client({ host: daemon.url }).sandboxes.get(id));

  await app.reload();
  await app.open(`#/sandboxes/${id}?tab=terminal`);
  await prints('one42');
  await attached();
  await type('echo two$((a*6))');
  await prints('two42');

  t.equal(await daemon.end(), 0);
  await app.shows('No connection to the daemon');
  daemon = await spawnDaemon(directories, { flags });
  await app.hides('No connection to the daemon');
  await attached();
  await page.evaluate(`document.querySelector('.xterm textarea').focus(); 0`);
  await type('echo three$((a*6))');
  await prints('three42');
  t.same(page.problems, []);
});

/** A file is dropped, edited, saved and downloaded; a command is started, and its output shown. */
async function workWithFiles(t: Test, app: ConsolePage, { id, files }: Sandbox): Promise<void> {
  const { page } = app;
  await app.open(`#/sandboxes/${id}?tab=files&path=/srv`);
  await app.until(`document.querySelector('[data-path="/srv"]') !== null`, 'the tree');
  await app.shows('This directory is empty');
  await page.evaluate(`(() => {
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File(['größe 1\\n'], 'up.txt'));
    document.querySelector('.files').dispatchEvent(new DragEvent('drop', { bubbles: true, dataTransfer }));
  })()`);
  await app.shows('Uploaded up.txt');
  t.equal(await files.readText('/srv/up.txt'), 'größe 1\n');
  await app.click('up.txt');
  await app.until(`document.querySelector('.editor')?.value === 'größe 1\\n'`, 'the content');
  await app.fill('Content of /srv/up.txt', 'größe 2\n');
  await app.click('Save');
  await app.shows('Saved');
  t.equal(await files.readText('/srv/up.txt'), 'größe 2\n');
  await app.click('Close the file');
  await page.evaluate(`(() => {
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      void blob.text().then((text) => (globalThis.saved = [blob.type, text]));
      return make.call(URL, blob);
    };
  })()`);
  await app.click('Download up.txt');
  await app.until(`globalThis.saved?.[1] === 'größe 2\\n'`, 'the download');
  t.equal(await page.evaluate('globalThis.saved[0]'), 'application/octet-stream');

  await app.open(`#/sandboxes/${id}?tab=commands`);
  await app.fill('Command line for sh', 'cat /srv/up.txt; sleep 600');
  await page.press('Enter');
  await app.until(`document.querySelector('.command .log')?.innerText.includes('größe 2')`, 'the output');
  await app.click('Kill');
  await app.shows('SIGKILL');
}
