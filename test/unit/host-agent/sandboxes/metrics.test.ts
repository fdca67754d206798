// Metrics of sandboxes, as of each scrape.
import { createSocket } from 'node:dgram';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import t from 'tap';
import type { ExecEvents, ExecSession } from '../../../../host-agent/src/guest/exec.ts';
import { readStartTicks } from '../../../../host-agent/src/lib/proc.ts';
import { Metrics } from '../../../../host-agent/src/metrics/metrics.ts';
import { CommandCounts } from '../../../../host-agent/src/sandboxes/exec.ts';
import { originOf } from '../../../../host-agent/src/sandboxes/lifecycle-events.ts';
import {
  countLifecycleEvents,
  measureSandboxes,
  type SandboxMetricsSource,
} from '../../../../host-agent/src/sandboxes/metrics.ts';
import type { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import { readVmUsage } from '../../../../host-agent/src/sandboxes/vm-usage.ts';

const MIB = 2 ** 20;

async function read(metrics: Metrics): Promise<Map<string, number>> {
  const lines = (await metrics.render()).split('\n').filter((line) => /^[a-z]/.test(line));
  return new Map(
    lines.map((line) => {
      const at = line.lastIndexOf(' ');
      return [line.slice(0, at), Number(line.slice(at + 1))];
    }),
  );
}

const SELF = { pid: process.pid, startTicks: readStartTicks(process.pid) ?? 0 };

type Change = { readonly vm?: object; readonly hangReason?: string; readonly [name: string]: unknown };

/** A sandbox whose VMM is this process. */
function makeSandbox(
  id: string,
  layerPath: string,
  { vm = { exit: undefined, identity: SELF }, hangReason, ...change }: Change = {},
): Sandbox {
  return {
    id,
    state: 'running',
    running: { vm, hangReason, detachedCommands: 4 },
    paths: { layerPath },
    record: { options: { memoryMib: 100 } },
    ...change,
  } as unknown as Sandbox;
}

t.test('sandboxes are counted by state, and running ones have memory reserved', async (t) => {
  const layer = join(t.testdir(), 'layer');
  writeFileSync(layer, Buffer.alloc(8192, 1));
  const all = [
    makeSandbox('well', layer, { record: { options: { memoryMib: 300 }, network: { tap: 'lo' } } }),
    makeSandbox('well too', layer),
    makeSandbox('well as well', layer),
    makeSandbox('full disk', layer, { hangReason: 'the disk is full' }),
    makeSandbox('silent', layer, { hangReason: 'it does not answer' }),
    makeSandbox('dead', layer, { state: 'failed', vm: { identity: SELF, exit: { reason: 'it ended' } } }),
    makeSandbox('asleep', layer, { state: 'paused', running: undefined }),
    makeSandbox('leaving', layer, {
      state: 'deleting',
      vm: { identity: SELF, exit: { reason: 'it ended' } },
    }),
  ];
  const metricsSource = {
    sandboxes: new Map(all.map((sandbox) => [sandbox.id, sandbox])),
    snapshots: { owners: new Array(11).fill(undefined), diskBytes: async () => 30 },
    templates: { count: 12, lookups: { hit: 13, made: 14, none: 15 } },
    admission: { refusals: new Map([['memory', 16]]) },
    startQueue: { size: 17, pending: 18 },
    starting: { size: 19 },
    sweeps: { sandboxes: [all[0], all[1]] },
    sleep: { storedBytes: 22 },
    commandCounts: {
      attached: 25,
      ended: [{ kind: 'detached', outcome: 'failed', count: 26 }],
      ports: { open: 27, receivedBytes: 28, sentBytes: 29 },
    },
  } as unknown as SandboxMetricsSource;
  const socket = createSocket('udp4');
  await new Promise((resolve) => socket.send('something', 9, '127.0.0.1', resolve));
  socket.close();
  let capacity: number | undefined = 21;
  const metrics = new Metrics();
  measureSandboxes(metrics, {
    source: metricsSource,
    top: 5,
    readCapacity: async () => {
      if (capacity === undefined) throw new Error('/proc is not there');
      return { memoryTotalBytes: capacity, memoryAvailableBytes: capacity + 1, diskFreeBytes: capacity + 2 };
    },
  });
  const found = await read(metrics);
  const expected = {
    'sandboxes{state="running"}': 3,
    'sandboxes{state="hung"}': 2,
    'sandboxes{state="failed"}': 1,
    'sandboxes{state="paused"}': 1,
    paused_bytes: 22,
    'sandboxes{state="deleting"}': 3,
    starts_queued: 17,
    starts_running: 18,
    creates_open: 19,
    sweeps: 2,
    snapshots: 11,
    snapshot_bytes: 30,
    templates: 12,
    'template_lookups_total{result="hit"}': 13,
    'template_lookups_total{result="made"}': 14,
    'template_lookups_total{result="none"}': 15,
    'admission_refusals_total{what="memory"}': 16,
    'commands_running{kind="attached"}': 25,
    'commands_running{kind="detached"}': 28,
    'commands_ended_total{kind="detached",outcome="failed"}': 26,
    port_connections: 27,
    'port_bytes_total{direction="received"}': 28,
    'port_bytes_total{direction="sent"}': 29,
    host_memory_bytes: 21,
    host_memory_available_bytes: 22,
    data_free_bytes: 23,
    memory_promised_bytes: 700 * MIB,
  };
  for (const [name, value] of Object.entries(expected)) t.equal(found.get(`sandboxd_${name}`), value, name);
  const of = (name: string) => found.get(`sandboxd_vm_${name}`) ?? -1;
  const usedS = (process.cpuUsage().user + process.cpuUsage().system) / 1e6;
  const shownS = of('cpu_seconds_total{sandbox="well"}');
  t.ok(shownS > 0 && shownS <= usedS + 0.1, `${shownS} of ${usedS} s`);
  for (const way of ['received', 'sent']) t.ok(of(`${way}_bytes_total{sandbox="well"}`) > 0, way);
  const layerBytes = statSync(layer).blocks * 512;
  t.equal(of('layer_bytes{sandbox="well"}'), layerBytes);
  t.equal(of('layer_bytes{sandbox="rest"}'), 0, 'as many have series of their own as run');
  t.equal(of('layer_bytes{sandbox="dead"}'), -1);
  for (const level of ['resident_bytes', 'private_bytes'])
    t.ok(of(`${level}{sandbox="well"}`) > MIB && of(`${level}{sandbox="well"}`) < 2 ** 40, level);
  t.ok(of('resident_bytes{sandbox="well"}') > of('private_bytes{sandbox="well"}'));
  capacity = undefined;
  const later = await read(metrics);
  t.equal(
    later.get('sandboxd_sandboxes{state="running"}'),
    3,
    'all else is shown where the host cannot be read',
  );
});

t.test('a VMM is measured with its layer, and with its link if it has one', async (t) => {
  const layer = join(t.testdir(), 'layer');
  writeFileSync(layer, Buffer.alloc(8192, 1));
  const used = makeSandbox('sbx', layer);
  t.match(readVmUsage(used), { layerBytes: statSync(layer).blocks * 512, residentBytes: Number });
  t.notOk('network' in (readVmUsage(used) ?? {}));
  t.match(readVmUsage(makeSandbox('sbx', `${layer}-2`)), { layerBytes: 0 });
  const record = { network: { tap: 'lo' } };
  const counts = { receivedBytes: Number, receivedPackets: Number, sentBytes: Number, sentPackets: Number };
  t.match(readVmUsage(makeSandbox('sbx', layer, { record })), { network: counts });
  const exit = { reason: 'it ended' };
  t.equal(readVmUsage(makeSandbox('sbx', layer, { vm: { exit, identity: SELF } })), undefined);
  const gone = { pid: SELF.pid, startTicks: SELF.startTicks + 1 };
  t.equal(readVmUsage(makeSandbox('sbx', layer, { vm: { identity: gone } })), undefined);
});

t.test('starts are timed by origin, and pauses by purpose', async (t) => {
  const metrics = new Metrics();
  const listen = countLifecycleEvents(metrics);
  const born = { sandbox: 'sbx', rootfs: 'image', times: { totalMs: 4000 } } as const;
  t.equal(originOf({ ...born, kind: 'created', origin: 'boot' }), 'boot');
  t.equal(originOf({ ...born, kind: 'created', origin: 'saved' }), 'template');
  t.equal(originOf({ ...born, kind: 'forked', origin: 'saved' }), 'snapshot');
  listen({ ...born, kind: 'created', origin: 'boot' });
  listen({ ...born, kind: 'forked', origin: 'saved', times: {} });
  listen({ kind: 'snapshot-taken', sandbox: 'sbx', snapshot: 'snap', pausedMs: 250, totalMs: 9 });
  const made = { template: 'x', rootfs: 'base', hasNetwork: false, totalMs: 9 };
  listen({ ...made, kind: 'template-made', pausedMs: 500 });
  listen({ kind: 'deleted', sandbox: 'sbx' });
  const found = await read(metrics);
  const expected = {
    'life_events_total{kind="created"}': 1,
    'life_events_total{kind="forked"}': 1,
    'life_events_total{kind="deleted"}': 1,
    'sandbox_start_duration_seconds_sum{origin="boot",rootfs="image"}': 4,
    'sandbox_start_duration_seconds_count{origin="boot",rootfs="image"}': 1,
    'sandbox_start_duration_seconds_sum{origin="snapshot",rootfs="image"}': 0,
    'snapshot_pause_seconds_sum{what="snapshot"}': 0.25,
    'snapshot_pause_seconds_count{what="snapshot"}': 1,
    'snapshot_pause_seconds_sum{what="template"}': 0.5,
    'snapshot_pause_seconds_count{what="template"}': 1,
  };
  for (const [name, value] of Object.entries(expected)) t.equal(found.get(`sandboxd_${name}`), value, name);
  const pauses = [...found].filter(([name]) => name.startsWith('sandboxd_snapshot_pause_seconds_count'));
  t.equal(pauses.length, 2);
  const starts = [...found].filter(([name]) =>
    name.startsWith('sandboxd_sandbox_start_duration_seconds_count'),
  );
  t.equal(starts.length, 2, 'nothing else is a start');
});

t.test('commands are counted by how they end', async (t) => {
  const counts = new CommandCounts();
  const events: ExecEvents = { output: () => undefined, exit: () => undefined };
  const exits: ExecEvents[] = [];
  const session = {} as ExecSession;
  const start = (given: ExecEvents): ExecSession => {
    exits.push(given);
    return session;
  };
  for (let n = 0; n < 3; n++) t.equal(counts.track(events, start), session);
  t.throws(() =>
    counts.track(events, () => {
      throw new Error('lost');
    }),
  );
  t.equal(counts.attached, 3);
  exits[0]?.exit({ exitCode: 0, durationMs: 1 });
  exits[1]?.exit({ exitCode: -1, durationMs: 1, error: 'gone', isLost: true });
  const end = { exitCode: -1, durationMs: 1 };
  counts.count('detached', { ...end, signal: 'SIGKILL', timedOut: true });
  counts.count('detached', { ...end, signal: 'SIGKILL', oomKilled: true });
  counts.count('detached', { ...end, signal: 'SIGTERM' });
  counts.count('detached', { ...end, error: 'not found' });
  for (let n = 0; n < 2; n++) counts.count('detached', { ...end, exitCode: 3 });
  counts.count('detached', undefined);
  t.equal(counts.attached, 1);
  t.same(
    counts.ended.map(({ kind, outcome, count }) => `${kind} ${outcome} ${count}`),
    [
      'attached exited 1',
      'attached lost 1',
      'detached timed-out 1',
      'detached out-of-memory 1',
      'detached signalled 1',
      'detached not-started 1',
      'detached failed 2',
      'detached lost 1',
    ],
  );
});
