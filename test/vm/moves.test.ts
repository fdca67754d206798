// A real guest changes its host and goes on: what it counts in memory and on disk, under the same id and machine id.
// With PHASES=1, only the move in a fleet, of a guest that is a copy of a template; prints how long each phase took.
import { execFile } from 'node:child_process';
import { loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { Api, type SandboxJson } from '../support/api.ts';
import { type Daemon, startDaemon } from '../support/daemon.ts';
import { startFleet } from '../support/fleet/fleet.ts';
import { DAEMON_PROGRAM, readRecordIds } from '../support/leftovers.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, storeFlags } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(300_000));
const run = promisify(execFile);
const PHASES = process.env.PHASES === '1';
const WHO = 'cat /etc/machine-id; hostname; cat /proc/sys/kernel/random/boot_id';

/** Settings of a bucket. */
async function prepareStore(t: Test) {
  const url = process.env.S3 ?? (await startS3(t)).url;
  const settings = makeStoreSettings(t, url);
  return { ...settings, flags: storeFlags(settings) };
}

t.test('a sandbox leaves a drained host and goes on at another', { skip: PHASES }, async (t) => {
  const { bucket, prefix, endpoint, flags } = await prepareStore(t);
  const [a, b] = await Promise.all([startDaemon(t, { flags }), startDaemon(t, { flags })]);
  const { id } = await a.api.create({ memory_mib: 256, name: 'counter' });
  // Each number is written to the disk once it is in memory: a second guest of the same number would be seen.
  await a.api.sh(
    id,
    '(i=0; while :; do i=$((i+1)); echo $i > /dev/shm/n; echo $i >> /root/log; sync; sleep 0.2; done) >/dev/null 2>&1 &',
  );
  const who = await a.api.sh(id, WHO);
  // What a snapshot lets it stand still, to be compared with the move.
  const { id: snapshot } = await a.api.ask('takeSnapshot', { params: { id } });
  const events = await (await a.api.fetch('/events?follow=0&kind=snapshot-taken')).text();
  t.comment(`a snapshot: ${/"paused_ms":\d+/.exec(events)?.[0]}`);
  await a.api.call('DELETE', `/snapshots/${snapshot}`);
  const before = Number(await a.api.sh(id, 'cat /dev/shm/n'));

  const startedAt = performance.now();
  const env = {
    ...process.env,
    SANDBOXD_DATA_DIR: a.directories.dataDir,
    ...{
      SANDBOXD_SNAPSHOT_STORE: `s3://${bucket}/${prefix}`,
      SANDBOXD_SNAPSHOT_STORE_ENDPOINT: endpoint.origin,
    },
  };
  const { stdout } = await run(DAEMON_PROGRAM, ['drain', '--json'], { env });
  t.match(JSON.parse(stdout), { state: 'drained', sandboxes: [{ id, state: 'offered' }] });
  t.comment(`offered after ${Math.round(performance.now() - startedAt)} ms`);
  const resumedAt = performance.now();
  const moved = await b.api.ask('resumeSandbox', { params: { id }, body: {} });
  t.comment(`runs elsewhere after ${Math.round(performance.now() - resumedAt)} ms`);
  const sent = a.log.flatMap(({ sentBytes, durationMs }) =>
    typeof sentBytes === 'number' && typeof durationMs === 'number' ? [{ sentBytes, durationMs }] : [],
  );
  t.comment(`sent while it ran, and from its pause to the offer: ${JSON.stringify(sent)}`);
  const [first, second] = sent.map(({ sentBytes }) => sentBytes);
  t.ok((second ?? 0) > 0 && (second ?? 0) < (first ?? 0), 'the second upload has changes alone');
  t.match(moved, { id, name: 'counter', state: 'running' });
  t.equal(await b.api.sh(id, WHO), who, 'machine id, host name and boot id are the same');
  const count = async () => Number(await b.api.sh(id, 'cat /dev/shm/n'));
  const after = await count();
  t.ok(after >= before);
  while ((await count()) <= after) await sleep(200);
  t.equal(
    await b.api.sh(id, "sort -n /root/log | uniq -d | wc -l; awk 'NR != $1' /root/log | wc -l"),
    '0\n0',
  );
  const skew = Number(await b.api.sh(id, 'date +%s')) - Date.now() / 1000;
  t.ok(Math.abs(skew) < 20, `the clock differs by ${skew} s`);

  const list = async () => (await a.api.call<{ sandboxes: SandboxJson[] }>('GET', '/sandboxes')).sandboxes;
  while ((await list()).length > 0) await sleep(200);
  await run(DAEMON_PROGRAM, ['drain', '--cancel'], { env });
  const other = await a.api.create({ memory_mib: 256 });
  await a.api.delete(other.id);
  await b.api.delete(id);
});

/** What the daemons say about the phases of a move. */
const phasesOf = (daemon: Daemon) =>
  daemon.log.flatMap(({ msg, sentBytes, bytes, waitedMs, pauseMs, fetchedMs, durationMs }) =>
    durationMs === undefined && waitedMs === undefined
      ? []
      : [JSON.stringify({ msg, sentBytes, bytes, waitedMs, pauseMs, fetchedMs, durationMs })],
  );

t.test('in a fleet the other host has most of a sandbox before its pause', async (t) => {
  const { flags } = await prepareStore(t);
  const fleet = await startFleet(t);
  const join = (name: string) => startDaemon(t, { flags: [...flags, ...fleet.joinFlags(name)] });
  const [a, b] = [await join('a'), await join('b')];
  await fleet.ready(2);
  const { url } = await fleet.gateway();
  fleet.api.objects.change('nodes', fleet.api.objects.get('nodes', '', 'b'), {
    spec: { unschedulable: true },
  });
  // Until they know the keys of the fleet.
  for (const { api } of [a, b]) while (!(await api.fetch('/whoami')).ok) await sleep(100);
  const api = new Api(url, () => '');
  if (PHASES) {
    const { id } = await api.create({ memory_mib: 256 });
    const isMade = () => a.log.some(({ msg, rootfs }) => msg === 'template made' && rootfs === 'base');
    await until(isMade, 'a template', 240_000);
    await api.delete(id);
  }
  const { id } = await api.create({ memory_mib: 256 });
  const isCopy = () => a.log.some(({ origin, sandbox }) => origin === 'saved' && sandbox === id);
  if (PHASES) await until(isCopy, 'a copy of a template');
  fleet.api.objects.change('nodes', fleet.api.objects.get('nodes', '', 'b'), {
    spec: { unschedulable: false },
  });
  await api.sh(
    id,
    '(i=0; while :; do i=$((i+1)); echo $i >> /root/log; date +%s.%N >> /dev/shm/at; sync; sleep 0.2; done) >/dev/null 2>&1 &',
  );
  const gap = () =>
    api.sh(
      id,
      "awk 'NR > 1 && $1 - last > most { most = $1 - last } { last = $1 } END { print most }' /dev/shm/at",
    );
  await sleep(2000);
  t.comment(`longest time between two lines of the guest: ${await gap()} s`);
  await api.call('DELETE', `/snapshots/${(await api.ask('takeSnapshot', { params: { id } })).id}`);
  const withSnapshot = await gap();
  t.comment(`with a snapshot: ${withSnapshot} s`);
  fleet.api.objects.change('nodes', fleet.api.objects.get('nodes', '', 'a'), {
    spec: { unschedulable: true },
  });
  const says = (daemon: Daemon, text: string) => daemon.log.some(({ msg = '' }) => msg.includes(text));
  await until(() => says(b, 'a sandbox of another host is here'), 'it is at the other host', 120_000);
  await until(() => fleet.api.objects.list('pods').length === 1, 'one place', 60_000);
  fleet.api.objects.change('nodes', fleet.api.objects.get('nodes', '', 'a'), {
    spec: { unschedulable: false },
  });
  const list = async () => (await b.api.call<{ sandboxes: SandboxJson[] }>('GET', '/sandboxes')).sandboxes;
  while ((await list())[0]?.state !== 'running') await sleep(100);
  t.equal(await api.sh(id, "sort -n /root/log | uniq -d | wc -l; awk 'NR != $1' /root/log | wc -l"), '0\n0');
  const withMove = await gap();
  t.comment(`with the move: ${withMove} s`);
  for (const [daemon, kinds] of [
    [a, 'paused,snapshot-taken'],
    [b, 'resumed'],
  ] as const) {
    for (const line of phasesOf(daemon)) t.comment(line);
    for (const kind of kinds.split(',')) {
      const events = await (await daemon.api.fetch(`/events?follow=0&kind=${kind}`)).text();
      t.comment(kind, ...(events.match(/"(?:paused_ms|duration_ms)":\d+/g) ?? []));
    }
  }
  const offered = a.log.find(({ pauseMs }) => pauseMs !== undefined);
  const arrived = b.log.find(({ fetchedMs }) => fetchedMs !== undefined);
  const resumed = await (await b.api.fetch('/events?follow=0&kind=resumed')).text();
  const rows = [
    ['pause, in which memory is written to disk', Number(offered?.pauseMs) / 1000],
    ['upload of what has changed', (Number(offered?.durationMs) - Number(offered?.pauseMs)) / 1000],
    ['fetch after the pause, and the claim', Number(arrived?.durationMs) / 1000],
    ['resume', Number(/"duration_ms":(\d+)/.exec(resumed)?.[1]) / 1000],
    ['longest time between two lines of the guest', Number(withMove)],
    ['the same with a snapshot', Number(withSnapshot)],
  ] as const;
  t.comment(`phases, with a load of ${loadavg()[0]?.toFixed(0)}, sent ${offered?.sentBytes} bytes`);
  for (const [phase, seconds] of rows) t.comment(`| ${phase} | ${seconds.toFixed(2)} s |`);
  t.ok(says(b, 'what a sandbox has sent ahead is here'), 'it is fetched ahead');
  // On a machine where that takes long, it was paused before.
  if (a.log.some(({ fetched }) => fetched === 'ready'))
    t.ok(
      a.log.some(({ inPages }) => inPages === true),
      'and only pages after the pause',
    );
  await api.delete(id);
  await until(() => fleet.api.objects.list('pods').length === 0, 'no place', 60_000);
  const isLeft = async ({ directories }: Daemon) =>
    (await readRecordIds(directories.dataDir)).some((key) => /^(?:fleet_places|drain)\//.test(key));
  while ((await isLeft(a)) || (await isLeft(b))) await sleep(100);
});
