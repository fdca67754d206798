// The dependencies of a create for an engine under test: a registry, directories and a placeholder root file system.

import { mkdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import type { Logger } from 'pino';
import type { Test } from 'tap';
import type { Engine, VmmIdentity } from '../../host-agent/src/engines/engine.ts';
import type { RootfsSource } from '../../host-agent/src/images/rootfs-source.ts';
import { NO_FAULTS } from '../../host-agent/src/lib/faults.ts';
import { EgressLog } from '../../host-agent/src/network/index.ts';
import { startSandbox } from '../../host-agent/src/sandboxes/create.ts';
import { CommandCounts } from '../../host-agent/src/sandboxes/exec.ts';
import { HOST_IDLE } from '../../host-agent/src/sandboxes/idle/idle-watch.ts';
import { LifecycleEvents } from '../../host-agent/src/sandboxes/lifecycle-events.ts';
import { logLifecycleEvents } from '../../host-agent/src/sandboxes/lifecycle-log.ts';
import type { SandboxRecord } from '../../host-agent/src/sandboxes/record.ts';
import type { ResourceContext } from '../../host-agent/src/sandboxes/resources/resource.ts';
import type { Sandbox } from '../../host-agent/src/sandboxes/sandbox.ts';
import { Store } from '../../host-agent/src/store/store.ts';
import { makeAuthorities } from './memory-host/authorities.ts';
import { RecordingNetwork } from './memory-host/network.ts';
import { oneEngine } from './one-engine.ts';
import { openTestSecrets } from './test-secrets.ts';

/** Far enough that no test fails on this timeout. */
const FAR_MS = 3_600_000;
const LAYER_BYTES = 64 * 2 ** 20;

export type Creates = {
  readonly context: ResourceContext;
  create(id: string): Promise<Sandbox>;
  /** The VMM of a create in progress, as soon as its VM has started and only the agent is awaited. */
  vmmOf(id: string): Promise<VmmIdentity>;
};

export function rootfsIn(dir: string): RootfsSource {
  return {
    kind: 'profile',
    name: 'base',
    digest: 'd',
    rootfsPath: join(dir, 'root'),
    env: {},
    workdir: '/',
  };
}

/** `dir` contains `run`, `kernel`, `initramfs` and `root`. */
export async function makeCreates(t: Test, dir: string, engine: Engine, log: Logger): Promise<Creates> {
  const dataDir = join(dir, 'data');
  mkdirSync(dataDir);
  const store = await Store.open(join(dataDir, 'state.lmdb'));
  t.teardown(() => store.close());
  const records = store.table<SandboxRecord>('sandboxes');
  const events = new LifecycleEvents();
  events.subscribe(logLifecycleEvents(log));
  const started = new Set<string>();
  const watched: Pick<Engine, 'name' | 'boot' | 'compatibility'> = {
    name: engine.name,
    compatibility: () => engine.compatibility(),
    boot: async (options) => {
      const vm = await engine.boot(options);
      started.add(basename(options.paths.dir));
      return vm;
    },
  };
  const context: ResourceContext = {
    commandCounts: new CommandCounts(),
    engines: oneEngine(watched as Engine),
    adopters: [engine],
    events,
    settings: { bootTimeoutMs: FAR_MS, pidsLimit: 0, reservesDisks: false, watchdogTimeoutMs: 0 },
    system: {
      kernel: { vmlinuxPath: join(dir, 'kernel'), initramfsPath: join(dir, 'initramfs'), digest: 'k' },
    },
    directories: { dataDir, runDir: join(dir, 'run') },
    records,
    faults: NO_FAULTS,
    network: new RecordingNetwork(),
    egressLog: new EgressLog(undefined),
    secrets: openTestSecrets(dataDir, store, log).sandboxSecrets,
    authorities: makeAuthorities(store, dataDir),
    idle: HOST_IDLE,
  };
  return {
    context,
    create: (id) =>
      startSandbox(context, {
        id,
        options: {
          rootfs: rootfsIn(dir),
          vcpus: 1,
          memoryMib: 4,
          diskBytes: LAYER_BYTES,
          timeoutS: 0,
          bootArgs: '',
        },
        origin: { kind: 'boot' },
        log: log.child({ sandbox: id }),
        signal: new AbortController().signal,
      }),
    vmmOf: async (id) => {
      for (;;) {
        const vmm = records.get(id)?.vmm;
        if (vmm !== null && vmm !== undefined && started.has(id)) return vmm;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
  };
}
