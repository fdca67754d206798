// What a create needs, around an engine under test: a registry, directories and a root filesystem that nobody reads.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { Test } from 'tap';
import type { Engine, VmmIdentity } from '../../host-agent/src/engines/engine.ts';
import { NO_FAULTS } from '../../host-agent/src/lib/faults.ts';
import type { SandboxRecord } from '../../host-agent/src/sandboxes/record.ts';
import type { Sandbox } from '../../host-agent/src/sandboxes/sandbox.ts';
import { type StartContext, startSandbox } from '../../host-agent/src/sandboxes/start.ts';
import { Store } from '../../host-agent/src/store/store.ts';

/** No failure of these tests is one of time. */
const FAR_MS = 3_600_000;
const LAYER_BYTES = 64 * 2 ** 20;

export type Creates = {
  readonly context: StartContext;
  create(id: string): Promise<Sandbox>;
  /** The VMM of a create that goes on, as soon as there is one. */
  vmmOf(id: string): Promise<VmmIdentity>;
};

/** `dir` has `run`, `kernel`, `initramfs` and `root`. */
export async function makeCreates(t: Test, dir: string, engine: Engine, log: Logger): Promise<Creates> {
  const dataDir = join(dir, 'data');
  mkdirSync(dataDir);
  const store = await Store.open(join(dataDir, 'state.lmdb'));
  t.teardown(() => store.close());
  const records = store.table<SandboxRecord>('sandboxes');
  const context: StartContext = {
    engine,
    kernel: { vmlinuxPath: join(dir, 'kernel'), initramfsPath: join(dir, 'initramfs'), digest: 'k' },
    directories: { dataDir, runDir: join(dir, 'run') },
    records,
    bootTimeoutMs: FAR_MS,
    faults: NO_FAULTS,
  };
  return {
    context,
    create: (id) =>
      startSandbox(context, {
        id,
        options: {
          profile: 'base',
          vcpus: 1,
          memoryMib: 4,
          diskBytes: LAYER_BYTES,
          timeoutS: 0,
          bootArgs: '',
        },
        profile: { name: 'base', digest: 'd', rootfsPath: join(dir, 'root'), env: {}, workdir: '/' },
        origin: { kind: 'boot' },
        log: log.child({ sandbox: id }),
        signal: new AbortController().signal,
      }),
    vmmOf: async (id) => {
      for (;;) {
        const vmm = records.get(id)?.vmm;
        if (vmm !== null && vmm !== undefined) return vmm;
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    },
  };
}
