// Metrics of what the daemon uses: its process, and host resources (user ids, networks, the registry).
import { readdir, stat } from 'node:fs/promises';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { readDescriptorLimit } from '../lib/descriptors.ts';
import type { Metrics } from './metrics.ts';

export type HostOptions = {
  readonly registryPath: string;
  /** User ids of VMMs; absent: VMMs have none of their own. */
  readonly users?: { readonly leasesDir: string; readonly count: number } | undefined;
  readonly usedNetworks: () => number;
};

export function measureHost(metrics: Metrics, { registryPath, users, usedNetworks }: HostOptions): void {
  let registryBytes = 0;
  let usedUsers = 0;
  metrics.before(async () => {
    registryBytes = (await stat(registryPath).catch(() => undefined))?.size ?? registryBytes;
    if (users !== undefined) usedUsers = (await readdir(users.leasesDir).catch(() => [])).length;
  });
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.series('gauge', name, help, [], () => [{ value: read() }]);
  gauge('sandboxd_registry_bytes', 'Size of the registry file', () => registryBytes);
  gauge('sandboxd_networks_used', 'Networks that sandboxes have', usedNetworks);
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
