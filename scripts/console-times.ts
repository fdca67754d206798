// Measures the console in a browser on this host, over a daemon whose sandboxes are in memory: the time until its list
// is there and takes keys, and the script time of a list of 1,000 sandboxes, with the scroll to its end.
// usage: node scripts/console-times.ts [repetitions]
import type { Test } from 'tap';
import { ConsolePage } from '../test/http/console-daemon.ts';
import { serve } from '../test/http/support.ts';
import { openPage } from '../test/support/chromium.ts';
import { testConsole } from '../test/support/console.ts';
import { startMemoryDaemon } from '../test/support/memory-host/daemon.ts';

const repetitions = Number(process.argv[2] ?? 5);
const COUNT = 1000;

const ends: (() => unknown)[] = [];
// The helpers need only the teardown and the limit of a test.
const teardown = (end: () => unknown) => ends.unshift(end);
const test = { teardown, setTimeout: () => undefined } as unknown as Test;
try {
  const { journal } = await startMemoryDaemon(test);
  const { url, sandboxes } = await serve(test, { console: await testConsole(), events: journal });
  for (let at = 0; at < COUNT; at++)
    Object.assign(sandboxes.add(), { name: `box-${at}`, createdAt: new Date(at) });
  const rows: Record<string, number>[] = [];
  for (let round = 0; round < repetitions; round++) {
    const app = new ConsolePage(await openPage(test, 'about:blank'));
    await app.page.emulate({ width: 1300, height: 800 });
    await app.page.goto(`${url}/console`);
    await app.shows(`box-${COUNT - 1}`);
    const shownMs = Number(await app.page.evaluate('performance.now()'));
    const listMs = await app.page.scriptMs();
    await app.page.evaluate(`document.querySelector('.rows').scrollTo({ top: 1e6 }); 0`);
    await app.shows('box-0');
    rows.push({ shownMs, listMs, scrolledMs: await app.page.scriptMs() });
  }
  for (const name of ['shownMs', 'listMs', 'scrolledMs']) {
    const values = rows.map((row) => Math.round(row[name] ?? 0)).sort((a, b) => a - b);
    console.log(`${name.padEnd(12)} median ${values[Math.floor(values.length / 2)]}, of ${values.join(' ')}`);
  }
} finally {
  for (const end of ends) await end();
}
