// Composes the modules of the daemon. Starts them in order and stops them in reverse order.
import { cpus } from 'node:os';
import { join } from 'node:path';
import { ensureAgentImage, resolveKernel, seedKernel } from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import about from '../package.json' with { type: 'json' };
import { refuseCareless } from './app/careless.ts';
import { refuseExchangeable } from './app/exchangeable.ts';
import { followKeys } from './app/follow-keys.ts';
import type { Helpers } from './app/helpers.ts';
import { assertNotExposed, splitDescriptors, warnOfNoKeys } from './app/reach.ts';
import { ANCHOR_TABLE, AUDIT_DIR, AuditTrail } from './audit/index.ts';
import { type Config, formatListen, type ListenAddress } from './config/index.ts';
import { EngineChoice } from './engines/choice.ts';
import { makeAdopters, makeEngines } from './engines/index.ts';
import { type Isolation, openIsolation } from './engines/isolation.ts';
import { confine } from './engines/jail/confine.ts';
import { LEASES_DIR, leaseUsers } from './engines/jail/uid-leases.ts';
import { Journal } from './events/index.ts';
import {
  Authenticator,
  Certificate,
  createHttpApp,
  createMetricsApp,
  HttpServer,
  type HttpServices,
  NO_AUDIT,
} from './http/index.ts';
import { Bakery } from './images/bakery.ts';
import { type ConverterOptions, type ImageRecord, openImages, RootfsFinder } from './images/index.ts';
import { Profiles } from './images/profiles.ts';
import { agentRootfs } from './images/rootfs-source.ts';
import { KeyRegistry } from './keys/index.ts';
import { AppError } from './lib/errors.ts';
import { type Faults, NO_FAULTS } from './lib/faults.ts';
import { lockDirectory } from './lib/instance-lock.ts';
import { keepAlive, lazy } from './lib/lazy.ts';
import { ensurePrivateDirectory } from './lib/private-directory.ts';
import { LogStore } from './logs/index.ts';
import { Metrics, measureHost, measureProcess } from './metrics/index.ts';
import { findOrdinaryPorts, type HostSideRecord, HostUpstream, Network } from './network/index.ts';
import { readHostCapacity } from './sandboxes/host-capacity.ts';
import { LifecycleEvents, logLifecycleEvents } from './sandboxes/lifecycle-events.ts';
import { SandboxManager } from './sandboxes/manager.ts';
import { countLifecycleEvents, measureSandboxes } from './sandboxes/measures.ts';
import type { SandboxRecord } from './sandboxes/record.ts';
import type { SnapshotRecord } from './sandboxes/snapshots.ts';
import type { StoredEvent } from './sandboxes/stored-event.ts';
import { Store } from './store/store.ts';
import { openTelemetry } from './telemetry/index.ts';
import { Dispatcher, WebhookRegistry } from './webhooks/index.ts';

/** More parallel starts would only slow each other down. */
const MAX_CONCURRENT_STARTS = 4;
/** Of the listener that serves metrics only. */
const METRICS_CONNECTIONS = 64;

export interface App {
  /** Resolves with the address that the daemon listens on. A failed start releases everything it acquired. */
  start(): Promise<ListenAddress>;
  /**
   * Graceful shutdown: waits for running requests up to the configured time, or until `hurry` aborts, and then stops
   * everything.
   */
  stop(hurry?: AbortSignal): Promise<void>;
  /** Reloads the TLS certificate; false without TLS. */
  reload(): boolean;
}

/** `faults` are injected by tests. */
export function createApp(config: Config, log: Logger, helpers: Helpers, faults: Faults = NO_FAULTS): App {
  const resources = new AsyncDisposableStack();
  const starting = new AbortController();
  const draining = new AbortController();
  let hurry: AbortSignal | undefined;
  let started: Promise<ListenAddress> | undefined;
  let certificate: Certificate | undefined;

  const open = async (): Promise<ListenAddress> => {
    await refuseExchangeable(config, log);
    const { limits, maxConnections } = splitDescriptors(config, log);
    const directories = { dataDir: config.dataDir, runDir: config.runDir };
    for (const dir of Object.values(directories)) {
      const change = await ensurePrivateDirectory(dir);
      if (change !== undefined) log.warn(change);
      resources.use(await lockDirectory(dir));
    }
    const registryPath = join(config.dataDir, 'state.lmdb');
    const store = await Store.open(registryPath);
    resources.defer(() => store.close());
    const keys = new KeyRegistry(store, { isRequired: config.requiresKeys });
    assertNotExposed(config, keys);
    await keys.ensureMark();
    warnOfNoKeys(config, keys, log);
    refuseCareless(config, keys.hasValidKey, log);
    const audit =
      config.audit &&
      new AuditTrail({
        ...config.audit,
        dir: join(config.dataDir, AUDIT_DIR),
        anchors: store.table(ANCHOR_TABLE),
        log,
      });
    resources.defer(() => audit?.close());
    resources.use(followKeys(keys, audit, log));
    certificate = config.tls && new Certificate(config.tls, log);

    const jail = config.jail && {
      ...config.jail,
      program: helpers.jail,
      cgroups: { ...config.jail.cgroups, dir: config.dataDir },
    };
    const isolation = await openIsolation({ jail, isRequired: config.requiresIsolation, log });
    if (helpers.kernel !== undefined) await seedKernel(config.dataDir, helpers.kernel);
    const kernel = await resolveKernel(config.dataDir, {
      KERNEL: config.kernelPath,
      INITRD: config.initramfsPath,
    });
    const scratchDir = join(config.runDir, 'probe');
    const engineContext = {
      kernelPath: kernel.vmlinuxPath,
      initramfsPath: kernel.initramfsPath,
      scratchDir,
      forkMemory: config.forkMemory,
      probeTimeoutMs: config.probeTimeoutMs,
      jail: isolation.jail,
      claimProgram: helpers.claim,
      memfdProgram: helpers.memfd,
      log,
    };
    const engines = await EngineChoice.open(
      {
        engines: makeEngines(config.engine, engineContext, config.enginePrograms).filter(
          ({ isEmulation }) => !(isEmulation && config.requiresIsolation),
        ),
        kernel,
        cacheDir: join(config.dataDir, 'engines'),
        scratchDir,
        log,
      },
      starting.signal,
    );
    resources.use(engines);
    const bakery = config.bakesOnDemand
      ? new Bakery({ dataDir: config.dataDir, agentDir: helpers.agent, npmDir: helpers.npm, log })
      : undefined;
    resources.defer(() => bakery?.stop());
    const profiles = new Profiles(config.dataDir, bakery);
    const images =
      config.images &&
      (await openImages({
        dataDir: config.dataDir,
        records: store.table<ImageRecord>('images'),
        maxBytes: config.images.diskBytes,
        allowedDirs: config.images.allowedDirs,
        converter: {
          runtime: helpers.runtime,
          script: helpers.converter,
          confine: jailOf(isolation),
        },
        faults,
        log,
      }));
    resources.defer(() => images?.stop());
    const logs =
      config.sandboxLogs && new LogStore({ ...config.sandboxLogs, dir: join(config.dataDir, 'logs'), log });
    resources.defer(() => logs?.stop());
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
    const network = await Network.open({
      ...config.network,
      upstream: new HostUpstream(config.network.dnsServers),
      runDir: config.runDir,
      records: store.table<HostSideRecord>('network'),
      program: helpers.netd,
      portProgram: helpers.portd,
      portUsers: leaseUsers(config.uids),
      log,
    });
    resources.defer(() => network.close());
    const { publishPorts } = config;
    const agentImage = lazy(() => ensureAgentImage(config.dataDir, helpers.agent, kernel));
    const sandboxes = new SandboxManager({
      network,
      events,
      engines,
      adopters: makeAdopters(engineContext, config.enginePrograms),
      faults,
      kernel,
      agentRootfs: async () => agentRootfs(await agentImage()),
      directories,
      records: store.table<SandboxRecord>('sandboxes'),
      bootTimeoutMs: config.bootTimeoutMs,
      pidsLimit: config.pidsLimit,
      roots: new RootfsFinder({ profiles, images, agentPath: async () => (await agentImage()).path }),
      defaults: config.defaults,
      limits,
      logs,
      snapshotRecords: store.table<SnapshotRecord>('snapshots'),
      reservesDisks: config.reservesDisks,
      templateBudgetBytes: config.templateBudgetBytes,
      admission: config.admission,
      quotaOf: (tenant) => keys.quotaOf(tenant),
      publishPorts: publishPorts.length > 0 ? publishPorts : findOrdinaryPorts(),
      watchdogTimeoutMs: config.watchdogTimeoutMs,
      maxConcurrentStarts: MAX_CONCURRENT_STARTS,
      log,
    });
    starting.signal.throwIfAborted();
    await sandboxes.start();
    const webhooks = new Dispatcher({ registry: new WebhookRegistry(store), journal, log });
    resources.defer(() => webhooks.stop());
    measureSandboxes(metrics, {
      source: sandboxes.metricsSource,
      top: config.metrics.topSandboxes,
      readCapacity: () => readHostCapacity(config.dataDir),
    });
    measureHost(metrics, {
      registryPath,
      users: config.jail && { leasesDir: LEASES_DIR, count: config.uids.count },
      usedNetworks: () => network.usedSlots,
    });

    const authenticator = new Authenticator(keys, log);
    const services: HttpServices = {
      log,
      metrics,
      telemetry,
      events: journal,
      authenticator,
      audit: audit ?? NO_AUDIT,
      sandboxes,
      images,
      logs,
      stopping: draining.signal,
      limits: { ...limits, hostCpus: cpus().length },
      listProfiles: async () =>
        (await profiles.list()).map((profile) => ({
          ...profile,
          isDefault: profile.name === config.defaults.profile,
        })),
      listUnbakedProfiles: async () =>
        (await profiles.listUnbaked()).map((name) => ({ name, isDefault: name === config.defaults.profile })),
      engine: () => ({
        name: engines.current.name,
        accelerator: engines.current.accelerator,
        version: engines.version,
        reason: engines.reason,
        tried: engines.tried,
        jail: isolation.report,
      }),
    };
    const serving = {
      log,
      authenticator,
      audit: audit ?? NO_AUDIT,
      allowedHosts: config.allowedHosts,
      certificate,
    };
    const { corsOrigins } = config;
    const server = new HttpServer({
      ...serving,
      app: createHttpApp(services),
      corsOrigins,
      maxConnections,
      clientShare: {
        connections: config.maxConnectionsPerClient ?? Math.ceil(maxConnections / 2),
        peersProgram: helpers.peers,
      },
    });
    if (config.metrics.listen !== undefined) {
      const app = createMetricsApp(services);
      const aside = new HttpServer({ ...serving, app, maxConnections: METRICS_CONNECTIONS });
      resources.defer(() => aside.close());
      const at = await aside.listen(config.metrics.listen);
      log.info(`metrics are served on ${formatListen(at)}`);
    }
    // Disposed in reverse order: drain requests, then end or release the sandboxes, then close the connections.
    resources.defer(() => server.close());
    let isServing = false;
    // A failed start, for example on a port in use, must not end the running sandboxes.
    resources.defer(() => sandboxes.stop(isServing ? config.onExit : 'keep'));
    starting.signal.throwIfAborted();
    const address = await server.listen(config.listen);
    isServing = true;
    resources.defer(() => {
      draining.abort();
      return server.drain(config.drainTimeoutMs, hurry);
    });
    return address;
  };

  const start = async (): Promise<ListenAddress> => {
    using _alive = keepAlive();
    try {
      return await open();
    } catch (error) {
      await resources
        .disposeAsync()
        .catch((err: unknown) => log.error({ err }, 'cannot release the resources of the failed start'));
      throw error;
    }
  };

  return {
    start: () => {
      started = start();
      return started;
    },
    reload: () => {
      certificate?.reload();
      return certificate !== undefined;
    },
    stop: async (signal) => {
      hurry = signal;
      starting.abort(new AppError('cancelled', 'the daemon was stopped while it started'));
      using _alive = keepAlive();
      // A start in progress still uses its resources: it fails at its next step and releases them.
      await started?.catch(() => undefined);
      await resources.disposeAsync();
    },
  };
}

/** The jail for programs that parse untrusted input. */
function jailOf({ jail }: Isolation): ConverterOptions['confine'] {
  return jail && ((command) => confine(jail, command));
}
