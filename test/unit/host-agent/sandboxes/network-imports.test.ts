// The networks of imported snapshots: an archive may have been made by anyone.

import type { NetworkRule } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { forge, manifestOf, readAll, source } from '../../../support/archives.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(60_000));

const SSH = { host: 'github.test', protocol: 'tcp', ports: [22] } as const;
const WEB = { host: '*.web.test', protocol: 'tcp', ports: [80, 443] } as const;

async function start(t: Test) {
  const daemon = await startMemoryDaemon(t, { templateBudgetBytes: 0 });
  const { id } = await daemon.manager.create({ network: { allowlist: ['a.test'], rules: [SSH] } });
  const snapshot = await daemon.manager.as(OPERATOR).get(id).snapshot();
  return { ...daemon, snapshot };
}

t.test('presets of an imported snapshot are rules, and what is no rule is refused', async (t) => {
  const { manager, snapshot } = await start(t);
  const good = manifestOf(await readAll(manager.exportSnapshot(snapshot.id)));
  const load = (network: object) =>
    manager.importSnapshot(source(forge({ ...good, options: { ...good.options, network } })), {
      isDiskOnly: false,
    });
  const imported = await load({ allowlist: [], rules: [SSH], presets: [{ name: 'packages', rules: [WEB] }] });
  t.same(manager.snapshots.open(imported.id).manifest.options.network, { allowlist: [], rules: [SSH, WEB] });
  const long = Array.from({ length: 1001 }, (_, n) => `n${n}.test`);
  await t.rejects(load({ allowlist: long }), { code: 'invalid_argument', message: /too long/ });
  const open = await load({ allowlist: [], presets: [{ name: 'internet', rules: [] }] });
  await t.rejects(manager.fork(open.id, 1), { code: 'forbidden', message: /preset internet is off/ });
  for (const rules of [
    [{ ...SSH, host: '*' }],
    [{ ...SSH, ports: [0] }],
    [{ cidr: '10.0.0.0/8', protocol: 'tcp', ports: [1] }],
    [{ ...SSH, protocol: 'icmp' }],
  ])
    await t.rejects(load({ allowlist: [], rules }), { code: 'invalid_argument' }, JSON.stringify(rules));
});

t.test('the guest of a disk that is imported reaches nothing, whatever the archive has', async (t) => {
  const { manager, snapshot, network: recorder } = await start(t);
  const good = manifestOf(await readAll(manager.exportSnapshot(snapshot.id)));
  const network = { allowlist: ['evil.test'], presets: [{ name: 'internet', rules: [] }] };
  const forged = forge({ ...good, options: { ...good.options, network } });
  recorder.calls.length = 0;
  const { id } = await manager.importSnapshot(source(forged), { isDiskOnly: true });
  const started = recorder.calls.filter((call) => call.startsWith('start'));
  t.equal(started.length, 1);
  t.match(started[0], /^start \[\] first/);
  t.same(manager.snapshots.open(id).manifest.options.network, network, 'its forks are judged by this');
});

t.test('rules that are read stay so in snapshots, after a restart, and in exports', async (t) => {
  const home = await makeHome(t);
  const read: NetworkRule[] = [
    {
      ...{ host: 'api.test', protocol: 'tls', ports: [443], tls: 'inspect' },
      ...{ methods: ['GET', 'HEAD'], paths: ['/a/**'], encoded_slash: true, websocket: true },
    },
    { host: 'ech.test', protocol: 'tls', ports: [443], ech: 'refuse' },
    { host: 'plain.test', protocol: 'http', ports: [80], methods: ['GET', 'HEAD'] },
    { host: 'db.test', protocol: 'postgres', ports: [5432] },
  ];
  const first = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const { id } = await first.manager.create({ network: { allowlist: [], rules: read } });
  const snapshot = await first.manager.as(OPERATOR).get(id).snapshot();
  await first.crash();
  const { manager } = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const rulesOf = async (from: string) => {
    const [fork] = await manager.fork(from, 1);
    return manager.as(OPERATOR).get(fork!.id).network().rules;
  };
  t.same(await rulesOf(snapshot.id), read);
  const bytes = await readAll(manager.exportSnapshot(snapshot.id));
  t.same(await rulesOf((await manager.importSnapshot(source(bytes), { isDiskOnly: false })).id), read);
  const good = manifestOf(bytes);
  const odd = { allowlist: [], rules: [{ ...read[1], only: ['/later'] }] };
  await t.rejects(
    manager.importSnapshot(source(forge({ ...good, options: { ...good.options, network: odd } })), {
      isDiskOnly: false,
    }),
    { code: 'invalid_argument' },
    'a field that this daemon does not know could narrow the rule',
  );
});
