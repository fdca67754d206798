// The console with a real guest: a terminal that survives its page and its daemon, and files.

import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import t from 'tap';
import { openConsole } from '../http/console-daemon.ts';
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
  await type('a=7; echo one$((a*6))');
  await prints('one42');

  await app.open(`#/sandboxes/${id}?tab=files&path=/etc&file=/etc/hostname`);
  await app.until(`document.querySelector('.editor')?.value.startsWith('sbx')`, 'the content of a file');
  await app.click('Close the file');
  await app.shows('passwd');

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
