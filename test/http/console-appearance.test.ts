// Each page of the console with content, at the sizes and in the colours that it is for: accessible, and nothing cut off.
import t from 'tap';
import { testConsole } from '../support/console.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { assertSound } from './console-axe.ts';
import { openConsole } from './console-daemon.ts';
import { fakeCommands } from './fake-commands.ts';
import { IMAGE } from './fake-images.ts';
import { FILE, outflow } from './fake-sandboxes.ts';
import { serve } from './support.ts';

t.setTimeout(240_000);

const LONG = 'a-name-that-is-as-long-as-names-may-be-0123456789-abcdefghijkl';
const VIEWS = [
  { width: 320, height: 640, scheme: 'light' },
  { width: 320, height: 640, scheme: 'dark' },
  { width: 3840, height: 2160, scheme: 'dark' },
] as const;

t.test('each page, narrow and wide, light and dark', async (t) => {
  const { journal } = await startMemoryDaemon(t);
  const log = [{ source: 'exec', stream: 'stderr', text: `${'word '.repeat(90)}\n`, timeMs: 1000 }];
  const records = (['allowed', 'denied', 'missing'] as const).map((verdict) => ({
    ...{ verdict, reason: 'no rule has the name', name: `${LONG}.example`, address: '192.0.2.1' },
    ...{ protocol: 'tls', port: 443, method: 'POST', path: `/${LONG}/${LONG}`, timeMs: 1000 },
  }));
  const page = <T>(items: T) => ({
    read: async (_: string, { since }: { since?: number }) => ({
      nextOffset: 9,
      records: since === 9 ? [] : items,
    }),
  });
  const egressLog = { ...page(records), isKept: true, isOpen: () => true, onMore: () => () => undefined };
  const { url, sandboxes } = await serve(t, {
    console: await testConsole(),
    events: journal,
    limitUse: () => [{ limit: 'max_sandboxes', of: 'tenant', used: 4, max: 4 }],
    images: { list: () => [{ ...IMAGE, refs: [`${LONG}:latest`] }] } as never,
    logs: page(log) as never,
    egressLog: egressLog as never,
  });
  const network = { allowlist: ['a.example'], gateway: '10.0.0.1', guestIp: '10.0.0.2' };
  const labels = { team: 'compilers', [LONG]: LONG };
  const reason = { code: 'disk_full', message: LONG };
  const add = (more: object) => Object.assign(sandboxes.add(), { name: LONG, labels, ...more });
  const { id } = add({ network, ports: [{ port: 3000, openedAtMs: 0, access: 'private' }] });
  add({ state: 'paused', pausedAt: new Date(0) });
  add({ state: 'failed', reason });
  const { state } = sandboxes.network;
  sandboxes.network.state = {
    ...state,
    rules: [
      { host: `${LONG}.example`, protocol: 'tls', ports: [443], methods: ['GET'], paths: [`/${LONG}`] },
    ],
    secrets: [{ name: 'GH', hosts: ['api.example'], forms: ['bearer'], hasValue: false }],
  };
  const snapshot = await sandboxes.snapshot(id);
  sandboxes.snapshots.set(snapshot.id, { ...snapshot, name: LONG, comment: LONG });
  for (const kind of ['started', 'died'] as const)
    await journal.append({ kind, sandbox: id, name: LONG, reason: LONG, atMs: 0 } as never);
  const entries = ['src', LONG].map((name, n) => {
    const type: 'directory' | 'file' = n === 0 ? 'directory' : 'file';
    return { ...FILE, path: Buffer.from(name), type };
  });
  sandboxes.onFileCall = async () => ({ entry: FILE, entries, hasMore: false, count: entries.length });
  const body = () => outflow(`${LONG}\n`);
  const [sizeBytes, contentBytes] = [LONG.length + 1, LONG.length + 1];
  sandboxes.onRead = async () => ({ body: body(), sizeBytes, contentBytes, entry: FILE });
  const tty = { cols: 80, rows: 24 };
  const about = { isCmdCut: false, isDetached: true, hasStdin: true, pid: 7, startedUnixMs: 1000 };
  sandboxes.commandCalls = {
    ...fakeCommands(),
    list: async () => [
      { ...about, id: 'cmd_0123456789abc', cmd: ['make', LONG] },
      { ...about, id: 'cmd_0123456789abd', cmd: ['bash'], tty },
    ],
    attach: () => {
      const nothing = (): void => undefined;
      const calls = { consumed: nothing, closeStdin: nothing, signal: nothing, resize: nothing };
      return { ...calls, write: () => true, cancel: nothing };
    },
  };
  const app = await openConsole(t, url);
  await app.shows('3 sandboxes');
  const tab = (name: string) => `#/sandboxes/${id}?tab=${name}`;
  const pages = [
    ['#/sandboxes', '3 sandboxes'],
    [tab('overview'), 'Properties'],
    [tab('terminal'), 'End it'],
    [tab('commands'), 'make'],
    [tab('files'), LONG],
    [`${tab('files')}&path=/&file=/${LONG}`, 'Reload'],
    [tab('logs'), 'word word'],
    [tab('network'), 'Allow'],
    [tab('events'), 'died'],
    ['#/snapshots', LONG],
    ['#/images', LONG],
    ['#/events', 'died'],
    ['#/access', 'This daemon has no keys'],
    ['#/host', 'Starts since the daemon began'],
  ] as const;
  for (const view of VIEWS) {
    await app.page.emulate(view);
    for (const [hash, expected] of pages) {
      const where = `${hash.replace(id, '…')}, ${view.width} pixels, ${view.scheme}`;
      await app.open(hash);
      await app.shows(expected);
      const hasRoom = `document.documentElement.scrollWidth <= ${view.width}`;
      t.equal(await app.page.evaluate(hasRoom), true, `${where}: nothing is cut off`);
      await assertSound(t, app, where);
    }
  }
});
