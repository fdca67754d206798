// Joins the rooms of the daemon and gives them one life: started in order, stopped in the opposite one.
import { cpus } from 'node:os';
import { join } from 'node:path';
import { resolveKernel } from '@sandboxd/rootfs-builder';
import type { Logger } from 'pino';
import type { Config, ListenAddress } from './config/index.ts';
import { EngineChoice } from './engines/choice.ts';
import { makeAdopters, makeEngines } from './engines/index.ts';
import { openIsolation } from './engines/isolation.ts';
import { createHttpApp, HttpServer } from './http/index.ts';
import { Profiles } from './images/profiles.ts';
import { readDescriptorLimit, shareDescriptors } from './lib/descriptors.ts';
import { AppError } from './lib/errors.ts';
import { type Faults, NO_FAULTS } from './lib/faults.ts';
import { lockDirectory } from './lib/instance-lock.ts';
import { ensurePrivateDirectory } from './lib/private-directory.ts';
import { LogStore } from './logs/index.ts';
import { LifeEvents, logLifeEvents } from './sandboxes/life-events.ts';
import { SandboxManager } from './sandboxes/manager.ts';
import type { SandboxRecord } from './sandboxes/record.ts';
import type { SnapshotRecord } from './sandboxes/snapshots.ts';
import { Store } from './store/store.ts';

/** More at once would only make each slower. */
const MAX_CONCURRENT_STARTS = 4;

export interface App {
  /** Resolves with the address it serves on. Rejects with everything undone that was done. */
  start(): Promise<ListenAddress>;
  /** Lets running requests finish for the configured time, or until `hurry` fires; then ends everything. */
  stop(hurry?: AbortSignal): Promise<void>;
}

/** `jailProgram` is the one that jails VMMs; `faults` are for tests. */
export function createApp(config: Config, log: Logger, jailProgram: string, faults: Faults = NO_FAULTS): App {
  const resources = new AsyncDisposableStack();
  const starting = new AbortController();
  const draining = new AbortController();
  let hurry: AbortSignal | undefined;
  let started: Promise<ListenAddress> | undefined;

  const open = async (): Promise<ListenAddress> => {
    const { limits, maxConnections } = shareOut(config, log);
    const directories = { dataDir: config.dataDir, runDir: config.runDir };
    for (const dir of Object.values(directories)) {
      const change = await ensurePrivateDirectory(dir);
      if (change !== undefined) log.warn(change);
      resources.use(await lockDirectory(dir));
    }
    const store = await Store.open(join(config.dataDir, 'state.lmdb'));
    resources.defer(() => store.close());

    const maxFileBytes = Math.max(config.limits.diskBytes, config.limits.memoryMib * 2 ** 20);
    const jail = config.jail && {
      ...config.jail,
      program: jailProgram,
      maxFileBytes,
      cgroups: { ...config.jail.cgroups, dir: config.dataDir },
    };
    const isolation = await openIsolation({ jail, isRequired: config.requiresIsolation, log });
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
    const profiles = new Profiles(config.dataDir);
    const logs =
      config.sandboxLogs && new LogStore({ ...config.sandboxLogs, dir: join(config.dataDir, 'logs'), log });
    resources.defer(() => logs?.stop());
    const events = new LifeEvents();
    events.subscribe(logLifeEvents(log));
    const sandboxes = new SandboxManager({
      events,
      engines,
      adopters: makeAdopters(engineContext, config.enginePrograms),
      faults,
      kernel,
      directories,
      records: store.table<SandboxRecord>('sandboxes'),
      bootTimeoutMs: config.bootTimeoutMs,
      profiles,
      defaults: config.defaults,
      limits,
      logs,
      snapshotRecords: store.table<SnapshotRecord>('snapshots'),
      reservesDisks: config.reservesDisks,
      templateBudgetBytes: config.templateBudgetBytes,
      admission: config.admission,
      watchdogTimeoutMs: config.watchdogTimeoutMs,
      maxConcurrentStarts: MAX_CONCURRENT_STARTS,
      log,
    });
    starting.signal.throwIfAborted();
    await sandboxes.start();

    const app = createHttpApp({
      log,
      sandboxes,
      logs,
      stopping: draining.signal,
      limits: { ...limits, hostCpus: cpus().length },
      listProfiles: async () =>
        (await profiles.list()).map((profile) => ({
          ...profile,
          isDefault: profile.name === config.defaults.profile,
        })),
      engine: () => ({
        name: engines.current.name,
        accelerator: engines.current.accelerator,
        version: engines.version,
        reason: engines.reason,
        tried: engines.tried,
        jail: isolation.report,
      }),
    });
    const server = new HttpServer({ app, log, allowedHosts: config.allowedHosts, maxConnections });
    // Undone from the last to the first: requests finish, then sandboxes end or are let go of, then the connections.
    resources.defer(() => server.close());
    let isServing = false;
    // A start that fails, for a taken port say, is no reason to end what runs.
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
      await resources.disposeAsync().catch((err: unknown) => log.error({ err }, 'cannot undo the start'));
      throw error;
    }
  };

  return {
    start: () => {
      started = start();
      return started;
    },
    stop: async (signal) => {
      hurry = signal;
      starting.abort(new AppError('cancelled', 'the daemon was told to stop while it started'));
      using _alive = keepAlive();
      // A start that is under way still uses what it opened: it gives up at its next step, and undoes what it did.
      await started?.catch(() => undefined);
      await resources.disposeAsync();
    },
  };
}

/** The limits that are left where this process may not have descriptors for all that was asked for. */
function shareOut(
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

/** What is waited for in starts and stops (VMMs, idle sockets) may not keep the process alive by itself. */
function keepAlive(): Disposable {
  const timer = setInterval(() => {}, 60_000);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}
