// Controls of the console: each does what it names, over the calls that a daemon gets.
import { Client } from '@sandboxd/client';
import type { TtySize } from '@sandboxd/proto';
import t, { type Test } from 'tap';
import { testConsole } from '../support/console.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { assertSound } from './console-axe.ts';
import { type ConsolePage, openConsole, serveConsole } from './console-daemon.ts';
import { fakeCommands } from './fake-commands.ts';
import { openKeyring } from './keyed.ts';
import { serve } from './support.ts';

t.setTimeout(180_000);

const READ = { host: 'api.example', protocol: 'tls', ports: [443], tls: 'inspect' } as const;
const RULE = { ...READ, methods: ['GET'], paths: ['/repos/**'] };
const at = (name: string) => ({ name, address: '192.0.2.1', port: 443, protocol: 'tls' as const });
const RECORDS = [
  { verdict: 'denied', reason: 'no rule has the name', ...at('b.example') },
  { verdict: 'denied', reason: 'no rule has the method', ...at('api.example'), method: 'POST', path: '/x' },
  { verdict: 'denied', reason: 'its placeholder is of another host', ...at('a.example') },
  {
    ...{
      verdict: 'allowed',
      reason: 'a rule lets it pass',
      ...at('api.example'),
      method: 'GET',
      path: '/repos/y',
    },
    ...{ status: 200, secrets: ['GH'], forms: ['bearer'], bytesUp: 10, bytesDown: 2048, ms: 7 },
  },
  { verdict: 'missing', reason: 'too many at once', dropped: 4 },
].map((record) => ({ timeMs: 1000, ...record }));

async function open(t: Test, hash: (id: string) => string, services: Parameters<typeof serve>[1] = {}) {
  const { journal } = await startMemoryDaemon(t);
  const served = await serve(t, { console: await testConsole(), events: journal, ...services });
  const { id } = served.sandboxes.add();
  const app = await openConsole(t, served.url, hash(id));
  await app.page.emulate({ width: 1300, height: 900 });
  return { ...served, journal, id, app };
}

/** Clicks the button of that name in the line that has a text. */
async function clickIn({ page }: ConsolePage, lines: string, text: string, name: string) {
  const clicked = await page.evaluate(`(() => {
    const line = [...document.querySelectorAll(${JSON.stringify(lines)})].find(({ innerText }) => innerText.includes(${JSON.stringify(text)}));
    const button = [...(line?.querySelectorAll('button') ?? [])].find(({ textContent }) => textContent === ${JSON.stringify(name)});
    button?.click();
    return button !== undefined;
  })()`);
  if (clicked !== true) throw new Error(`no button ${name} in the line ${text}`);
}

t.test('network: rules as they are, secrets, and a rule from a denied line', async (t) => {
  const egressLog = {
    isKept: true,
    read: async (_: string, { since }: { since?: number }) => ({
      nextOffset: 9,
      records: since === 9 ? [] : RECORDS,
    }),
    isOpen: () => true,
    onMore: () => () => undefined,
  };
  const { journal } = await startMemoryDaemon(t);
  const { url, sandboxes } = await serve(t, {
    console: await testConsole(),
    events: journal,
    egressLog: egressLog as never,
  });
  const info = sandboxes.add();
  Object.assign(info, { network: { allowlist: ['a.example'], gateway: '10.0.0.1', guestIp: '10.0.0.2' } });
  const secret = { name: 'GH', hosts: ['api.example'], forms: ['bearer' as const], hasValue: false };
  const { network } = sandboxes;
  network.state = { ...network.state, rules: [RULE], secrets: [secret] };
  const app = await openConsole(t, url, `#/sandboxes/${info.id}?tab=network`);
  await app.page.emulate({ width: 1300, height: 900 });
  await app.shows('api.example tls 443 · GET · /repos/**');
  await app.shows('api.example · bearer');
  await app.shows('no value');
  await app.shows('tls api.example:443 GET /repos/y');
  await app.shows('status 200 · a rule lets it pass · secret GH (bearer) · ↑ 10 B ↓ 2 KiB · 7 ms');
  await app.shows('too many at once · 4 missing');
  await assertSound(t, app, 'the network');

  const allow = (text: string) => clickIn(app, '.egress li', text, 'Allow');
  await allow('b.example');
  await app.shows('The sandbox may reach it now');
  t.same(network.changes.at(-1)?.rules, [RULE, { host: 'b.example', protocol: 'tls', ports: [443] }]);
  t.equal(network.changes.at(-1)?.ifGeneration, 1);
  await allow('POST /x');
  await until(() => network.changes.length === 2, 'the second change');
  t.same(network.changes.at(-1)?.rules?.at(-1), { ...READ, methods: ['POST'], paths: ['/x'] });
  await allow('a.example');
  await app.shows('The policy lets it pass now. It was denied because: its placeholder is of another host');
  t.equal(network.changes.length, 2, 'a rule would change nothing');

  // Another client changes it: the page follows.
  network.state = { ...network.state, generation: 7, rules: [READ] };
  await journal.append({ kind: 'network-changed', sandbox: info.id, atMs: Date.now() });
  await app.shows('api.example tls 443 · every request is read');
  await app.click('Remove a.example');
  await until(() => network.changes.length === 3, 'the removal');
  t.match(network.changes.at(-1), { allowlist: [], ifGeneration: 7 });
  t.same(app.page.problems, []);
});

const SPEC = {
  ...{ cmd: ['serve', '--port', '80'], env: {}, log_buffer_bytes: 1024, stop_grace_s: 5 },
  ...{ stop_signal: 'SIGTERM', restart: { policy: 'never', max_retries: 0 } },
};

t.test('terminals: several, one that is chosen, one that is ended', async (t) => {
  const { sandboxes, app } = await open(t, (id) => `#/sandboxes/${id}?tab=terminal`);
  const list = [terminal('cmd_0123456789abc', 'bash'), terminal('cmd_0123456789abd', 'top')];
  const attached: string[] = [];
  const killed: string[] = [];
  sandboxes.commandCalls = {
    ...fakeCommands(),
    list: async () => list.filter(({ id }) => !killed.includes(id)),
    get: async (id) => list.find((each) => each.id === id) as never,
    kill: async (id) => {
      killed.push(id);
      return list[0] as never;
    },
    start: async () => {
      list.push(terminal('cmd_0123456789abe', 'sh'));
      return list.at(-1) as never;
    },
    attach: (id) => {
      attached.push(id);
      const nothing = (): void => undefined;
      const calls = { consumed: nothing, closeStdin: nothing, signal: nothing, resize: nothing };
      return { ...calls, write: () => true, cancel: nothing };
    },
  };
  await app.reload();
  await app.shows('top 7');
  await until(() => attached.at(-1) === 'cmd_0123456789abd', 'the newest terminal');
  await app.click('bash 7');
  await until(() => attached.at(-1) === 'cmd_0123456789abc', 'the other one');
  await app.click('End it');
  await until(() => killed.length === 1, 'the end');
  t.same(killed, ['cmd_0123456789abc']);
  await app.hides('bash 7');
  await app.click('New terminal');
  await until(() => attached.at(-1) === 'cmd_0123456789abe', 'a new one');
  t.same(app.page.problems, []);
});

function terminal(id: string, program: string) {
  const tty = { cols: 80, rows: 24 } satisfies TtySize;
  const about = { isCmdCut: false, isDetached: true, hasStdin: true, pid: 7, startedUnixMs: 1000 };
  return { ...about, id, cmd: [program], tty };
}

t.test('logs: a search, sources, and the service', async (t) => {
  const log = ['first line', 'second line'].map((text, n) => ({
    ...{ source: n === 0 ? 'exec' : 'service', stream: 'stdout', text: `${text}\n`, timeMs: 1000 },
  }));
  const asked: (string | undefined)[] = [];
  const read = async (_: string, { since, source }: { since?: number; source?: string }) => {
    asked.push(source);
    return { nextOffset: 9, records: since === 9 ? [] : log };
  };
  const { sandboxes, app } = await open(t, (id) => `#/sandboxes/${id}?tab=logs`, {
    logs: { read } as never,
  });
  const calls: string[] = [];
  let state = 'running';
  const turn = (name: string, next: string) => async () => {
    calls.push(name);
    state = next;
    return await status();
  };
  const status = async () => ({ state, spec: SPEC, restarts: 0 }) as never;
  sandboxes.serviceCalls = {
    status,
    restart: turn('restart', 'running'),
    stop: turn('stop', 'stopped'),
    start: turn('start', 'running'),
  };
  await app.shows('second line');
  await app.reload();
  await app.shows('serve --port 80');
  for (const [name, next] of [
    ['Restart', 'Stop'],
    ['Stop', 'Start'],
    ['Start', 'Stop'],
  ] as const) {
    await app.click(name);
    await until(() => calls.at(-1) === name.toLowerCase(), name);
    await app.shows(next);
  }
  t.same(calls, ['restart', 'stop', 'start']);
  await assertSound(t, app, 'the log');
  await app.page.evaluate('document.activeElement.blur(); 0');
  await app.page.press('/');
  await app.fill('Search the log', 'SECOND');
  await app.hides('first line');
  await app.shows('second line');
  await app.fill('Search the log', 'nothing');
  await app.shows('No line matches');
  await clickIn(app, '.segments', 'service', 'commands');
  await until(() => asked.at(-1) === 'exec', 'the other source');
  t.same(app.page.problems, []);
});

t.test('snapshots: compare, roll back, delete; and several sandboxes are paused', async (t) => {
  const { sandboxes, app, id, journal } = await open(t, () => '#/snapshots');
  const first = await sandboxes.snapshot(id);
  const second = await sandboxes.snapshot(id);
  sandboxes.snapshots.set(second.id, { ...second, name: 'tested', parentSnapshotId: first.id });
  const asked: { from: string; to: string }[] = [];
  sandboxes.onCompare = async ({ from, to }) => {
    asked.push({ from, to });
    const after = { kind: 'file' as const, sizeBytes: 3, mode: 0o644, uid: 0, gid: 0 };
    return { files: [{ path: Buffer.from('/srv/<b>new</b>'), after, differs: [] }] };
  };
  Object.assign(sandboxes.get(id).info, { parentSnapshotId: first.id });
  await journal.append({
    kind: 'snapshot-taken',
    sandbox: id,
    snapshot: second.id,
    atMs: Date.now(),
  } as never);
  await app.reload();
  await app.shows('2 snapshots');
  await clickIn(app, '.node', 'tested', 'Compare');
  await app.shows('/srv/<b>new</b>');
  await app.shows('added');
  t.same(asked.at(-1), { from: first.id, to: second.id }, 'what changed since its parent');
  await assertSound(t, app, 'the differences');
  await app.click('Close');
  await clickIn(app, '.node-sandbox', id, 'Roll back');
  await app.shows('Roll the sandbox back?');
  await assertSound(t, app, 'the question');
  await app.page.evaluate(`[...document.querySelectorAll('dialog[open] button')].at(-1).click(); 0`);
  await app.shows('The sandbox is as it was then');
  await clickIn(app, '.node', 'tested', 'Delete');
  await app.shows('Delete this snapshot?');
  await app.page.evaluate(`[...document.querySelectorAll('dialog[open] button')].at(-1).click(); 0`);
  await app.shows('1 snapshot');
  t.same([...sandboxes.snapshots.keys()], [first.id]);

  const other = sandboxes.add();
  await app.open('#/sandboxes');
  await app.reload();
  await app.shows('2 sandboxes');
  await app.click('Select all');
  await app.click('Pause');
  await app.shows('Paused 2 sandboxes');
  t.same(
    [id, other.id].map((each) => sandboxes.get(each).info.state),
    ['paused', 'paused'],
  );
  t.same(app.page.problems, []);
});

t.test('a key of a tenant: its own sandboxes, its quota, and nothing of others', async (t) => {
  const keyring = await openKeyring(t);
  const limitUse = () => [{ limit: 'max_sandboxes', of: 'tenant', used: 3, max: 4 }] as never;
  const { url } = await serveConsole(t, { authenticator: keyring.authenticator, limitUse });
  const create = async (tenant: string) => {
    const apiKey = await keyring.make({ name: tenant, tenant });
    return await new Client({ host: url, apiKey }).sandboxes.create({ name: `box-of-${tenant}` });
  };
  await create('one');
  const theirs = await create('two');
  const narrow = await keyring.make({ tenant: 'one', policy: { operations: ['view', 'exec'] } });
  const app = await openConsole(t, url);
  await app.fill('Key', narrow);
  await app.click('Open');
  await app.shows('box-of-one');
  await app.shows('1 sandbox');
  t.notMatch(await app.text(), 'box-of-two');
  await app.open(`#/sandboxes/${theirs.id}`);
  await app.shows('This sandbox does not exist any more');
  await app.open('#/events');
  await app.shows('created');
  t.notMatch(await app.text(), theirs.id);
  await app.open('#/snapshots');
  await app.shows('No snapshots yet');
  await app.open('#/images');
  await app.shows('Images');
  await app.open('#/access');
  await app.shows('3 of 4');
  await assertSound(t, app, 'the rights of a tenant');
  await app.open('#/host');
  await app.shows('This key lacks the operation metrics');
  t.notMatch(await app.text(), 'box-of-two');
  t.same(app.page.problems, []);
});
