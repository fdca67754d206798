// First step of the start: the daemon's directories, the registry in them, its API keys, the audit trail, and the
// journal of events with its subscribers.
import { join } from 'node:path';
import type { Logger } from 'pino';
import about from '../../package.json' with { type: 'json' };
import { ANCHOR_TABLE, AUDIT_DIR, AuditTrail } from '../audit/index.ts';
import { type Config, formatListen, type ListenAddress } from '../config/index.ts';
import { Journal } from '../events/journal.ts';
import { AnswerRecords } from '../idempotency/index.ts';
import { KeyRegistry } from '../keys/index.ts';
import { readDescriptorLimit, shareDescriptors } from '../lib/descriptors.ts';
import { AppError } from '../lib/errors.ts';
import { lockDirectory } from '../lib/instance-lock.ts';
import { ensurePrivateDirectory } from '../lib/private-directory.ts';
import { Sealer } from '../lib/seal.ts';
import { Metrics, measureProcess } from '../metrics/metrics.ts';
import { LifecycleEvents, type StoredEvent } from '../sandboxes/lifecycle-events.ts';
import { logLifecycleEvents } from '../sandboxes/lifecycle-log.ts';
import { countLifecycleEvents } from '../sandboxes/metrics.ts';
import { Store } from '../store/store.ts';
import { openTelemetry, type Telemetry } from '../telemetry/index.ts';
import type { AppContext } from './context.ts';
import { findExposed, needsKeys } from './exposure.ts';
import { refuseWeakSettings } from './weak-settings.ts';

const KEY_POLL_MS = 2000;

export type OpenedStore = {
  readonly store: Store;
  readonly registryPath: string;
  readonly keys: KeyRegistry;
  readonly answers: AnswerRecords;
  /** Of records with secrets. */
  readonly sealer: Sealer;
  /** Undefined when the audit trail is off. */
  readonly audit: AuditTrail | undefined;
};

/** ConfigError or AppError conflict when the daemon must not start with these settings and keys. */
export async function openStore({ config, log, resources }: AppContext): Promise<OpenedStore> {
  for (const dir of [config.dataDir, config.runDir]) {
    const change = await ensurePrivateDirectory(dir);
    if (change !== undefined) log.warn(change);
    resources.use(await lockDirectory(dir));
  }
  const registryPath = join(config.dataDir, 'state.lmdb');
  const store = await Store.open(registryPath);
  resources.defer(() => store.close());
  const exposed = findExposed(config);
  const keys = new KeyRegistry(store, { isRequired: needsKeys(config) });
  // Nothing says any more which ones are revoked.
  if (config.fleet === undefined) await keys.setShared([]);
  if (exposed !== undefined && config.fleet === undefined) assertHasKey(exposed, keys);
  await keys.ensureMark();
  warnOfNoKeys(config, keys, log);
  refuseWeakSettings(config, keys.hasValidKey, log);
  const dir = join(config.dataDir, AUDIT_DIR);
  const audit =
    config.audit && new AuditTrail({ ...config.audit, dir, anchors: store.table(ANCHOR_TABLE), log });
  resources.defer(() => audit?.close());
  resources.use(followKeys(keys, audit, log));
  const answers = new AnswerRecords(store, log);
  resources.defer(() => answers.close());
  const { keyFile, sources } = config.secrets;
  const sealer = new Sealer({ dataDir: config.dataDir, keyFile, credentialsDir: sources.credentialsDir });
  resources.defer(() => sealer.close());
  return { store, registryPath, keys, answers, sealer, audit };
}

/** Copies key changes of commands to the audit trail, which only the daemon writes. */
function followKeys(keys: KeyRegistry, audit: AuditTrail | undefined, log: Logger): AsyncDisposable {
  const poll = (): Promise<void> =>
    keys
      .takeChanges(({ atMs, keyId, ...change }) =>
        audit?.write({ event: 'keys', ...change, key_id: keyId, changed_at: new Date(atMs).toISOString() }),
      )
      .catch((err: unknown) => log.warn({ err }, 'cannot read the key changes for the audit trail'));
  const timer = setInterval(() => void poll(), KEY_POLL_MS).unref();
  return {
    [Symbol.asyncDispose]: () => {
      clearInterval(timer);
      return poll();
    },
  };
}

// Checks at start: exposure without keys, and the descriptor limit.
/** AppError conflict while no key is required. */
function assertHasKey(listen: ListenAddress, keys: KeyRegistry): void {
  if (keys.hasValidKey) return;
  throw new AppError(
    'conflict',
    `${formatListen(listen)} can be reached from other machines, and there is no valid key; make one (\`sandboxd keys create <name>\`), or listen on 127.0.0.1, [::1] or unix:/path`,
  );
}

/** Logs at each start without keys whether all clients or none are accepted. */
export function warnOfNoKeys(
  { listen, requiresKeys, fleet }: Pick<Config, 'listen' | 'requiresKeys' | 'fleet'>,
  keys: KeyRegistry,
  log: Logger,
): void {
  if (keys.hasKeys) return;
  const makeOne = '`sandboxd keys create <name>` makes one, without a restart';
  const mark = keys.lostMark;
  if (mark !== undefined) {
    log.error(
      `keys existed before, but the registry has none: it was lost or replaced; no client is accepted until there is a key; ${makeOne}, or restore the registry from a backup; remove ${mark} to accept every client`,
    );
  } else if (keys.isClosed && !requiresKeys) {
    log.warn(`there are no keys: no client is accepted until the fleet has one; ${makeOne}`);
  } else if (keys.isClosed) {
    log.warn(`there are no keys, and require_keys is set: no client is accepted; ${makeOne}`);
  } else {
    const clients = 'path' in listen ? 'every user who can write to' : 'every client that can reach';
    const unless = fleet === undefined ? '' : ' unless the fleet has keys';
    log.warn(`there are no keys: ${clients} ${formatListen(listen)} has full access${unless}; ${makeOne}`);
  }
}

/** Reduces the limits of connections and sandboxes when the process may not open enough descriptors. */
export function splitDescriptors(
  { limits, maxConnections }: Config,
  log: Logger,
): Pick<Config, 'limits' | 'maxConnections'> {
  const descriptors = readDescriptorLimit();
  const wanted = { connections: maxConnections, sandboxes: limits.sandboxes };
  const { connections, sandboxes } = shareDescriptors(descriptors, wanted);
  if (connections < maxConnections || sandboxes < limits.sandboxes) {
    log.warn(
      `this process may have ${descriptors} descriptors: at most ${connections} clients may be connected, and ${sandboxes} sandboxes exist; raise its limit (LimitNOFILE of systemd, ulimit -n) for more`,
    );
  }
  return { limits: { ...limits, sandboxes }, maxConnections: connections };
}

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
