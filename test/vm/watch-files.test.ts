// Watches of files in real guests: through the library, against a model while a program changes the tree, on many
// directories (10,000 with SOAK=1), over a fork and to the end of the sandbox; and files that are pushed for another
// owner.
import { Client, type Sandbox, type WatchEvent } from '@sandboxd/client';
import t from 'tap';
import type { AnswerOf } from '../support/answers.ts';
import { changes, TreeModel, toShell } from '../support/changed-tree.ts';
import { checkedUrl } from '../support/checked-proxy.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(600_000));
const AGENT_MIB = 64;
const IS_SOAK = process.env.SOAK === '1';
/** Directories in each of 100 directories, and files of a flat one. */
const SUBDIRECTORIES = IS_SOAK ? 99 : 19;
const FLAT_FILES = IS_SOAK ? 100_000 : 5_000;
const STATUS_400 = { name: 'BadRequestError' };
const STATUS_404 = { name: 'NotFoundError' };
const daemon = await startDaemon(t);
const client = new Client({ host: await checkedUrl(t, daemon.url) });
const sandbox = await client.sandboxes.create({ memory_mib: 512 });
const sh = async (script: string, on: Sandbox = sandbox) =>
  (await on.exec(['sh', '-c', script]).text()).trim();

/** Events until the end of the watch, or of the test. */
async function follow(
  path: string,
  options: { recursive?: boolean; user?: string; root?: string },
  on = sandbox,
) {
  const over = new AbortController();
  const events: WatchEvent[] = [];
  const done = (async () => {
    for await (const event of on.files.watch(path, { ...options, signal: over.signal })) events.push(event);
  })();
  let failure: Error | undefined;
  done.catch((error: Error) => {
    failure = error;
  });
  const has = (type: string, name?: string) =>
    until(
      () =>
        failure !== undefined ||
        events.some((event) => event.type === type && (!name || event.path === name)),
      `${type} ${name}`,
      60_000,
    );
  await has('armed');
  if (failure !== undefined) throw failure;
  return { events, has, done, stop: () => over.abort() };
}

/** MiB of the agent's own memory at its peak since the last call. */
async function peakMib(): Promise<number> {
  const text = await sh('grep VmHWM /proc/1/status; echo 5 > /proc/1/clear_refs');
  return Number(/(\d+) kB/.exec(text)?.[1]) / 1024;
}

t.test('changes are seen as they happen', async (t) => {
  await sh('mkdir -p /srv/w/in /srv/closed; chmod 700 /srv/closed');
  const { events, has, stop } = await follow('/srv/w', { recursive: true });
  await sandbox.files.write('/srv/w/in/file', 'text');
  await has('write', '/srv/w/in/file');
  await sh(
    'cd /srv/w; mv in/file moved; chmod 600 moved; rm moved; touch "$(printf "\\377")"; ln -s / link; touch end',
  );
  await has('write', '/srv/w/end');
  const seen = events.map(({ type, path, from }) => [type, from, path].filter(Boolean).join(' '));
  for (const line of ['rename /srv/w/in/file /srv/w/moved', 'attrib /srv/w/moved', 'remove /srv/w/moved'])
    t.ok(seen.includes(line), line);
  t.match(
    events.find(({ path_base64 }) => path_base64 !== undefined),
    {
      type: 'create',
      path: '/srv/w/\ufffd',
      path_base64: Buffer.from('/srv/w/\xff', 'latin1').toString('base64'),
    },
  );
  await sh('cd /srv/w; mv in away && ln -s /srv/closed in; touch /srv/closed/secret away/known mark');
  await has('write', '/srv/w/mark');
  t.notOk(events.some(({ path }) => path?.includes('secret')));
  t.ok(events.some(({ path }) => path === '/srv/w/away/known'));
  stop();
  await t.rejects(follow('/srv/closed', { user: 'nobody' }), STATUS_400);
  await t.rejects(follow('/srv/missing', {}), STATUS_404);
  const rooted = await follow('/../..', { root: '/srv/w' });
  await sh('touch /srv/w/rooted; rm -r /srv/w');
  await rooted.done;
  t.ok(rooted.events.some(({ path }) => path?.endsWith('/rooted')));
  t.match(rooted.events.at(-1), { type: 'end', reason: 'removed' });
  t.equal(await sh('ls -l /proc/1/fd | grep -c inotify || true'), '0', 'no watch is left in the agent');
});

t.test('the events of a tree that changes make what is there', async (t) => {
  await sh('mkdir -p /srv/m');
  const { events, has, stop } = await follow('/srv/m', { recursive: true });
  const script = [...changes(7, IS_SOAK ? 700 : 250)].map(toShell).join('\n');
  await sandbox.files.write('/tmp/changes', `cd /srv/m\n${script}\ntouch mark\n`);
  await sh('sh /tmp/changes 2>/dev/null');
  await has('write', '/srv/m/mark');
  const model = new TreeModel();
  const lost = events.findLastIndex(({ type }) => type === 'overflow');
  const below = (path?: string) => path?.slice('/srv/m/'.length);
  const list = async () => {
    const tree = new Map<string, boolean>();
    for await (const { path, type } of sandbox.files.list('/srv/m', { depth: 20 }))
      tree.set(below(path) ?? '', type === 'directory');
    return tree;
  };
  if (lost >= 0) model.tree = await list();
  for (const { type, path, from, directory } of events.slice(lost + 1))
    model.apply({ type, path: below(path), from: below(from), isDirectory: directory === true });
  const real = new TreeModel();
  real.tree = await list();
  t.same(model.sorted, real.sorted);
  t.ok(events.length > 20, `${events.length} events`);
  stop();
});

t.test('pushed files have the owner that is asked for', async (t) => {
  await sh('useradd -m -u 1234 bob 2>/dev/null || echo bob:x:1234:1234::/home/bob:/bin/sh >> /etc/passwd');
  const archive = Buffer.from(
    await sh(
      'mkdir -p /tmp/a/d/e; cd /tmp/a; echo x > d/e/f; ln -sf f d/e/l; ln -f d/e/f d/e/h; chmod 4755 d/e/f; tar c . | base64 -w0',
    ),
    'base64',
  );
  const owners = (path: string) => sh(`find ${path} -printf '%P %U:%G %m\\n' | sort`);
  await sandbox.files.extract('/srv/new/place', archive, { owner: 'bob' });
  t.equal(
    await owners('/srv/new'),
    [
      '1234:1234 755',
      'place 1234:1234 755',
      'place/d 1234:1234 755',
      'place/d/e 1234:1234 755',
      'place/d/e/f 1234:1234 755',
      'place/d/e/h 1234:1234 755',
      'place/d/e/l 1234:1234 777',
    ].join('\n'),
  );
  await sandbox.files.extract('/srv/new/place', archive, { owner: '77:88' });
  t.match(await owners('/srv/new/place/d/e'), 'f 77:88 755');
  await sandbox.files.extract('/srv/other', archive);
  t.match(await owners('/srv/other/d/e'), /f 0:0 4755/);
  await t.rejects(sandbox.files.extract('/srv/other', archive, { owner: 'no-such-user' }), STATUS_400);
  await t.rejects(sandbox.files.extract('/srv/other', archive, { owner: ':' }), STATUS_400);
});

t.test('a fork has no watch of its source; its own work, and a delete tells why', async (t) => {
  await sh('mkdir -p /srv/f');
  const source = await follow('/srv/f', { recursive: true });
  const snapshot = await sandbox.snapshot();
  const [fork] = await snapshot.fork();
  if (fork === undefined) throw new Error('there is no fork');
  t.equal(await sh('ls -l /proc/1/fd | grep -c inotify || true', fork), '0');
  const copy = await follow('/srv/f', {}, fork);
  await sh('touch /srv/f/in-copy', fork);
  await sh('touch /srv/f/in-source');
  await copy.has('write', '/srv/f/in-copy');
  await source.has('write', '/srv/f/in-source');
  t.notOk(source.events.some(({ path }) => path === '/srv/f/in-copy'));
  await fork.delete();
  await copy.done;
  t.match(copy.events.at(-1), { type: 'end', reason: 'lost', message: /deleted/ });
  source.stop();
  await snapshot.delete();
});

t.test('many directories, and a list of many entries, within the memory of the agent', async (t) => {
  const many = `for i in $(seq 1 100); do for j in $(seq 1 ${SUBDIRECTORIES}); do echo $i/$j; done; done`;
  await sh(`mkdir -p /srv/many /srv/flat; cd /srv/many; (${many}) | xargs mkdir -p`);
  await sh(`cd /srv/flat; seq 1 ${FLAT_FILES} | xargs touch`);
  await peakMib();
  const idle = await peakMib();
  const { events, has, stop } = await follow('/srv/many', { recursive: true });
  t.same(events[0], { type: 'armed', directories: 1 + 100 * (1 + SUBDIRECTORIES) });
  await sh('touch /srv/many/57/11/file');
  await has('write', '/srv/many/57/11/file');
  const watching = await peakMib();
  const limit = FLAT_FILES / 10;
  let count = 0;
  // Each page costs the same.
  for (let cursor: string | undefined = ''; cursor !== undefined && count < 2 * limit; ) {
    const query: Record<string, string | number> = {
      path: '/srv/flat',
      limit,
      ...(cursor !== '' && { cursor }),
    };
    const page: AnswerOf<'listFiles'> = await daemon.api.ask('listFiles', {
      params: { id: sandbox.id },
      query,
    });
    count += page.entries.length;
    cursor = page.next_cursor;
  }
  t.equal(count, 2 * limit);
  const listing = await peakMib();
  t.comment(
    `agent: ${idle.toFixed(1)} MiB, with the watch ${watching.toFixed(1)}, and the list ${listing.toFixed(1)}`,
  );
  t.ok(watching - idle <= AGENT_MIB, `the watch costs ${(watching - idle).toFixed(1)} MiB`);
  t.ok(listing - idle <= AGENT_MIB, `with the list ${(listing - idle).toFixed(1)} MiB`);
  stop();
  if (!IS_SOAK) return;
  await sh('cd /srv/many; for i in 1 2 3 4 5; do (cd $i; seq 1000 3100 | xargs mkdir); done');
  await t.rejects(follow('/srv/many', { recursive: true }), { message: /too many directories/ });
});
