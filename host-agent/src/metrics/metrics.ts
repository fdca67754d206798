// All metrics of this daemon, by name. Label values are from fixed sets, never a client's text, so clients cannot
// create series.
import { Counter, Gauge, Histogram, type OpenMetricsContentType, Registry } from 'prom-client';

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
    'Time that a guest stood still to be saved',
    PAUSE_BUCKETS,
    ['what'],
  );

  readonly sleeps = this.histogram(
    'sandboxd_sleep_seconds',
    'Duration of pauses and resumes of sandboxes',
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
