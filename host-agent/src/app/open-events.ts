// Step of the start: the journal of lifecycle events, and its subscribers: log, metrics and telemetry.
import about from '../../package.json' with { type: 'json' };
import { Journal } from '../events/index.ts';
import { Metrics, measureProcess } from '../metrics/index.ts';
import { LifecycleEvents, logLifecycleEvents, type StoredEvent } from '../sandboxes/lifecycle-events.ts';
import { countLifecycleEvents } from '../sandboxes/measures.ts';
import type { Store } from '../store/store.ts';
import { openTelemetry, type Telemetry } from '../telemetry/index.ts';
import type { AppContext } from './context.ts';

export type OpenedEvents = {
  readonly journal: Journal<StoredEvent>;
  readonly events: LifecycleEvents;
  readonly metrics: Metrics;
  /** Undefined when no exporter is configured. */
  readonly telemetry: Telemetry | undefined;
};

export async function openEvents(
  { config, log, resources }: AppContext,
  store: Store,
): Promise<OpenedEvents> {
  const journal = await Journal.open<StoredEvent>(store, { ...config.events, log });
  resources.defer(() => journal.close());
  const events = new LifecycleEvents(journal, (err) =>
    log.error({ err }, 'cannot write a lifecycle event to the journal'),
  );
  events.subscribe(logLifecycleEvents(log));
  const metrics = new Metrics();
  resources.use(measureProcess(metrics, about.version));
  events.subscribe(countLifecycleEvents(metrics));
  const telemetry = await openTelemetry({ env: process.env, metrics, version: about.version, log });
  if (telemetry !== undefined) events.subscribe(telemetry.onLifeEvent);
  resources.defer(() => telemetry?.close());
  return { journal, events, metrics, telemetry };
}
