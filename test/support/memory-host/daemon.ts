// A daemon's sandboxes without VMs: the real manager, registry, files and logs with an engine in memory.
import { mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Policy, SandboxLimits } from '@sandboxd/api';
import { type Level, pino } from 'pino';
import type { Test } from 'tap';
import type { Engines } from '../../../host-agent/src/engines/choice.ts';
import { Journal } from '../../../host-agent/src/events/journal.ts';
import { RootfsFinder } from '../../../host-agent/src/images/index.ts';
import type { ProfileService, Profiles } from '../../../host-agent/src/images/profiles.ts';
import type { Owner, Quota } from '../../../host-agent/src/keys/index.ts';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import { NO_FAULTS } from '../../../host-agent/src/lib/faults.ts';
import { LogStore } from '../../../host-agent/src/logs/index.ts';
import { EgressLog } from '../../../host-agent/src/network/index.ts';
import type { Presets } from '../../../host-agent/src/network/presets.ts';
import { readHostCapacity } from '../../../host-agent/src/sandboxes/admission.ts';
import { CommandCounts } from '../../../host-agent/src/sandboxes/exec.ts';
import { type Counters, HOST_IDLE } from '../../../host-agent/src/sandboxes/idle/idle-watch.ts';
import {
  type LifecycleEvent,
  LifecycleEvents,
  type StoredEvent,
} from '../../../host-agent/src/sandboxes/lifecycle-events.ts';
import type { MoveTables, MoveTimes } from '../../../host-agent/src/sandboxes/moves/index.ts';
import type { CapacityOptions } from '../../../host-agent/src/sandboxes/options.ts';
import type { SandboxRecord } from '../../../host-agent/src/sandboxes/record.ts';
import type {
  GuestSettings,
  GuestSystem,
  ResourceContext,
} from '../../../host-agent/src/sandboxes/resources/resource.ts';
import type { SnapshotRecord } from '../../../host-agent/src/sandboxes/snapshots.ts';
import type { SharedOptions, StoredRecord } from '../../../host-agent/src/sandboxes/stored/shared.ts';
import { Store, type Table } from '../../../host-agent/src/store/store.ts';
import { HELPERS } from '../helper-programs.ts';
import { NO_PRESETS } from '../no-presets.ts';
import { oneEngine } from '../one-engine.ts';
import { openTestSecrets } from '../test-secrets.ts';
import { scaled } from '../time-scale.ts';
import { makeAuthorities } from './authorities.ts';
import { MemoryEngine, MemoryHost } from './engine.ts';
import { RecordingNetwork } from './network.ts';
import { OperatorManager } from './operator-manager.ts';

const MIB = 2 ** 20;
/** All operations take at most seconds, but a test has many of them, and a busy machine is ten times slower. */
const LIMIT_MS = 120_000;
export const PROFILE_NAMES = ['base', 'other', 'third'];

export type Home = { readonly dataDir: string; readonly runDir: string; readonly host: MemoryHost };
export type LogLine = Readonly<Record<string, unknown>> & { readonly msg?: string };

/** Each replaces what the daemon would have, so that a test names only what it is about. */
export type MemoryDaemonOptions = Partial<
  Omit<ResourceContext, 'idle' | 'system' | 'settings'> & GuestSystem & GuestSettings
> & {
  readonly presets?: Presets;
  /** Of each profile. */
  readonly profileService?: ProfileService;
  readonly limits?: SandboxLimits;
  readonly templateBudgetBytes?: number;
  readonly maxConcurrentStarts?: number;
  readonly sleep?: Partial<CapacityOptions['sleep']>;
  readonly admission?: Pick<CapacityOptions, 'memoryReserveBytes' | 'memoryOvercommit'>;
  readonly readCapacity?: CapacityOptions['readCapacity'];
  readonly quotaOf?: (tenant: string) => Quota | undefined;
  readonly policyOfOwner?: (owner: Owner) => Policy | undefined;
  readonly readCounters?: () => Counters;
  readonly snapshotStore?: SharedOptions['store'] | undefined;
  /** Directories and machines of an earlier daemon. */
  readonly home?: Home;
  /** Wraps a table of the registry. */
  readonly changeRecords?: (records: Table<SandboxRecord>) => Table<SandboxRecord>;
  readonly changeMoves?: (tables: MoveTables) => MoveTables;
  readonly moveTimes?: MoveTimes;
  readonly changeSnapshotRecords?: (records: Table<SnapshotRecord>) => Table<SnapshotRecord>;
  /** Of the lines that are kept; all by default. */
  readonly logLevel?: Level;
  /** Of the test that starts it. */
  readonly timeoutMs?: number;
};

export type MemoryDaemon = {
  readonly home: Home;
  readonly host: MemoryHost;
  readonly manager: OperatorManager;
  readonly engines: Engines;
  /** Of all sandboxes, unless the test has another. */
  readonly network: RecordingNetwork;
  readonly store: Store;
  readonly events: LifecycleEvents;
  readonly journal: Journal<StoredEvent>;
  readonly logs: LogStore;
  readonly egressLog: EgressLog;
  readonly secrets: ReturnType<typeof openTestSecrets>;
  readonly lines: LogLine[];
  /** All lifecycle events, in order. */
  readonly happened: readonly LifecycleEvent[];
  /** Simulates a kill: nothing is finished; the machines keep running. */
  crash(): Promise<void>;
};

/** Directories and a machine for one or more daemons. */
export async function makeHome(t: Test): Promise<Home> {
  const root = await mkdtemp(join(tmpdir(), 'memory-host-'));
  t.teardown(() => rm(root, { recursive: true, force: true }));
  const home = { dataDir: join(root, 'data'), runDir: join(root, 'run'), host: new MemoryHost() };
  await Promise.all([mkdir(home.dataDir), mkdir(home.runDir)]);
  for (const name of PROFILE_NAMES) await writeFile(join(root, `data/${name}.ext4`), name);
  return home;
}

export async function startMemoryDaemon(t: Test, options: MemoryDaemonOptions = {}): Promise<MemoryDaemon> {
  t.setTimeout(options.timeoutMs ?? scaled(LIMIT_MS));
  const home = options.home ?? (await makeHome(t));
  const lines: LogLine[] = [];
  const log = pino(
    { level: options.logLevel ?? 'debug' },
    { write: (line: string) => lines.push(JSON.parse(line)) },
  );
  const store = await Store.open(join(home.dataDir, 'state.lmdb'));
  const records = store.table<SandboxRecord>('sandboxes');
  const snapshotRecords = store.table<SnapshotRecord>('snapshots');
  const moves: MoveTables = {
    departures: store.table('departures'),
    arrivals: store.table('arrivals'),
    drain: store.table('drain'),
    bound: store.table('fleet_pods'),
  };
  const engine = new MemoryEngine(home.host);
  const engines = options.engines ?? oneEngine(engine);
  const logs = new LogStore({
    dir: join(home.dataDir, 'logs'),
    maxBytes: 64 * MIB,
    retentionMs: 3_600_000,
    retentionBytes: 2 ** 30,
    log,
  });
  const egressStore = new LogStore({
    dir: join(home.dataDir, 'egress'),
    maxBytes: MIB,
    retentionMs: 3_600_000,
    retentionBytes: 2 ** 20,
    log,
  });
  const journal = await Journal.open<StoredEvent>(store, { keepMs: 3_600_000, maxBytes: 16 * MIB, log });
  const egressLog = new EgressLog(egressStore);
  const events = new LifecycleEvents(journal);
  const happened: LifecycleEvent[] = [];
  events.subscribe((event) => happened.push(event));
  const network = new RecordingNetwork();
  const secrets = openTestSecrets(home.dataDir, store, log);
  const manager = new OperatorManager({
    context: {
      network,
      egressLog,
      secrets: secrets.sandboxSecrets,
      authorities: makeAuthorities(store, home.dataDir),
      events,
      commandCounts: new CommandCounts(),
      engines,
      adopters: [engine],
      faults: NO_FAULTS,
      directories: { dataDir: home.dataDir, runDir: home.runDir },
      logs,
      records: options.changeRecords?.(records) ?? records,
      ...options,
      system: {
        kernel: { vmlinuxPath: '/vmlinux', initramfsPath: '/initramfs', digest: 'kernel' },
        ...options,
      },
      settings: {
        ...{ bootTimeoutMs: 10_000, pidsLimit: 0, reservesDisks: false, watchdogTimeoutMs: 0 },
        ...options,
      },
      idle: { readCounters: options.readCounters ?? HOST_IDLE.readCounters },
    },
    creates: {
      presets: options.presets ?? NO_PRESETS,
      roots: new RootfsFinder({
        profiles: profilesOf(home, options.profileService),
        agentPath: async () => {
          if (options.agentRootfs === undefined) throw new Error('there is no agent');
          return (await options.agentRootfs()).rootfsPath;
        },
      }),
      defaults: { profile: 'base', vcpus: 1, memoryMib: 128, diskBytes: 64 * MIB },
      limits: options.limits ?? {
        vcpus: 4,
        memoryMib: 4096,
        diskBytes: 1024 * MIB,
        sandboxes: 100,
        fork: 64,
      },
    },
    capacity: {
      ...(options.admission ?? { memoryReserveBytes: 0, memoryOvercommit: 100 }),
      readCapacity: options.readCapacity ?? (() => readHostCapacity(home.dataDir)),
      templateBudgetBytes: options.templateBudgetBytes ?? 1024 * MIB,
      maxConcurrentStarts: options.maxConcurrentStarts ?? 4,
      sleep: { resumeTimeoutMs: 10_000, maxStoredBytes: 0, ...options.sleep },
    },
    tenants: {
      quotaOf: options.quotaOf ?? (() => undefined),
      policyOfOwner: options.policyOfOwner ?? (() => undefined),
      publishPorts: ['1024-32767', '61000-65535'],
      storedBytes: (tenant) => options.snapshotStore?.usedBytes(tenant) ?? 0,
    },
    shared: options.snapshotStore && {
      store: options.snapshotStore,
      records: store.table<StoredRecord>('stored_snapshots'),
    },
    moves: options.changeMoves?.(moves) ?? moves,
    movePollMs: 100,
    moveTimes: { placedMs: 2000, ...options.moveTimes },
    comparer: { program: HELPERS.diffdisks, jail: undefined },
    snapshotRecords: options.changeSnapshotRecords?.(snapshotRecords) ?? snapshotRecords,
    log,
  });
  await manager.start();
  // Pending waits must not keep a daemon alive, and this daemon has no sockets that would.
  const alive = setInterval(() => undefined, 60_000);
  let isOver = false;
  const end = async (finish: () => Promise<void>): Promise<void> => {
    if (isOver) return;
    isOver = true;
    clearInterval(alive);
    await finish();
    await logs.stop();
    await egressStore.stop();
    await journal.close();
    await store.close();
  };
  t.teardown(() => end(() => manager.stop('destroy')));
  return {
    secrets,
    engines,
    home,
    host: home.host,
    manager,
    network,
    store,
    logs,
    egressLog,
    lines,
    happened,
    journal,
    events,
    crash: () => end(() => manager.stop('keep')),
  };
}

function profilesOf({ dataDir }: Home, service?: ProfileService): Profiles {
  const get = async (name: string) => {
    if (!PROFILE_NAMES.includes(name)) throw new AppError('invalid_argument', `unknown profile ${name}`);
    const rootfsPath = join(dataDir, `${name}.ext4`);
    const { size } = await stat(rootfsPath);
    return {
      name,
      description: name,
      digest: `digest-${name}`,
      rootfsPath,
      sizeBytes: size,
      packages: {},
      // As in baked profiles.
      env: { PATH: '/bin', HOME: '/root' },
      workdir: '/',
      createdAt: new Date(0),
      ...(service && { service }),
    };
  };
  const profiles: Pick<Profiles, 'get' | 'obtain' | 'isToBeBaked' | 'list'> = {
    get,
    obtain: get,
    isToBeBaked: async () => false,
    list: () => Promise.all(PROFILE_NAMES.map(get)),
  };
  return profiles as Profiles;
}
