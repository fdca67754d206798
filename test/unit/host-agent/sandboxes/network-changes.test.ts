// Changes of what a guest may reach: generations, records, limits, presets and copies.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { OPERATOR, type Principal } from '../../../../host-agent/src/keys/index.ts';
import { Presets } from '../../../../host-agent/src/network/presets.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import type { CreateSandboxOptions } from '../../../../host-agent/src/sandboxes/types.ts';
import {
  type MemoryDaemonOptions,
  makeHome,
  startMemoryDaemon,
} from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(180_000));

const SSH = { host: 'github.test', protocol: 'tcp', ports: [22] } as const;
const WEB = { host: '*.web.test', protocol: 'tcp', ports: [80, 443] } as const;

async function start(
  t: Test,
  network: CreateSandboxOptions['network'] = { allowlist: ['a.test'] },
  options: MemoryDaemonOptions = {},
) {
  const daemon = await startMemoryDaemon(t, { templateBudgetBytes: 0, ...options });
  const { id } = await daemon.manager.create({ network });
  daemon.network.calls.length = 0;
  const records = daemon.store.table<SandboxRecord>('sandboxes');
  const handle = (principal: Principal = OPERATOR) => daemon.manager.as(principal).get(id);
  return { ...daemon, id, handle, record: () => records.get(id), recorder: daemon.network };
}

const key = (policy: object): Principal => ({ kind: 'key', id: 'k', key: 'k', policy });

t.test('a change replaces lists, keeps absent ones, and has a number', async (t) => {
  const { handle, recorder, record, happened } = await start(t);
  t.match(handle().network(), { generation: 1, allowlist: ['a.test'] });
  recorder.closes = 3;
  t.match(await handle().changeNetwork({ rules: [SSH] }), {
    generation: 2,
    allowlist: ['a.test'],
    rules: [SSH],
    closed: 3,
  });
  t.same(recorder.calls, ['change [a.test] [github.test] [] tap1']);
  t.match(record(), { networkGeneration: 2, options: { network: { rules: [SSH] } } });
  t.notOk(record()?.networkBefore);
  t.match(happened.at(-1), { kind: 'network-changed', generation: 2, changed: ['rules'], closed: 3 });
  t.match(await handle().changeNetwork({ rules: [SSH] }), { generation: 2, closed: 0 }, 'nothing changes');
  t.equal(recorder.calls.length, 1);
  await handle().changeNetwork({ allowlist: [], rules: [] });
  t.match(handle().network(), { generation: 3, allowlist: [] });
  t.notOk(handle().network().rules);
});

t.test(
  '100: a change of another generation is refused, and concurrent ones are made one at a time',
  async (t) => {
    const { handle, recorder } = await start(t);
    await t.rejects(handle().changeNetwork({ rules: [], ifGeneration: 2 }), {
      code: 'conflict',
      message: /has generation 1, not 2/,
    });
    let active = 0;
    recorder.onChange = async () => {
      active += 1;
      t.equal(active, 1);
      await new Promise((resolve) => setTimeout(resolve, 5));
      active -= 1;
    };
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, n) =>
        handle().changeNetwork({ allowlist: [`n${n}.test`], ifGeneration: 1 + Math.floor(n / 10) }),
      ),
    );
    t.equal(
      results.filter(({ status }) => status === 'fulfilled').length,
      2,
      'one writer wins each generation',
    );
    t.equal(handle().network().generation, 3);
  },
);

t.test('what a policy may not have is refused before anything changes', async (t) => {
  const { handle, recorder, manager } = await start(t);
  for (const [change, code, message] of [
    [
      {
        allowlist: ['a.test'],
        rules: [{ host: 'a.test', protocol: 'http', ports: [80], methods: ['GET'] }],
      },
      'invalid_argument',
      /rules\[0\] reads the requests to a\.test on port 80, and the allowlist lets a\.test pass unread/,
    ],
    [
      { rules: [{ cidr: '10.0.0.0/8', protocol: 'tcp', ports: [1] }] },
      'invalid_argument',
      /of 10\.0\.0\.0\/8/,
    ],
    [
      { rules: [{ cidr: '8.0.0.0/5', protocol: 'tcp', ports: [1] }] },
      'invalid_argument',
      /not on the internet/,
    ],
    [
      { rules: [{ cidr: '0.0.0.0/0', protocol: 'tcp', ports: [1] }] },
      'invalid_argument',
      /not on the internet/,
    ],
    [{ presets: ['nosuch'] }, 'invalid_argument', /there is no preset "nosuch"/],
    [{ presets: ['internet'] }, 'forbidden', /preset internet is off/],
    [
      { rules: Array.from({ length: 65 }, (_, n) => ({ ...SSH, ports: [n + 1] })) },
      'invalid_argument',
      /at most 64 different lists of protocol and ports, not 65/,
    ],
  ] as const)
    await t.rejects(handle().changeNetwork(change), { code, message });
  await t.rejects(handle(key({ net_allow_max: ['*.web.test'] })).changeNetwork({ rules: [SSH] }), {
    code: 'forbidden',
    message: /allowlist a\.test is not within net_allow_max.*rules github\.test is not within/s,
  });
  t.same(recorder.calls, []);
  t.equal(handle().network().generation, 1);
  const plain = await manager.create({});
  t.throws(() => manager.as(OPERATOR).get(plain.id).network(), {
    code: 'conflict',
    message: /has no network/,
  });
  await t.rejects(manager.as(OPERATOR).get(plain.id).changeNetwork({ allowlist: [] }), { code: 'conflict' });
});

t.test(
  '101: a key changes within net_allow_max and net_presets, and may always close everything',
  async (t) => {
    const file = join((await makeHome(t)).dataDir, 'presets.json');
    writeFileSync(file, JSON.stringify({ packages: { rules: [WEB] }, wide: { rules: [SSH, WEB] } }));
    const presets = Presets.open({ file, hasInternet: true, log: pino({ level: 'silent' }) });
    const { handle, manager } = await start(t, { allowlist: ['x.web.test'] }, { presets });
    const narrow = key({ net_allow_max: ['*.web.test', '**.deep.test'] });
    const change = (principal: Principal, to: object) =>
      handle(principal).changeNetwork({ allowlist: [], ...to });
    await change(narrow, {
      rules: [WEB, { ...SSH, host: '**.deep.test' }, { ...SSH, host: 'a.b.deep.test' }],
    });
    await change(narrow, { rules: [], presets: ['packages'] });
    for (const beyond of [
      { presets: ['wide'] },
      { presets: ['internet'] },
      { rules: [{ cidr: '1.2.3.0/24', protocol: 'tcp', ports: [80] }] },
      { rules: [{ ...WEB, host: '**.web.test' }] },
      { rules: [{ ...SSH, host: 'deep.test' }] },
      { allowlist: ['a.b.web.test'] },
    ])
      await t.rejects(
        change(narrow, { presets: [], rules: [], ...beyond }),
        { code: 'forbidden' },
        JSON.stringify(beyond),
      );
    const named = key({ net_allow_max: [], net_presets: ['wide', 'internet'] });
    await change(named, { presets: ['wide', 'internet'], rules: [] });
    await t.rejects(change(named, { presets: ['wide'], rules: [SSH] }), { code: 'forbidden' });
    await t.rejects(change(key({ net_presets: ['wide'] }), { presets: ['packages'], rules: [] }), {
      message: /preset packages is not among net_presets wide/,
    });
    await change(key({ net_allow_max: [] }), { rules: [], presets: [] });
    t.match(handle().network(), { allowlist: [] });
    await t.rejects(
      manager.create({ network: { allowlist: [], presets: ['internet'] } }, undefined, { principal: narrow }),
      { code: 'forbidden' },
    );
  },
);

t.test('101: a name of net_presets covers what it means now, not what a snapshot has stored', async (t) => {
  const file = join((await makeHome(t)).dataDir, 'presets.json');
  const write = (rules: object[]) => writeFileSync(file, JSON.stringify({ git: { rules } }));
  write([SSH, WEB]);
  const presets = Presets.open({ file, hasInternet: false, log: pino({ level: 'silent' }) });
  const { handle, manager } = await start(t, { allowlist: [], presets: ['git'] }, { presets });
  const snapshot = await handle().snapshot();
  const named = key({ net_allow_max: [], net_presets: ['git'] });
  const fork = (principal: Principal) => manager.as(principal).fork(snapshot.id, 1);
  await fork(named);
  write([WEB]);
  const error = { code: 'forbidden', message: /net_allow_max/ };
  await t.rejects(fork(named), error);
  await t.rejects(handle(named).changeNetwork({ rules: [] }), error, 'a change that keeps it');
  await t.rejects(fork(key({ net_allow_max: ['web.test'], net_presets: ['git'] })), {
    message: /rules github\.test/,
  });
  await fork(key({ net_presets: ['git'] }));
  await fork(
    key({ net_allow_max: ['github.test', '*.web.test', 'web.test', 'x.web.test'], net_presets: ['git'] }),
  );
  await handle(named).changeNetwork({ presets: ['git'] });
  t.same(handle().network().presets, [{ name: 'git', rules: [WEB] }], 'what it means now');
  write([WEB, SSH]);
  await handle(named).changeNetwork({ allowlist: [] });
});

t.test('presets are read again when the file changes, and a bad file changes nothing', async (t) => {
  const file = join((await makeHome(t)).dataDir, 'presets.json');
  const write = (content: unknown) =>
    writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
  write({ one: { description: 'first', rules: [SSH] } });
  const lines: string[] = [];
  const log = pino({ level: 'error' }, { write: (line: string) => lines.push(line) });
  const presets = Presets.open({ file, hasInternet: false, log });
  const { handle } = await start(t, { allowlist: [], presets: ['one'] }, { presets });
  t.same(handle().network().presets, [{ name: 'one', rules: [SSH] }]);
  write({ one: { rules: [WEB] }, two: { rules: [SSH] } });
  t.same(
    presets.list().map(({ name }) => name),
    ['one', 'two'],
  );
  await handle().changeNetwork({ allowlist: ['a.test'] });
  t.same(handle().network().presets, [{ name: 'one', rules: [SSH] }], 'bound until it is named again');
  await handle().changeNetwork({ presets: ['one'] });
  t.same(handle().network().presets, [{ name: 'one', rules: [WEB] }]);
  for (const bad of [
    'no JSON',
    { internet: { rules: [SSH] } },
    { BAD: { rules: [SSH] } },
    { one: { rules: [{ host: 'a.test', methods: ['TRACE'] }] } },
    { one: { rules: [{ ...SSH, also: 1 }] } },
    { one: { rules: [{ cidr: '10.0.0.0/8', protocol: 'tcp', ports: [1] }] } },
  ]) {
    lines.length = 0;
    write(bad);
    for (let n = 0; n < 3; n++) t.equal(presets.list().length, 2, JSON.stringify(bad));
    t.equal(lines.length, 1, 'logged once');
    t.throws(() => Presets.open({ file, hasInternet: false, log }), {
      code: 'invalid_argument',
      message: /presets\.json/,
    });
  }
});

t.test('a verdict by an address has no name that the guest has resolved', async (t) => {
  const { handle, recorder } = await start(t, { allowlist: ['*.web.test'] });
  recorder.namesOf = () => ['secret.web.test'];
  const verdict = handle().checkNetwork('1.2.3.4', { protocol: 'tcp', port: 443 });
  t.match(verdict, { isAllowed: true, by: { allowlist: '*.web.test' } });
  t.notMatch(JSON.stringify(verdict), 'secret');
});

t.test('paused, forked, rolled back and deleted sandboxes', async (t) => {
  const { handle, manager, recorder, id, record } = await start(t);
  const { id: snapshot } = await handle().snapshot();
  await handle().pause(true);
  t.match(await handle().changeNetwork({ rules: [SSH] }), { generation: 2 });
  t.equal(handle().info.state, 'paused');
  await handle().resume();
  t.match(handle().network(), { generation: 2, rules: [SSH] });
  const [forked] = await handle().fork(1);
  t.match(
    manager
      .as(OPERATOR)
      .get(forked?.id ?? '')
      .network(),
    { generation: 1, rules: [SSH] },
  );
  const [older] = await manager.fork(snapshot, 1);
  t.same(
    manager
      .as(OPERATOR)
      .get(older?.id ?? '')
      .network().rules,
    undefined,
    'as it was saved',
  );
  await handle().rollback(snapshot);
  t.match(handle().network(), { generation: 2, rules: [SSH] }, 'a rollback opens nothing again');
  let release = () => {};
  const reached = new Promise<void>((resolve) => {
    recorder.onChange = async () => {
      resolve();
      await new Promise<void>((go) => {
        release = go;
      });
    };
  });
  const changing = handle().changeNetwork({ rules: [] });
  await reached;
  const deleting = manager.delete(id);
  await new Promise((resolve) => setTimeout(resolve, 20));
  release();
  await t.rejects(changing, { code: 'not_found' });
  await deleting;
  t.notOk(record()?.isReady);
});
