// Makes the pictures of the console in docs/pictures, in a browser on a running daemon: `make run` in another terminal.
// It creates the sandboxes that they show, and deletes them at the end.
// usage: node scripts/console-pictures.ts [url] [folder]
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Client, type Sandbox } from '@sandboxd/client';
import type { Test } from 'tap';
import { ConsolePage } from '../test/http/console-daemon.ts';
import { openPage } from '../test/support/chromium.ts';

const [url = 'http://127.0.0.1:7878', folder = 'docs/pictures'] = process.argv.slice(2);
const QUALITY = 82;
const SETTLE_MS = 700;
/** The plots show two minutes; this is enough to see lines. */
const USAGE_MS = 12_000;

const SOURCES = `mkdir -p /srv/app/test && cd /srv/app && printf '#include <stdio.h>\\n\\nint main(void) {\\n  puts("hello");\\n}\\n' > main.c
printf 'main: main.c\\n\\tcc -O2 -o main main.c\\n' > Makefile; touch test/run.sh; chmod +x test/run.sh`;
const BUSY = 'for i in $(seq 60); do dd if=/dev/zero of=/tmp/x bs=64k count=40 2>/dev/null; sleep 0.5; done';

const ends: (() => unknown)[] = [];
const client = new Client({ host: url });
try {
  const made = await makeSandboxes();
  // The helper needs only the teardown of a test.
  const test = { teardown: (end: () => unknown) => ends.unshift(end) } as unknown as Test;
  await takePictures(new ConsolePage(await openPage(test, `${url}/console`)), made);
} finally {
  for (const end of ends) await end();
}

async function makeSandboxes(): Promise<readonly Sandbox[]> {
  const create = async (options: Parameters<typeof client.sandboxes.create>[0]): Promise<Sandbox> => {
    const sandbox = await client.sandboxes.create({ memory_mib: 256, ...options });
    ends.push(() => sandbox.delete().catch(() => undefined));
    return sandbox;
  };
  const labels = (team: string, more: Record<string, string> = {}) => ({ labels: { team, ...more } });
  const build = await create({
    name: 'build-17',
    ...labels('compilers', { ready: 'yes' }),
    timeout_s: 5400,
    network: { enabled: true, allowlist: ['*.debian.org', 'github.com'] },
    service: { cmd: ['sh', '-c', 'while :; do echo "$(date +%T) queue empty"; sleep 2; done'] },
  });
  await build.exec(['sh', '-c', SOURCES]).text();
  const warm = await build.snapshot({ name: 'warm', comment: 'dependencies installed' });
  ends.push(() => warm.delete().catch(() => undefined));
  const forks = await warm.fork({ children: [{ name: 'try-a' }, { name: 'try-b' }] });
  for (const fork of forks) ends.push(() => fork.delete().catch(() => undefined));
  await forks[0]?.exec(['sh', '-c', 'echo changed >> /srv/app/main.c']).text();
  const tested = await forks[0]?.snapshot({ name: 'tested' });
  if (tested !== undefined) ends.unshift(() => tested.delete().catch(() => undefined));
  const sleeper = await create({ name: 'nightly', ...labels('data'), timeout_s: 86_400 });
  await sleeper.pause();
  await create({ name: 'review-482', ...labels('web'), timeout_s: 240 });
  void build
    .exec(['sh', '-c', BUSY])
    .result()
    .catch(() => undefined);
  return [build];
}

async function takePictures(app: ConsolePage, [build]: readonly Sandbox[]): Promise<void> {
  const { page } = app;
  mkdirSync(folder, { recursive: true });
  const settle = (ms = SETTLE_MS) => new Promise((done) => setTimeout(done, ms));
  const picture = async (name: string): Promise<void> => {
    await settle();
    writeFileSync(join(resolve(folder), `console-${name}.webp`), await page.picture('webp', QUALITY));
  };
  const wide = { width: 1280, height: 720 };
  await page.emulate(wide);
  await app.shows('build-17');
  await settle(USAGE_MS);
  await picture('sandboxes');
  await page.emulate({ ...wide, scheme: 'dark' });
  await app.open(`#/sandboxes/${build?.id}`);
  await settle(USAGE_MS);
  await picture('sandbox');
  await app.open(`#/sandboxes/${build?.id}?tab=terminal`);
  await app.click('New terminal');
  await app.until(
    `document.querySelector('.terminal-note') === null && document.querySelector('.xterm') !== null`,
    'a terminal',
  );
  await settle(2000);
  for (const key of 'ls --color -l /srv/app; uname -sr\r') await page.press(key === '\r' ? 'Enter' : key);
  await settle(2000);
  await picture('terminal');
  await app.open(`#/sandboxes/${build?.id}?tab=files&path=/srv/app&file=/srv/app/main.c`);
  await app.until(`document.querySelector('.editor') !== null`, 'a file');
  await picture('files');
  await page.emulate(wide);
  await app.open('#/snapshots');
  await app.shows('warm');
  await picture('snapshots');
}
