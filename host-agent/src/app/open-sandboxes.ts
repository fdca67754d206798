// Step of the start: stored logs, networks, and the manager of sandboxes, which adopts the running ones.

import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Config } from '../config/index.ts';
import { Cgroups } from '../engines/jail/cgroups.ts';
import { findProgramFiles } from '../engines/jail/jail.ts';
import { endOrphans, type OrphansOptions } from '../engines/jail/orphans.ts';
import { LEASES_DIR, leaseOwner, leaseUsers } from '../engines/jail/uid-leases.ts';
import { AgentImageMaker } from '../images/agent-image.ts';
import { type Images, RootfsFinder } from '../images/index.ts';
import { agentRootfs } from '../images/rootfs-source.ts';
import { AppError, toError } from '../lib/errors.ts';
import { isRecorded } from '../lib/process-record.ts';
import { LogStore } from '../logs/index.ts';
import { measureHost } from '../metrics/metrics.ts';
import {
  EgressLog,
  findOrdinaryPorts,
  type HostSideRecord,
  HostUpstream,
  Network,
} from '../network/index.ts';
import { Presets } from '../network/presets.ts';
import { readHostCapacity } from '../sandboxes/admission.ts';
import { Authorities, type AuthorityRecord } from '../sandboxes/authorities.ts';
import { CommandCounts } from '../sandboxes/exec.ts';
import { HOST_IDLE } from '../sandboxes/idle/idle-watch.ts';
import { SandboxManager } from '../sandboxes/manager.ts';
import { measureSandboxes } from '../sandboxes/metrics.ts';
import type { SandboxRecord } from '../sandboxes/record.ts';
import type { SnapshotRecord } from '../sandboxes/snapshots.ts';
import type { SharedOptions, StoredRecord } from '../sandboxes/stored/shared.ts';
import type { SandboxSecrets } from '../secrets/index.ts';
import { openSnapshotStore } from '../snapshot-store/index.ts';
import type { Store } from '../store/store.ts';
import type { AppContext } from './context.ts';
import type { OpenedEngines } from './open-engines.ts';
import { PODS_TABLE } from './open-pods.ts';
import type { OpenedRootfs } from './open-rootfs.ts';
import type { OpenedEvents, OpenedStore } from './open-store.ts';

/** On a small host, more parallel starts would only slow each other down. Each has a VMM and a guest that compute. */
const MAX_CONCURRENT_STARTS = Math.max(4, Math.ceil(availableParallelism() / 2));

/** One sandbox has at most this much of it. */
const MAX_EGRESS_LOG_BYTES = 8 * 2 ** 20;
/** Of the disk space for logs of deleted sandboxes. */
const EGRESS_LOG_SHARE = 1 / 8;

/** Keeps nothing when logs of sandboxes are off. */
export function openEgressLog({ config, log, resources }: AppContext): EgressLog {
  const { dataDir, sandboxLogs: settings } = config;
  const store =
    settings &&
    new LogStore({
      ...settings,
      maxBytes: Math.min(settings.maxBytes, MAX_EGRESS_LOG_BYTES),
      retentionBytes: settings.retentionBytes * EGRESS_LOG_SHARE,
      dir: join(dataDir, 'egress'),
      log,
    });
  resources.defer(() => store?.stop());
  return new EgressLog(store);
}

/** Undefined when logs of sandboxes are off. */
export function openLogs({ config, log, resources }: AppContext): LogStore | undefined {
  const { dataDir, sandboxLogs } = config;
  const logs = sandboxLogs && new LogStore({ ...sandboxLogs, dir: join(dataDir, 'logs'), log });
  resources.defer(() => logs?.stop());
  return logs;
}

/** User ids of VMMs and helpers. */
export type OpenedUsers = {
  readonly users: ReturnType<typeof leaseUsers>;
  /** Ends processes of earlier daemons on this data directory, except those that are known. */
  readonly endOrphans: (isKnown: OrphansOptions['isKnown']) => Promise<void>;
};

export async function openUsers({ config, log }: AppContext): Promise<OpenedUsers> {
  const owner = await leaseOwner(config.dataDir);
  const users = leaseUsers(config.uids, owner, LEASES_DIR, toGroups(config, log));
  return { users, endOrphans: (isKnown) => endOrphans({ owner, isKnown, users, log }) };
}

export async function openNetwork(
  { config, log, helpers, resources }: AppContext,
  store: Store,
  { users, endOrphans }: OpenedUsers,
): Promise<Network> {
  // Before anything is started again: they have ports of the host, and addresses of guests.
  await endOrphans((process, record) => record === undefined || isRecorded(record, process));
  const network = await Network.open({
    ...config.network,
    upstream: new HostUpstream(config.network.dnsServers),
    runDir: config.runDir,
    records: store.table<HostSideRecord>('network'),
    program: helpers.netd,
    portProgram: helpers.portd,
    egressProgram: helpers.egressd,
    portUsers: users,
    gateway: {
      command: {
        ...{
          jail: helpers.jail,
          root: LEASES_DIR,
          program: helpers.gateway.program,
          args: helpers.gateway.args,
        },
        files: [...(await findProgramFiles(helpers.gateway.program)), ...helpers.gateway.reads],
      },
      ...(config.network.egressCaFile !== undefined && {
        roots: await readServerRoots(config.network.egressCaFile),
      }),
    },
    log,
  });
  resources.defer(() => network.close());
  return network;
}

/** Helpers of networks have control groups where VMMs have. */
function toGroups({ jail, dataDir }: Config, log: Logger) {
  return jail && { open: () => Cgroups.open({ ...jail.cgroups, dir: dataDir }), log };
}

/** Rejects if the operator's file is not valid. */
export function openPresets({ config: { network }, log }: AppContext): Presets {
  return Presets.open({ file: network.presetsFile, hasInternet: network.hasInternet, log });
}

export type SandboxDeps = Pick<OpenedStore, 'store' | 'registryPath' | 'keys' | 'sealer'> &
  Pick<OpenedEngines, 'kernel' | 'engines' | 'adopters' | 'isolation'> &
  Pick<OpenedEvents, 'events' | 'metrics'> &
  OpenedRootfs & {
    readonly network: Network;
    readonly presets: Presets;
    readonly logs: LogStore | undefined;
    readonly egressLog: EgressLog;
    readonly sandboxSecrets: SandboxSecrets;
    readonly limits: Config['limits'];
    readonly endOrphans: OpenedUsers['endOrphans'];
  };

/** The caller stops the manager: whether its sandboxes then end depends on how far the start came. */
export async function openSandboxes(
  { config, log, helpers, faults, resources, signal }: AppContext,
  deps: SandboxDeps,
): Promise<SandboxManager> {
  const { store, keys, kernel, engines, adopters, events, profiles, images, network, logs, limits } = deps;
  const { dataDir, runDir, publishPorts } = config;
  const { bootTimeoutMs, pidsLimit, reservesDisks, watchdogTimeoutMs } = config;
  const shared = openShared({ config, resources }, deps);
  const agentImage = new AgentImageMaker({ dataDir, agentDir: helpers.agent, kernel, log });
  resources.defer(() => agentImage.stop());
  const sandboxes = new SandboxManager({
    context: {
      network,
      events,
      commandCounts: new CommandCounts(),
      engines,
      adopters,
      faults,
      system: {
        kernel,
        agentRootfs: async () => agentRootfs(await agentImage.get()),
        agentImageBegun: agentImage.begun,
      },
      settings: { bootTimeoutMs, pidsLimit, reservesDisks, watchdogTimeoutMs },
      directories: { dataDir, runDir },
      records: store.table<SandboxRecord>('sandboxes'),
      logs,
      egressLog: deps.egressLog,
      secrets: deps.sandboxSecrets,
      authorities: new Authorities({
        records: store.table<AuthorityRecord>('authorities'),
        sealer: deps.sealer,
      }),
      idle: HOST_IDLE,
    },
    creates: {
      roots: new RootfsFinder({ profiles, images, agentPath: async () => (await agentImage.get()).path }),
      defaults: config.defaults,
      limits,
      presets: deps.presets,
    },
    capacity: {
      ...config.admission,
      readCapacity: () => readHostCapacity(dataDir),
      templateBudgetBytes: config.templateBudgetBytes,
      maxConcurrentStarts: MAX_CONCURRENT_STARTS,
      sleep: config.sleep,
    },
    tenants: {
      quotaOf: (tenant) => keys.quotaOf(tenant),
      storedBytes: (tenant) => shared?.store.usedBytes(tenant) ?? 0,
      policyOfOwner: (owner) => keys.policyOfOwner(owner),
      publishPorts: publishPorts.length > 0 ? publishPorts : findOrdinaryPorts(),
    },
    snapshotRecords: store.table<SnapshotRecord>('snapshots'),
    shared,
    moves: {
      departures: store.table('departures'),
      arrivals: store.table('arrivals'),
      drain: store.table('drain'),
      bound: store.table(PODS_TABLE),
    },
    comparer: { program: helpers.diffdisks, jail: deps.isolation.jail },
    log,
  });
  signal.throwIfAborted();
  await sandboxes.start();
  const all = [...sandboxes.metricsSource.sandboxes.values()];
  const own = new Set(all.map(({ running }) => running?.vm.identity.pid));
  await deps.endOrphans(({ pid }, record) => record !== undefined || own.has(pid));
  agentImage.makeInBackground();
  // If none is chosen yet they are tried from now on, because the start ends VMMs that belong to no sandbox.
  engines.chosen(signal).catch(() => undefined);
  measure(config, deps, sandboxes);
  return sandboxes;
}

/** Undefined without a snapshot store. AppError `internal` if its files cannot be used. */
function openShared(
  { config, resources }: Pick<AppContext, 'config' | 'resources'>,
  { store: registry, metrics }: Pick<SandboxDeps, 'store' | 'metrics'>,
): SharedOptions | undefined {
  if (config.snapshotStore === undefined) return undefined;
  const requests = metrics.counter(
    'sandboxd_snapshot_store_requests_total',
    'Requests to the snapshot store, by method and result',
    ['method', 'result'],
  );
  const { store } = openSnapshotStore(config.snapshotStore, (method, result) =>
    requests.inc({ method, result }),
  );
  resources.defer(() => store.close());
  return { store, records: registry.table<StoredRecord>('stored_snapshots') };
}

function measure(
  config: Config,
  { metrics, registryPath, network, egressLog, sandboxSecrets, images }: SandboxDeps,
  sandboxes: SandboxManager,
): void {
  measureSandboxes(metrics, {
    source: sandboxes.metricsSource,
    top: config.metrics.topSandboxes,
    labelKeys: config.metrics.labelKeys,
    readCapacity: () => readHostCapacity(config.dataDir),
  });
  measureHost(metrics, {
    registryPath,
    users: config.jail && { leasesDir: LEASES_DIR, count: config.uids.count },
    usedNetworks: () => network.usedSlots,
    egressCounts: () => egressLog.counts,
    secretCounts: () => sandboxSecrets.useCounts,
    countPublished: () => network.countConnections(),
  });
  if (images?.shared !== undefined) measureShared(metrics, images.shared);
}

function measureShared(
  metrics: SandboxDeps['metrics'],
  shared: Pick<NonNullable<Images['shared']>, 'state'>,
): void {
  const gauge = (name: string, help: string, read: () => number): void =>
    metrics.series('gauge', name, help, [], () => [{ value: read() }]);
  gauge(
    'sandboxd_shared_images_bytes',
    'What shared images of all hosts take in the snapshot store, when this host last had one to send',
    () => shared.state.usedBytes,
  );
  gauge(
    'sandboxd_shared_images_pending',
    'Names of images that wait to be put or deleted in the snapshot store',
    () => shared.state.waiting,
  );
  gauge(
    'sandboxd_shared_images_over_limit',
    'Names of images that are not in the snapshot store for want of space',
    () => shared.state.refused,
  );
}

// Certificates of the operator that vouch for servers of inspected TLS, as those of a company do.

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** In PEM. AppError invalid_argument for a file without certificates, or with one that is not valid. */
async function readServerRoots(file: string): Promise<string> {
  try {
    const certificates = (await readFile(file, 'latin1')).match(CERTIFICATE) ?? [];
    if (certificates.length === 0) throw new Error('it has no certificate in PEM');
    for (const each of certificates) new X509Certificate(each);
    return `${certificates.join('\n')}\n`;
  } catch (cause) {
    throw new AppError('invalid_argument', `cannot use --egress-ca-file ${file}: ${toError(cause).message}`, {
      cause,
    });
  }
}
