// `sandboxd drain` on a host of a fleet: it cordons the node of the host, which `kubectl` sees and may undo.
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { CORDON_TABLE } from '../../host-agent/src/app/open-fleet.ts';
import { askCordon, type CordonRecord, readCordon } from '../../host-agent/src/fleet/index.ts';
import { Store } from '../../host-agent/src/store/store.ts';
import { runCommand } from '../support/command.ts';
import { ask, type Fleet, type FleetHost } from '../support/fleet/fleet.ts';
import { startMovingFleet } from '../support/fleet/moves.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { makeHome } from '../support/memory-host/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(300_000));

const podsOf = (fleet: Fleet) => fleet.api.objects.list('pods');
const isCordoned = (fleet: Fleet, name: string): boolean =>
  fleet.api.objects.get('nodes', '', name).spec?.unschedulable === true;
const progressOf = ({ daemon }: FleetHost) => daemon.manager.moves.drain.progress();
const recordsOf = ({ daemon }: FleetHost) => daemon.store.table<CordonRecord>(CORDON_TABLE);

/** As it is run on the machine of the host, with the settings of its daemon. */
function startDrain({ daemon, name }: FleetHost, words: readonly string[] = []) {
  const env = {
    ...{ PATH: process.env.PATH, SANDBOXD_DATA_DIR: daemon.home.dataDir },
    SANDBOXD_SNAPSHOT_STORE: 's3://bucket',
    ...{ SANDBOXD_SNAPSHOT_STORE_ENDPOINT: 'http://127.0.0.1:1', SANDBOXD_SNAPSHOT_STORE_KEY_FILE: '/key' },
    SANDBOXD_SNAPSHOT_STORE_CREDENTIALS_FILE: '/credentials',
    ...{ SANDBOXD_JOIN: '/kubeconfig', SANDBOXD_JOIN_NAME: name, SANDBOXD_FLEET_SECRET_FILE: '/secret' },
  };
  const child = spawn(DAEMON_PROGRAM, ['drain', ...words], { env });
  let [stdout, stderr] = ['', ''];
  child.stdout.on('data', (bytes) => {
    stdout += bytes;
  });
  child.stderr.on('data', (bytes) => {
    stderr += bytes;
  });
  const ended = new Promise<{ code: number | null; stdout: string; stderr: string }>((done) =>
    child.once('close', (code) => done({ code, stdout, stderr })),
  );
  return { child, ended };
}

const drain = (host: FleetHost, ...words: string[]) => startDrain(host, words).ended;

type Listed = { readonly name: string; readonly state: string; readonly drain?: object };

/** A busy host may not answer in time; all of these do in the end. */
async function hostsAt(url: string): Promise<Listed[]> {
  for (;;) {
    const { hosts } = (await ask(url, 'GET', '/hosts')).body as unknown as { hosts: Listed[] };
    if (hosts.every(({ state }) => state === 'ready')) return hosts;
  }
}

/** Two sandboxes at `h0`. */
async function start(t: Test) {
  const moving = await startMovingFleet(t);
  const home = await makeHome(t);
  const a = await moving.host('h0', { home });
  await moving.fleet.ready(1);
  const { url } = await moving.fleet.gateway({ sweepMs: 300, unboundMs: 1000 });
  const made = [await ask(url, 'POST', '/sandboxes', {}), await ask(url, 'POST', '/sandboxes', {})];
  const ids = made.map(({ body }) => body.id).sort();
  const idsOf = (host: FleetHost): string[] => host.daemon.manager.list().map(({ id }) => id);
  const runsAt = (host: FleetHost) => (): boolean => {
    const all = host.daemon.manager.list();
    return all.length === ids.length && all.every(({ state }) => state === 'running');
  };
  return { ...moving, home, a, url, ids, idsOf, runsAt };
}

t.test('the node is cordoned, all go on at another host, and a cancel uncordons it', async (t) => {
  const { fleet, host, a, url, ids, idsOf, runsAt } = await start(t);
  const b = await host('h1');
  await fleet.ready(2);
  const done = await drain(a);
  t.comment(done.stderr);
  t.match(done, { code: 0, stdout: /^drained\n/, stderr: / moved/ });
  t.equal(isCordoned(fleet, 'h0'), true);
  t.equal(readCordon(recordsOf(a)), undefined, 'the node alone says it');
  await until(runsAt(b), 'they run at the other host');
  await until(() => podsOf(fleet).length === 2 && idsOf(a).length === 0, 'one place each');
  t.same(idsOf(b).sort(), ids);
  t.match(await drain(a, '--status'), { code: 0, stdout: 'drained\n' });
  const [first, second] = await hostsAt(url);
  t.match(first, { name: 'h0', drain: { state: 'drained', moved: 2, left: 0, offered: 0, stays: 0 } });
  t.equal(second?.drain, undefined);
  t.match(await drain(a, '--cancel'), { code: 0, stdout: 'off\n' });
  t.equal(isCordoned(fleet, 'h0'), false);
  t.equal(a.daemon.manager.moves.drain.isOn, false);
  t.same(idsOf(b).sort(), ids, 'what has moved stays there');
});

t.test('what kubectl does, the command sees, and the other way round', async (t) => {
  const { fleet, cordon, a, url, runsAt } = await start(t);
  cordon('h0');
  t.match(await drain(a), { code: 0, stdout: /^drained\n(?:sbx_\w+ {2}offered\n){2}$/ });
  const [first] = await hostsAt(url);
  t.match(first, { name: 'h0', drain: { state: 'drained', moved: 0, left: 0, offered: 2, stays: 0 } });
  const { stdout } = await runCommand(['hosts'], { SANDBOXD_HOST: url });
  t.match(stdout, /^HOST .* DRAIN\nh0 .* drained: 2 offered, 0 moved\n$/);
  cordon('h0', false);
  await until(runsAt(a), 'they run here again');
  t.match(await drain(a, '--status'), { code: 0, stdout: 'off\n' });
  // Before the host has seen it.
  cordon('h0');
  t.match(await drain(a, '--cancel'), { code: 0, stdout: 'off\n' });
  t.equal(isCordoned(fleet, 'h0'), false);
  await until(runsAt(a), 'they run');
});

t.test('without the API server nothing begins, and nothing is left of the request', async (t) => {
  const { fleet, a, runsAt } = await start(t);
  await fleet.api.stop();
  const isAway = 'as far as this host knows: the API server of the fleet cannot be reached: ';
  const away = new RegExp(`^sandboxd: the node h0 is not cordoned, ${isAway}`, 'm');
  t.match(await drain(a), { code: 1, stdout: '', stderr: away });
  t.equal(readCordon(recordsOf(a)), undefined);
  t.match(progressOf(a), { state: 'off' });
  await fleet.api.listen();
  const renewals = () => fleet.api.requests.filter((each) => each === 'PATCH leases').length;
  const before = renewals();
  await until(() => renewals() > before + 1, 'the host is back');
  t.equal(isCordoned(fleet, 'h0'), false);
  t.ok(runsAt(a)(), 'they run');
  t.match(await drain(a), { code: 0, stdout: /^drained\n/ });
  await fleet.api.stop();
  const kept = new RegExp(`^sandboxd: the node h0 is not uncordoned, ${isAway}`, 'm');
  t.match(await drain(a, '--cancel'), { code: 1, stderr: kept });
  t.match(progressOf(a), { state: 'drained' }, 'it is drained as before');
  await fleet.api.listen();
});

t.test('a command that is interrupted, and a daemon that is killed, do not end it', async (t) => {
  const { fleet, s3, host, home, a, runsAt } = await start(t);
  const gate = Promise.withResolvers<void>();
  s3.fault = async (method) => {
    if (method === 'PUT') await gate.promise;
    return undefined;
  };
  const { child, ended } = startDrain(a);
  await until(() => isCordoned(fleet, 'h0'), 'the node is cordoned', 120_000);
  child.kill('SIGINT');
  await ended;
  t.match(progressOf(a), { state: 'draining' });
  gate.resolve();
  await until(() => progressOf(a).state === 'drained', 'drained');
  t.match(await drain(a, '--cancel'), { code: 0, stdout: 'off\n' });
  await until(runsAt(a), 'they run');
  // The daemon has ended before it could see what was asked.
  await a.crash();
  const registry = await Store.open(join(home.dataDir, 'state.lmdb'));
  await askCordon(registry.table<CordonRecord>(CORDON_TABLE), true);
  await registry.close();
  t.equal(isCordoned(fleet, 'h0'), false);
  const again = await host('h0', { home });
  await until(() => isCordoned(fleet, 'h0') && progressOf(again).state === 'drained', 'drained');
  await until(() => readCordon(recordsOf(again)) === undefined, 'the request is carried out');
  await again.crash();
  const last = await host('h0', { home });
  t.match(await drain(last, '--cancel'), { code: 0, stdout: 'off\n' });
  await until(runsAt(last), 'they run');
});

/** As `kubectl drain` does without a budget. */
function evictAll(fleet: Fleet): void {
  const evicted = { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' };
  for (const pod of podsOf(fleet)) {
    const { namespace = '', name } = pod.metadata;
    const conditions = [...(pod.status?.conditions ?? []), evicted];
    fleet.api.objects.change('pods', pod, { status: { conditions } });
    fleet.api.objects.delete('pods', namespace, name, 0);
  }
}

t.test('evicted sandboxes of a cordoned node go on at another host', async (t) => {
  const { fleet, host, cordon, a, url, ids, idsOf, runsAt } = await start(t);
  const b = await host('h1');
  await fleet.ready(2);
  // Before the host has seen the cordon.
  cordon('h0');
  evictAll(fleet);
  const answers = new Set<number>();
  for (const isOver = runsAt(b); !isOver(); )
    answers.add((await ask(url, 'GET', `/sandboxes/${ids[0]}`)).status);
  t.ok(
    [...answers].every((status) => status === 200 || status === 503),
    [...answers].join(),
  );
  t.same(idsOf(b).sort(), ids);
  await until(() => podsOf(fleet).length === 2 && idsOf(a).length === 0, 'one place each');
});

t.test('an eviction from a node that is not cordoned is a delete', async (t) => {
  const { fleet, a, idsOf } = await start(t);
  evictAll(fleet);
  await until(() => idsOf(a).length === 0 && podsOf(fleet).length === 0, 'they have ended');
});

t.test('a host goes on to renew its lease while it waits to be drained again', async (t) => {
  const { fleet, s3, cordon, a, runsAt } = await start(t);
  cordon('h0');
  await until(() => progressOf(a).state === 'drained', 'drained');
  const gate = Promise.withResolvers<void>();
  s3.fault = async () => {
    await gate.promise;
    return undefined;
  };
  cordon('h0', false);
  await until(() => progressOf(a).state === 'off', 'cancelled');
  cordon('h0');
  await until(() => a.daemon.manager.moves.drain.isWanted, 'wanted again');
  const renewals = () => fleet.api.requests.filter((each) => each === 'PATCH leases').length;
  const before = renewals();
  await until(() => renewals() > before + 2, 'renewed');
  t.match(progressOf(a), { state: 'off' }, 'what was cancelled is not undone yet');
  gate.resolve();
  await until(() => progressOf(a).state === 'drained', 'drained again');
  cordon('h0', false);
  await until(runsAt(a), 'they run');
});
