// Metrics of this module: lifecycle events, current counts, and usage of the top sandboxes.
import type PQueue from 'p-queue';
import type { Metrics } from '../metrics/metrics.ts';
import type { Admission, HostCapacity } from './admission.ts';
import type { CommandCounts } from './exec.ts';
import { type LabelledSandbox, measureLabels } from './label-metrics.ts';
import { type LifecycleListener, originOf } from './lifecycle-events.ts';
import { metadataOf } from './metadata.ts';
import type { SandboxState } from './record.ts';
import type { Sandbox } from './sandbox.ts';
import type { Sleep } from './sleep/sleep.ts';
import type { Snapshots } from './snapshots.ts';
import type { Sweeps } from './sweeps.ts';
import type { Templates } from './templates.ts';
import { type Gauges, type Row, TopUsage } from './vm-usage.ts';

export type MeasureOptions = {
  readonly source: SandboxMetricsSource;
  /** Number of sandboxes with series of their own. */
  readonly top: number;
  /** Keys of labels that metrics have; absent: none. */
  readonly labelKeys?: readonly string[];
  readonly readCapacity: () => Promise<HostCapacity>;
};

/** Counts lifecycle events. */
export function countLifecycleEvents(metrics: Metrics): LifecycleListener {
  return (event) => {
    metrics.lifeEvents.inc({ kind: event.kind });
    if (event.kind === 'created' || event.kind === 'forked')
      metrics.starts.observe(
        { origin: originOf(event), rootfs: event.rootfs },
        (event.times.totalMs ?? 0) / 1000,
      );
    if (event.kind === 'paused' || event.kind === 'resumed' || event.kind === 'rolled-back') {
      const what = { paused: 'pause', resumed: 'resume', 'rolled-back': 'rollback' }[event.kind];
      metrics.sleeps.observe({ what }, event.durationMs / 1000);
    }
    if (event.kind === 'snapshot-taken' || event.kind === 'template-made') {
      const what = event.kind === 'snapshot-taken' ? 'snapshot' : 'template';
      metrics.pauses.observe({ what }, event.pausedMs / 1000);
    }
  };
}

/** Gauges and counters that are read at each scrape. */
export function measureSandboxes(
  metrics: Metrics,
  { source, top, labelKeys = [], readCapacity }: MeasureOptions,
): void {
  const { startQueue, admission, templates, snapshots, sweeps, sleep, starting } = source;
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.series('gauge', name, help, [], () => [{ value: read() }]);

  metrics.series('gauge', 'sandboxd_sandboxes', 'Sandboxes that there are, by state', ['state'], () =>
    toReadings('state', countStates(source)),
  );
  gauge('sandboxd_starts_queued', 'Sandboxes that wait for their turn to be started', () => startQueue.size);
  gauge('sandboxd_starts_running', 'Sandboxes that are being started', () => startQueue.pending);
  gauge('sandboxd_creates_open', 'Requests that will add sandboxes', () => starting.size);
  gauge('sandboxd_sweeps', 'Deleted sandboxes of which something is left', () => sweeps.sandboxes.length);
  gauge('sandboxd_paused_bytes', 'Disk space of what pauses saved', () => sleep.storedBytes);
  gauge('sandboxd_published_ports', 'Ports of the host that lead to sandboxes', () =>
    [...source.sandboxes.values()].reduce(
      (sum, { record }) => sum + (record.options.publish?.length ?? 0),
      0,
    ),
  );
  gauge('sandboxd_snapshots', 'Snapshots that there are', () => snapshots.owners.length);
  const { stored } = snapshots;
  if (stored !== undefined) {
    gauge('sandboxd_snapshot_uploads_pending', 'Snapshots that wait for their upload', () => stored.pending);
    gauge(
      'sandboxd_snapshots_remote',
      'Snapshots that are only in the snapshot store',
      () => stored.remoteCount,
    );
    metrics.series(
      'counter',
      'sandboxd_snapshot_store_bytes_total',
      'Bytes that snapshots sent to the snapshot store, and that were fetched from there',
      ['direction'],
      () =>
        toReadings('direction', [
          ['sent', stored.counts.sentBytes],
          ['fetched', stored.counts.fetchedBytes],
        ]),
    );
    metrics.series(
      'counter',
      'sandboxd_snapshot_store_failures_total',
      'Uploads and deletes that failed and are tried again',
      [],
      () => [{ value: stored.counts.failures }],
    );
  }
  let snapshotBytes = 0;
  metrics.before(async () => {
    snapshotBytes = await snapshots.diskBytes();
  });
  gauge(
    'sandboxd_snapshot_bytes',
    'Disk space of snapshots, with what their files share counted for each',
    () => {
      return snapshotBytes;
    },
  );
  gauge('sandboxd_templates', 'Templates that creates can be copies of', () => templates.count);
  metrics.series(
    'counter',
    'sandboxd_template_lookups_total',
    'Creates by whether a template was there (hit), was made first (made) or could not be had (none)',
    ['result'],
    () => toReadings('result', Object.entries(templates.lookups)),
  );
  metrics.series(
    'counter',
    'sandboxd_admission_refusals_total',
    'Requests that the host had no capacity for, by what was short',
    ['what'],
    () => toReadings('what', admission.refusals),
  );

  measureCommands(metrics, source);
  measurePorts(metrics, source.commandCounts);

  let capacity: HostCapacity | undefined;
  metrics.before(async () => {
    capacity = await readCapacity().catch(() => undefined);
  });
  const ofCapacity = (name: string, help: string, key: keyof HostCapacity): void =>
    metrics.series('gauge', name, help, [], () => (capacity === undefined ? [] : [{ value: capacity[key] }]));
  ofCapacity(
    'sandboxd_host_memory_bytes',
    'Memory of the host, as far as the daemon may use it',
    'memoryTotalBytes',
  );
  ofCapacity(
    'sandboxd_host_memory_available_bytes',
    'What of it can be had without swapping',
    'memoryAvailableBytes',
  );
  ofCapacity('sandboxd_data_free_bytes', 'Free space in the data directory', 'diskFreeBytes');
  gauge('sandboxd_memory_promised_bytes', 'Memory of all guests that run, were they to use it all', () =>
    [...source.sandboxes.values()].reduce((sum, each) => sum + promised(each), 0),
  );
  const usage = new TopUsage(() => source.sandboxes.values(), top);
  measureUsage(metrics, usage);
  measureLabels(metrics, {
    keys: labelKeys,
    sandboxes: () => source.sandboxes.values().map(toLabelled),
    top: () => usage.rows.map(({ sandbox }) => sandbox),
  });
}

function measureCommands(metrics: Metrics, { sandboxes, commandCounts }: SandboxMetricsSource): void {
  metrics.series('gauge', 'sandboxd_commands_running', 'Commands that run in sandboxes', ['kind'], () => {
    const detached = [...sandboxes.values()].reduce(
      (sum, each) => sum + (each.running?.detachedCommands ?? 0),
      0,
    );
    return toReadings('kind', Object.entries({ attached: commandCounts.attached, detached }));
  });
  metrics.series(
    'counter',
    'sandboxd_commands_ended_total',
    'Commands that have ended, by how',
    ['kind', 'outcome'],
    () =>
      commandCounts.ended.map(({ kind, outcome, count }) => ({ labels: { kind, outcome }, value: count })),
  );
}

function measurePorts(metrics: Metrics, { ports }: CommandCounts): void {
  const one = (value: () => number) => () => [{ labels: {}, value: value() }];
  const open = 'Connections to ports of sandboxes through their agents';
  metrics.series(
    'gauge',
    'sandboxd_port_connections',
    open,
    [],
    one(() => ports.open),
  );
  metrics.series(
    'counter',
    'sandboxd_port_bytes_total',
    'Bytes of connections to ports that have ended, by direction',
    ['direction'],
    () => toReadings('direction', Object.entries({ received: ports.receivedBytes, sent: ports.sentBytes })),
  );
}

function measureUsage(metrics: Metrics, board: TopUsage): void {
  metrics.before(() => board.refresh());
  const each = (value: (row: Row) => number) => () =>
    board.rows.map((row) => ({ labels: { sandbox: row.sandbox }, value: value(row) }));
  const LABELS = ['sandbox'] as const;
  const counter = (name: string, help: string, value: (row: Row) => number): void =>
    metrics.series('counter', `sandboxd_vm_${name}_total`, help, LABELS, each(value));
  const perSandbox = (name: string, help: string, key: keyof Gauges): void =>
    metrics.series(
      'gauge',
      `sandboxd_vm_${name}`,
      help,
      LABELS,
      each(({ gauges }) => gauges[key]),
    );
  counter('cpu_seconds', 'CPU time of the VMM', ({ counters }) => counters.cpuMs / 1000);
  counter('read_bytes', 'Bytes that storage was read for the VMM', ({ counters }) => counters.readBytes);
  counter(
    'written_bytes',
    'Bytes that storage was written for the VMM',
    ({ counters }) => counters.writtenBytes,
  );
  counter('received_bytes', 'Bytes that came to the guest', ({ counters }) => counters.receivedBytes);
  counter('sent_bytes', 'Bytes that the guest sent', ({ counters }) => counters.sentBytes);
  perSandbox('resident_bytes', 'Memory of the VMM that is present, shared parts included', 'residentBytes');
  perSandbox('private_bytes', 'Memory of the VMM that is its own alone', 'privateBytes');
  perSandbox('layer_bytes', 'Space that the writable layer takes', 'layerBytes');
}

function toLabelled(sandbox: Sandbox): LabelledSandbox {
  return { id: sandbox.id, state: stateOf(sandbox), labels: metadataOf(sandbox.record).labels };
}

function countStates({ sandboxes, sweeps }: SandboxMetricsSource): [string, number][] {
  const counts = { running: 0, hung: 0, pausing: 0, paused: 0, resuming: 0, failed: 0, deleting: 0 };
  for (const sandbox of sandboxes.values()) counts[stateOf(sandbox)] += 1;
  counts.deleting += sweeps.sandboxes.length;
  return Object.entries(counts);
}

function stateOf({ state, running }: Sandbox): Exclude<SandboxState, 'deleted'> | 'hung' {
  if (state === 'deleted') return 'deleting';
  if (state !== 'running') return state;
  return running?.hangReason === undefined ? 'running' : 'hung';
}

function promised({ state, record }: Sandbox): number {
  return state === 'running' || state === 'pausing' ? record.options.memoryMib * 2 ** 20 : 0;
}

function toReadings(label: string, counts: Iterable<readonly [string, number]>) {
  return [...counts].map(([name, value]) => ({ labels: { [label]: name }, value }));
}

export type SandboxMetricsSource = {
  readonly sandboxes: ReadonlyMap<string, Sandbox>;
  readonly snapshots: Pick<Snapshots, 'owners' | 'diskBytes' | 'stored'>;
  readonly templates: Pick<Templates, 'count' | 'lookups'>;
  readonly admission: Pick<Admission, 'refusals'>;
  /** Starts in progress and queued starts. */
  readonly startQueue: Pick<PQueue, 'size' | 'pending'>;
  /** Requests in progress that will add sandboxes. */
  readonly starting: { readonly size: number };
  readonly sweeps: Pick<Sweeps, 'sandboxes'>;
  readonly sleep: Pick<Sleep, 'storedBytes'>;
  readonly commandCounts: CommandCounts;
};
