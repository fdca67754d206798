// All metrics of this daemon, by name. Label values are from fixed sets, never a client's text, so clients cannot
// create series; those of chosen labels of sandboxes are bounded (sandboxes/label-metrics.ts).
import { readdir, stat } from 'node:fs/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Counter, Gauge, Histogram, type OpenMetricsContentType, Registry } from 'prom-client';
import { readDescriptorLimit } from '../lib/descriptors.ts';

type RequestResult = 'ok' | 'refused' | 'failed';

/** Seconds: from an answer out of memory to a boot on a busy host. */
const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 120];
const START_BUCKETS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
const PAUSE_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];

/** Names and values of labels. */
export type Labels = Readonly<Record<string, string>>;

/** One value of a family that is read on demand. */
type Reading = { readonly labels?: Labels; readonly value: number };

export class Metrics {
  readonly #registry = makeRegistry();
  /** Run before each exposition. */
  readonly #refreshers: (() => Promise<void> | void)[] = [];
  #rendering: Promise<string> | undefined;

  readonly #requests = this.counter(
    'sandboxd_requests_total',
    'Requests that were answered, by operation of the interface and status',
    ['operation', 'status'],
  );
  readonly #durations = this.histogram(
    'sandboxd_request_duration_seconds',
    'Time to the end of the answer, of streams included',
    REQUEST_BUCKETS,
    ['operation', 'result'],
  );
  readonly open = this.gauge('sandboxd_requests_open', 'Requests whose answer has not ended', ['operation']);
  readonly lifeEvents = this.counter(
    'sandboxd_life_events_total',
    'What happened to sandboxes, snapshots and templates, by kind',
    ['kind'],
  );
  readonly starts = this.histogram(
    'sandboxd_sandbox_start_duration_seconds',
    'Time to make a sandbox, once it is its turn, by what it came from and its root filesystem',
    START_BUCKETS,
    ['origin', 'rootfs'],
  );
  readonly pauses = this.histogram(
    'sandboxd_snapshot_pause_seconds',
    'Time that a guest was paused to be saved',
    PAUSE_BUCKETS,
    ['what'],
  );

  readonly sleeps = this.histogram(
    'sandboxd_sleep_seconds',
    'Duration of pauses, resumes and rollbacks of sandboxes',
    START_BUCKETS,
    ['what'],
  );

  /** Content type of the exposition. */
  get contentType(): string {
    return this.#registry.contentType;
  }

  /** Renders the exposition; concurrent callers share one run. */
  render(): Promise<string> {
    this.#rendering ??= this.#render().finally(() => {
      this.#rendering = undefined;
    });
    return this.#rendering;
  }

  /** The families in prom-client's format, for another exporter. */
  async read(): ReturnType<Registry['getMetricsAsJSON']> {
    for (const refresh of this.#refreshers) await refresh();
    return this.#registry.getMetricsAsJSON();
  }

  async #render(): Promise<string> {
    for (const refresh of this.#refreshers) await refresh();
    return this.#registry.metrics();
  }

  answered(operation: string, status: number, seconds: number): void {
    const result: RequestResult = status < 400 ? 'ok' : status < 500 ? 'refused' : 'failed';
    this.#requests.inc({ operation, status });
    this.#durations.observe({ operation, result }, seconds);
  }

  /** Registers a callback that runs before each exposition and updates values. It must neither throw nor take long. */
  before(refresh: () => Promise<void> | void): void {
    this.#refreshers.push(refresh);
  }

  counter<L extends string>(name: string, help: string, labelNames: readonly L[] = []): Counter<L> {
    return new Counter({ name, help, labelNames: [...labelNames], registers: [this.#registry] });
  }

  gauge<L extends string>(name: string, help: string, labelNames: readonly L[] = []): Gauge<L> {
    return new Gauge({ name, help, labelNames: [...labelNames], registers: [this.#registry] });
  }

  histogram<L extends string>(
    name: string,
    help: string,
    buckets: readonly number[],
    labelNames: readonly L[] = [],
  ): Histogram<L> {
    return new Histogram({
      name,
      help,
      buckets: [...buckets],
      labelNames: [...labelNames],
      registers: [this.#registry],
    });
  }

  /** Registers series whose values are read at each exposition. A counter's values must never decrease. */
  series(
    kind: 'counter' | 'gauge',
    name: string,
    help: string,
    labelNames: readonly string[],
    read: () => Iterable<Reading>,
  ): void {
    const family =
      kind === 'counter' ? this.counter(name, help, labelNames) : this.gauge(name, help, labelNames);
    this.before(() => {
      family.reset();
      for (const { labels = {}, value } of read())
        if (value !== 0 || kind === 'gauge') family.inc(labels, value);
    });
  }
}

function makeRegistry(): Registry<OpenMetricsContentType> {
  const registry = new Registry<OpenMetricsContentType>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  return registry;
}

type HostOptions = {
  readonly registryPath: string;
  /** User ids of VMMs; absent: VMMs have none of their own. */
  readonly users?: { readonly leasesDir: string; readonly count: number } | undefined;
  readonly usedNetworks: () => number;
  /** By verdict and protocol. */
  readonly egressCounts: () => Iterable<Reading>;
  /** By form. */
  readonly secretCounts: () => Iterable<Reading>;
  readonly countPublished: () => Promise<number>;
};

export function measureHost(metrics: Metrics, options: HostOptions): void {
  const { registryPath, users, usedNetworks, egressCounts, secretCounts, countPublished } = options;
  let registryBytes = 0;
  let published = 0;
  let usedUsers = 0;
  metrics.before(async () => {
    registryBytes = (await stat(registryPath).catch(() => undefined))?.size ?? registryBytes;
    published = await countPublished().catch(() => published);
    if (users !== undefined) usedUsers = (await readdir(users.leasesDir).catch(() => [])).length;
  });
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.series('gauge', name, help, [], () => [{ value: read() }]);
  gauge('sandboxd_registry_bytes', 'Size of the registry file', () => registryBytes);
  gauge('sandboxd_networks_used', 'Networks that sandboxes have', usedNetworks);
  metrics.series(
    'counter',
    'sandboxd_egress_total',
    'Connections and names that guests were allowed and denied',
    ['verdict', 'protocol'],
    egressCounts,
  );
  metrics.series(
    'counter',
    'sandboxd_secret_requests_total',
    'Requests that had the value of a secret, by where it was',
    ['form'],
    secretCounts,
  );
  gauge('sandboxd_published_connections', 'Open connections to published ports', () => published);
  if (users === undefined) return;
  gauge('sandboxd_jail_users_used', 'Users of the host that VMMs have', () => usedUsers);
  gauge('sandboxd_jail_users', 'Users of the host that there are for VMMs', () => users.count);
}

// Metrics of the daemon's own process: CPU time, memory, descriptors, and event loop delay.
const DELAY_STEP_MS = 20;
const QUANTILES = [50, 99] as const;
const NS = 1e9;

/** The event loop delay is measured only after the first request for it, as that needs a timer. */
export function measureProcess(metrics: Metrics, version: string): Disposable {
  let delays: ReturnType<typeof monitorEventLoopDelay> | undefined;
  let openFds = 0;
  const limit = readDescriptorLimit();
  let delay = { p50: 0, p99: 0, max: 0 };

  metrics.before(async () => {
    openFds = (await readdir('/proc/self/fd').catch(() => [])).length;
    if (delays === undefined) {
      delays = monitorEventLoopDelay({ resolution: DELAY_STEP_MS });
      delays.enable();
      return;
    }
    const [p50 = 0, p99 = 0] = QUANTILES.map((quantile) => toDelay(delays?.percentile(quantile)));
    delay = { p50, p99, max: toDelay(delays.max) };
    delays.reset();
  });
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.series('gauge', name, help, [], () => [{ value: read() }]);
  metrics.series('gauge', 'sandboxd_build_info', 'What runs', ['version', 'node'], () => [
    { labels: { version, node: process.version }, value: 1 },
  ]);
  metrics.series(
    'gauge',
    'sandboxd_event_loop_delay_seconds',
    'How late the event loop was since the last scrape',
    ['quantile'],
    () => Object.entries(delay).map(([quantile, value]) => ({ labels: { quantile }, value })),
  );
  metrics.series('counter', 'process_cpu_seconds_total', 'CPU time of the daemon itself', [], () => {
    const { user, system } = process.cpuUsage();
    return [{ value: (user + system) / 1e6 }];
  });
  gauge('process_resident_memory_bytes', 'Memory of the daemon itself', () => process.memoryUsage.rss());
  gauge(
    'process_start_time_seconds',
    'When the daemon began, Unix time',
    () => performance.timeOrigin / 1000,
  );
  gauge('process_open_fds', 'Descriptors that the daemon has open', () => openFds);
  if (Number.isFinite(limit)) gauge('process_max_fds', 'Descriptors that it may have', () => limit);
  return { [Symbol.dispose]: () => delays?.disable() };
}

/** The timer's own resolution does not count as delay. */
function toDelay(ns = 0): number {
  return Number.isFinite(ns) ? Math.max(0, ns / NS - DELAY_STEP_MS / 1000) : 0;
}
