// The gateway's own metrics. It answers for no sandbox itself: what guests and hosts do is in the metrics of hosts.
import { monitorEventLoopDelay, performance } from 'node:perf_hooks';
import { Counter, Gauge, Histogram, type OpenMetricsContentType, Registry } from 'prom-client';
import { isAppError } from '../../../lib/errors.ts';
import { VERSION } from '../../../lib/version.ts';
import { type Catalogue, ClaimTaken, type FleetMap } from '../../catalogue.ts';

const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 120];
const PLACE_BUCKETS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const DELAY_STEP_MS = 20;
const NS = 1e9;
const PREFIX = 'sandboxd_gateway_';

export type GatewaySources = {
  readonly map: FleetMap;
  readonly eventStreams: () => number;
};

export class GatewayMetrics implements Disposable {
  readonly #registry = makeRegistry();
  readonly #delays = monitorEventLoopDelay({ resolution: DELAY_STEP_MS });
  readonly #requests = new Counter({
    ...this.#named('requests_total', 'Requests that were answered, by operation of the interface and status'),
    labelNames: ['operation', 'status'],
  });
  readonly #durations = new Histogram({
    ...this.#named('request_duration_seconds', 'Time to the end of the answer, of streams included'),
    labelNames: ['operation'],
    buckets: REQUEST_BUCKETS,
  });
  readonly #open = new Gauge(this.#named('requests_open', 'Requests whose answer has not ended'));
  readonly #tunnels = new Gauge(this.#named('tunnels_open', 'Connections that were taken over by a host'));
  readonly #places = new Histogram({
    ...this.#named('place_duration_seconds', 'Time to a place for a sandbox, which a create waits for'),
    labelNames: ['result'],
    buckets: PLACE_BUCKETS,
  });
  /** Of clients; set by who listens. */
  connections: () => number = () => 0;

  constructor({ map, eventStreams }: GatewaySources) {
    const read = (name: string, help: string, value: () => number): void => {
      const gauge: Gauge = new Gauge({ ...this.#named(name, help), collect: () => gauge.set(value()) });
    };
    read('places', 'Sandboxes that have a place in the fleet', () => map.size);
    read('hosts', 'Hosts of the fleet', () => map.hosts().length);
    read('hosts_ready', 'Hosts that the engine hears from', () => countReady(map));
    read('engine_connected', 'Whether the gateway follows the engine', () => Number(map.isCurrent));
    read('event_streams', 'Streams of events that clients have open', eventStreams);
    read('connections', 'Connections that clients have open', () => this.connections());
    read('memory_bytes', 'Memory of the gateway', () => process.memoryUsage.rss());
    read('start_time_seconds', 'When it began, Unix time', () => performance.timeOrigin / 1000);
    this.#measureCpu();
    this.#measureDelay();
    const info = new Gauge({ ...this.#named('build_info', 'What runs'), labelNames: ['version', 'node'] });
    info.set({ version: VERSION, node: process.version }, 1);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  render(): Promise<string> {
    return this.#registry.metrics();
  }

  /** `response` emits `close` in every case. */
  began(
    response: { readonly statusCode: number; once(event: 'close', listener: () => void): unknown },
    operation: string,
  ): void {
    const startedAtMs = performance.now();
    this.#open.inc();
    response.once('close', () => {
      this.#open.dec();
      this.#requests.inc({ operation, status: response.statusCode });
      this.#durations.observe({ operation }, (performance.now() - startedAtMs) / 1000);
    });
  }

  tunnelled(socket: { once(event: 'close', listener: () => void): unknown }): void {
    this.#tunnels.inc();
    socket.once('close', () => this.#tunnels.dec());
  }

  /** The same one, with the time of each place. */
  watch(catalogue: Catalogue): Catalogue {
    return {
      restore: (parked, signal) => catalogue.restore(parked, signal),
      join: (place, signal) => catalogue.join(place, signal),
      forget: (place, how) => catalogue.forget(place, how),
      claim: (claim, place, signal) => catalogue.claim(claim, place, signal),
      unclaim: (claim, place) => catalogue.unclaim(claim, place),
      find: (id, tenant, signal) => catalogue.find(id, tenant, signal),
      watch: (signal) => catalogue.watch(signal),
      place: async (request, signal) => {
        const startedAtMs = performance.now();
        let result = 'placed';
        try {
          return await catalogue.place(request, signal);
        } catch (error) {
          result = resultOf(error);
          throw error;
        } finally {
          this.#places.observe({ result }, (performance.now() - startedAtMs) / 1000);
        }
      },
    };
  }

  [Symbol.dispose](): void {
    this.#delays.disable();
  }

  #named(name: string, help: string) {
    return { name: `${PREFIX}${name}`, help, registers: [this.#registry] };
  }

  #measureCpu(): void {
    const counter: Counter = new Counter({
      ...this.#named('cpu_seconds_total', 'CPU time of the gateway'),
      collect: () => {
        const { user, system } = process.cpuUsage();
        counter.reset();
        counter.inc((user + system) / 1e6);
      },
    });
  }

  /** From one scrape to the next. */
  #measureDelay(): void {
    this.#delays.enable();
    const gauge: Gauge<'quantile'> = new Gauge({
      ...this.#named('event_loop_delay_seconds', 'How late its event loop was since the last scrape'),
      labelNames: ['quantile'] as const,
      collect: () => {
        gauge.set({ quantile: 'p50' }, toDelay(this.#delays.percentile(50)));
        gauge.set({ quantile: 'p99' }, toDelay(this.#delays.percentile(99)));
        gauge.set({ quantile: 'max' }, toDelay(this.#delays.max));
        this.#delays.reset();
      },
    });
  }
}

function makeRegistry(): Registry<OpenMetricsContentType> {
  const registry = new Registry<OpenMetricsContentType>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  return registry;
}

function countReady(map: FleetMap): number {
  return map.hosts().filter(({ isReady }) => isReady).length;
}

/** Another sandbox has the name or key; the quota is used up; the engine or all hosts are busy. */
function resultOf(error: unknown): 'claimed' | 'forbidden' | 'exhausted' | 'failed' {
  if (error instanceof ClaimTaken) return 'claimed';
  if (!isAppError(error)) return 'failed';
  return error.code === 'forbidden' || error.code === 'exhausted' ? error.code : 'failed';
}

function toDelay(ns: number): number {
  return Number.isFinite(ns) ? Math.max(0, ns / NS - DELAY_STEP_MS / 1000) : 0;
}
