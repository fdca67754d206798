// The certificate authorities of lineages: who has which, what guests are told, and where no key is.
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { NetworkRule } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import type { AuthorityRecord } from '../../../../host-agent/src/sandboxes/authorities.ts';
import type { SandboxRecord } from '../../../../host-agent/src/sandboxes/record.ts';
import { readAll, source } from '../../../support/archives.ts';
import { makeAuthorities } from '../../../support/memory-host/authorities.ts';
import {
  type MemoryDaemonOptions,
  makeHome,
  startMemoryDaemon,
} from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(180_000));

const INSPECTED: NetworkRule = { host: 'api.test', protocol: 'tls', ports: [443], tls: 'inspect' };
const PLAIN = { allowlist: ['a.test'] };
const READ = { allowlist: [], rules: [INSPECTED] };

async function start(t: Test, network: object = READ, options: MemoryDaemonOptions = {}) {
  const daemon = await startMemoryDaemon(t, { templateBudgetBytes: 0, ...options });
  const { id } = await daemon.manager.create({ network: network as typeof READ });
  const records = daemon.store.table<SandboxRecord>('sandboxes');
  const handle = (which = id) => daemon.manager.as(OPERATOR).get(which);
  const authorities = () => daemon.store.table<AuthorityRecord>('authorities').all();
  const trusts = (which = id) => daemon.host.of(which).agent.trusts;
  const logged = async (which = id) =>
    ((await daemon.logs.read(which, { since: 0 }))?.records ?? []).map(({ text }) => String(text)).join('\n');
  return { ...daemon, id, handle, record: (which = id) => records.get(which), authorities, trusts, logged };
}

/** Every file of a directory whose bytes include one of these. */
function filesWith(dir: string, needles: readonly (string | Buffer)[]): string[] {
  return (readdirSync(dir, { recursive: true }) as string[])
    .map((name) => join(dir, name))
    .filter((path) => {
      const bytes = statSync(path).isFile() ? readFileSync(path) : Buffer.alloc(0);
      return needles.some((each) => bytes.includes(each));
    });
}

t.test(
  'a sandbox with inspected rules has an authority, which its guest trusts from the first',
  async (t) => {
    const { handle, id, trusts, record, store, home } = await start(t);
    const { ca } = handle().network();
    t.ok(ca);
    const certificate = new X509Certificate(ca?.certificate ?? '');
    t.match(certificate.subject, `egress of ${id}`);
    t.equal(ca?.fingerprint, certificate.fingerprint256);
    t.same(trusts(), [ca?.certificate]);
    t.equal(record()?.authority, id);
    const { key } = makeAuthorities(store, home.dataDir).open(id);
    t.ok(certificate.checkPrivateKey(createPrivateKey(key)));
    t.throws(() => makeAuthorities(store, home.dataDir).open('sbx_other'), { code: 'internal' });
  },
);

t.test('the key is in no file in clear, and in no export', async (t) => {
  const { handle, id, store, home, manager, crash } = await start(t);
  const snapshot = await handle().snapshot();
  const { key } = makeAuthorities(store, home.dataDir).open(id);
  const { d = '' } = createPrivateKey(key).export({ format: 'jwk' });
  const scalar = Buffer.from(d, 'base64url');
  const der = createPrivateKey(key).export({ type: 'pkcs8', format: 'der' });
  const lines = key.split('\n').filter((line) => line !== '' && !line.startsWith('--'));
  const needles = [scalar, scalar.toString('hex'), d, scalar.toString('base64'), der, ...lines];
  const archive = await readAll(manager.exportSnapshot(snapshot.id));
  t.notOk(needles.some((each) => archive.includes(each)));
  t.notOk(archive.includes('BEGIN CERTIFICATE'), 'nor the certificate, beside what the guest itself has');
  await crash();
  t.same(filesWith(home.dataDir, needles), []);
  t.ok(filesWith(home.dataDir, ['BEGIN CERTIFICATE']).length > 0, 'the search finds what is there');
});

t.test('without inspected rules there is none, until a change has them', async (t) => {
  const { handle, trusts, authorities, network, record } = await start(t, PLAIN);
  t.notOk(handle().network().ca);
  t.same([trusts(), authorities()], [[], []]);
  let before: readonly string[] = [];
  network.onChange = async () => {
    before = [...trusts()];
  };
  const { ca, generation } = await handle().changeNetwork({ rules: [INSPECTED] });
  t.equal(generation, 2);
  t.same(before, [ca?.certificate], 'the guest trusts it before the policy holds');
  await handle().changeNetwork({ rules: [{ ...INSPECTED, host: 'other.test' }] });
  t.equal(trusts().length, 1, 'nothing new');
  await handle().changeNetwork({ rules: [] });
  t.same(trusts(), [ca?.certificate, '']);
  t.same(handle().network().ca, ca, 'its processes have it in memory');
  await handle().changeNetwork({ rules: [INSPECTED] });
  t.same(trusts(), [ca?.certificate, '', ca?.certificate]);
  t.equal(authorities().length, 1);
  t.notOk(record()?.networkBefore);
});

t.test('103: snapshots and forks have that of their source; it goes with the last of them', async (t) => {
  const { handle, id, manager, trusts, authorities, record } = await start(t);
  const { ca } = handle().network();
  const snapshot = await handle().snapshot();
  const [first] = await manager.fork(snapshot.id, 1);
  const [second] = await handle().fork(1);
  for (const { id: fork } of [first!, second!]) {
    t.same(handle(fork).network().ca, ca);
    t.same(trusts(fork), [ca?.certificate]);
    t.equal(record(fork)?.authority, id);
  }
  const other = await manager.create({ network: READ });
  t.not(handle(other.id).network().ca?.fingerprint, ca?.fingerprint, 'another sandbox has another');
  await manager.delete(other.id);
  await manager.delete(id);
  await manager.delete(first!.id);
  await manager.delete(second!.id);
  await t.resolves(until(() => authorities().length === 1));
  const [third] = await manager.fork(snapshot.id, 1);
  t.same(handle(third!.id).network().ca, ca, 'a snapshot keeps it');
  await manager.deleteSnapshot(snapshot.id);
  t.equal(authorities().length, 1, 'the stub of a snapshot is no user of it, but a fork is');
  await manager.delete(third!.id);
  await t.resolves(until(() => authorities().length === 0));
});

t.test('an import has none of its source: its forks make their own', async (t) => {
  const from = await start(t);
  const snapshot = await from.handle().snapshot();
  const bytes = await readAll(from.manager.exportSnapshot(snapshot.id));
  const { ca } = from.handle().network();
  const imported = await from.manager.importSnapshot(source(bytes), { isDiskOnly: false });
  t.same(from.manager.snapshots.authorityOf(imported.id), {});
  const [fork] = await from.manager.fork(imported.id, 1);
  const own = from.handle(fork!.id).network().ca;
  t.ok(own);
  t.not(own?.fingerprint, ca?.fingerprint);
});

t.test('a restart of the daemon, a pause and a rollback keep it', async (t) => {
  const home = await makeHome(t);
  const first = await start(t, PLAIN, { home });
  const snapshot = await first.handle().snapshot();
  const { ca } = await first.handle().changeNetwork({ rules: [INSPECTED] });
  await first.crash();
  const daemon = await startMemoryDaemon(t, { home, templateBudgetBytes: 0 });
  const handle = () => daemon.manager.as(OPERATOR).get(first.id);
  t.same(handle().network().ca, ca);
  await handle().pause(true);
  await handle().changeNetwork({ rules: [] });
  await handle().resume();
  t.same(daemon.host.of(first.id).agent.trusts, [''], 'a change while it is paused is told when it resumes');
  await handle().changeNetwork({ rules: [INSPECTED] });
  await handle().rollback(snapshot.id);
  t.same(handle().network().ca, ca);
  t.same(daemon.host.of(first.id).agent.trusts, [ca?.certificate], 'the guest before it had one is given it');
});

t.test('106: a change that a daemon did not complete is told to the guest by the next', async (t) => {
  const home = await makeHome(t);
  let isArmed = false;
  const faults = {
    reach: (at: string) => {
      if (isArmed && at === 'network.recorded') throw new Error('a fault');
    },
  };
  const first = await start(t, PLAIN, { home, faults });
  isArmed = true;
  await t.rejects(first.handle().changeNetwork({ rules: [INSPECTED] }), /a fault/);
  t.same(first.trusts(), []);
  await first.crash();
  const next = await startMemoryDaemon(t, { home });
  const { ca } = next.manager.as(OPERATOR).get(first.id).network();
  t.ok(ca);
  await t.resolves(until(() => next.host.of(first.id).agent.trusts.length === 1));
  t.same(next.host.of(first.id).agent.trusts, [ca?.certificate]);
});

t.test('an agent that is too old is refused, and nothing is left', async (t) => {
  const home = await makeHome(t);
  home.host.agentFaults = { trustsNothing: true };
  const { handle, id, manager, authorities, record, network, logged } = await start(t, PLAIN, { home });
  network.calls.length = 0;
  const tooOld = { code: 'unsupported', message: /bake the profile again/ };
  await t.rejects(handle().changeNetwork({ rules: [INSPECTED] }), tooOld);
  t.match(handle().network(), { generation: 1, allowlist: ['a.test'] });
  t.same([network.calls, record()?.authority, record()?.networkBefore], [[], undefined, undefined]);
  await handle().pause(true);
  await handle().changeNetwork({ rules: [INSPECTED] });
  await handle().resume();
  await t.resolves(until(async () => /could not be added: the agent .* is older/.test(await logged())));
  await handle().changeNetwork({ rules: [] });
  await t.rejects(manager.create({ network: READ }), tooOld);
  t.same(
    authorities().map((each) => each.id),
    [id],
  );
  t.equal(manager.list().length, 1);
});

t.test('a guest that fails keeps no policy from being changed, and its log says so', async (t) => {
  const home = await makeHome(t);
  home.host.agentFaults = { refuses: 'trust' };
  const { handle, network, logged } = await start(t, PLAIN, { home });
  network.calls.length = 0;
  t.match(await handle().changeNetwork({ rules: [INSPECTED] }), { generation: 2 });
  t.equal(network.calls.length, 1);
  await t.resolves(until(async () => /may not trust the certificate authority: /.test(await logged())));
});

t.test('places where a guest cannot add it are in its log, without what they might pretend', async (t) => {
  const home = await makeHome(t);
  home.host.agentFaults = { untrusting: ['/etc/ssl/certs: ENOSPC', `\u001b[31m\n${'x'.repeat(10_000)}`] };
  const { logged } = await start(t, READ, { home });
  await t.resolves(until(async () => /could not be added: .etc.ssl.certs: ENOSPC/.test(await logged())));
  const text = await logged();
  t.match(text, /could not be added: \\u001b\[31m\\nx+/);
  t.ok(text.length < 2000);
});

t.test('a change that is undone leaves the guest as it was, and the authority for the next', async (t) => {
  const { handle, network, trusts, authorities, record } = await start(t, PLAIN);
  let failures = 1;
  network.onChange = async () => {
    if (failures-- > 0) throw new Error('nftables broke');
  };
  await t.rejects(handle().changeNetwork({ rules: [INSPECTED] }), { message: /the earlier policy holds/ });
  t.equal(trusts().length, 2);
  t.equal(trusts().at(-1), '');
  t.equal(authorities().length, 1);
  t.ok(record()?.authority);
  const { ca } = await handle().changeNetwork({ rules: [INSPECTED] });
  t.equal(trusts().at(-1), ca?.certificate);
  t.equal(trusts().at(0), ca?.certificate);
});

t.test('a create that fails later leaves none', async (t) => {
  const { manager, network, authorities, handle, id } = await start(t);
  network.fails = 'create';
  await t.rejects(manager.create({ network: READ }), /cannot create/);
  network.fails = '';
  t.same(
    authorities().map((each) => each.id),
    [id],
  );
  t.ok(handle().network().ca);
});

/** Polls. */
async function until(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  const endAt = Date.now() + scaled(20_000);
  while (!(await isTrue())) {
    if (Date.now() > endAt) throw new Error('it does not become true');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
