// A real guest without a daemon, that is paused and resumed: engine, guest channel and paused files alone.
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  copySparse,
  createWritableLayer,
  ensureAgentImage,
  resolveKernel,
  resolveProfile,
} from '@sandboxd/rootfs-builder';
import { pino } from 'pino';
import type { Engine, SavedVm, Vm, VmPaths, VmSpec } from '../../host-agent/src/engines/engine.ts';
import { makeEngines } from '../../host-agent/src/engines/index.ts';
import { Jail } from '../../host-agent/src/engines/jail/jail.ts';
import type { ExecOutcome } from '../../host-agent/src/guest/exec.ts';
import { Guest } from '../../host-agent/src/guest/guest.ts';
import type { Faults } from '../../host-agent/src/lib/faults.ts';
import {
  markAwake,
  openPaused,
  type PauseResult,
  pausedDir,
  pauseGuest,
  settlePaused,
} from '../../host-agent/src/sandboxes/saved/paused.ts';
import { BAKED_DATA_DIR } from './daemon.ts';
import { HELPERS } from './helper-programs.ts';
import { TEST_CGROUPS, TEST_UIDS } from './jailed.ts';
import { scaled } from './time-scale.ts';

export const sleeperLog = pino({ level: process.env.SLEEPER_LOG ?? 'silent' });
const MIB = 2 ** 20;
const LAYER = 'layer.ext4';

type SleeperOptions = {
  readonly memoryMib?: number;
};

/** The engine of this run's tests, as its probe found it. */
export async function openEngine(isJailed: boolean): Promise<Engine> {
  const kernel = await resolveKernel(BAKED_DATA_DIR, {});
  const scratchDir = await mkdtemp(join(tmpdir(), 'sl-'));
  const jail = isJailed
    ? await Jail.open({ program: HELPERS.jail, uids: TEST_UIDS, cgroups: TEST_CGROUPS })
    : undefined;
  const context = {
    kernelPath: kernel.vmlinuxPath,
    initramfsPath: kernel.initramfsPath,
    scratchDir,
    jail,
    log: sleeperLog,
    forkMemory: 'auto',
    claimProgram: HELPERS.claim,
    memfdProgram: HELPERS.memfd,
  } as const;
  const name = process.env.SANDBOXD_TEST_ENGINE ?? 'qemu';
  const engine = makeEngines(name, context, {}).at(-1);
  if (engine === undefined) throw new Error(`there is no engine ${name}`);
  const probe = await engine.probe();
  await rm(scratchDir, { recursive: true });
  if (!probe.isUsable) throw new Error(probe.reason);
  return engine;
}

async function makePaths(): Promise<VmPaths> {
  const parent = join(BAKED_DATA_DIR, 'test');
  await mkdir(parent, { recursive: true });
  return { dir: await mkdtemp(join(parent, 'sleeper-')), socketDir: await mkdtemp(join(tmpdir(), 'slr-')) };
}

export class Sleeper {
  readonly engine: Engine;
  readonly dir: string;
  readonly socketDir: string;
  readonly spec: VmSpec;
  vm: Vm;
  guest: Guest;

  onReach: Faults['reach'] = () => undefined;
  readonly faults: Faults = { reach: (point) => this.onReach(point) };

  private constructor(engine: Engine, paths: VmPaths, spec: VmSpec, vm: Vm) {
    this.engine = engine;
    this.dir = paths.dir;
    this.socketDir = paths.socketDir;
    this.spec = spec;
    this.vm = vm;
    this.guest = this.#connectTo(vm);
  }

  get paths(): { readonly dir: string; readonly socketDir: string } {
    return { dir: this.dir, socketDir: this.socketDir };
  }

  get paused(): string {
    return pausedDir(this.dir);
  }

  get layerPath(): string {
    return join(this.dir, LAYER);
  }

  static async boot(engine: Engine, { memoryMib = 256 }: SleeperOptions = {}): Promise<Sleeper> {
    const paths = await makePaths();
    const layer = join(paths.dir, LAYER);
    const kernel = await resolveKernel(BAKED_DATA_DIR, {});
    const { rootfsPath } = await resolveProfile(BAKED_DATA_DIR, 'base');
    const agent = await ensureAgentImage(BAKED_DATA_DIR, HELPERS.agent, kernel);
    await createWritableLayer(BAKED_DATA_DIR, layer, 1024 * MIB);
    const spec: VmSpec = {
      vcpus: 1,
      memoryMib,
      kernelPath: kernel.vmlinuxPath,
      initramfsPath: kernel.initramfsPath,
      bootArgs: 'sandbox.agent-disk',
      disks: [
        { path: rootfsPath, isReadOnly: true },
        { path: layer, isReadOnly: false },
        { path: agent.path, isReadOnly: true },
      ],
    };
    const vm = await engine.boot({ spec, paths, log: sleeperLog });
    const sleeper = new Sleeper(engine, paths, spec, vm);
    await sleeper.guest.connect(AbortSignal.timeout(scaled(120_000)));
    return sleeper;
  }

  /** Runs to the end as a sandbox's pause does. */
  async pause(): Promise<PauseResult & { readonly settledBytes: number }> {
    const result = await this.save();
    await this.end();
    return { ...result, settledBytes: await settlePaused(this.paused, this.faults) };
  }

  /** Saves; the VM stays paused. */
  save(signal?: AbortSignal): Promise<PauseResult> {
    const { vm, guest, layerPath, faults } = this;
    const memoryBytes = this.spec.memoryMib * MIB;
    const compatibility = this.engine.compatibility();
    const input = { dir: this.paused, vm, guest, layerPath, memoryBytes, compatibility, faults };
    return pauseGuest({ ...input, ...(signal && { signal }) });
  }

  async end(): Promise<void> {
    this.guest.close(new Error('paused'));
    await this.vm.kill();
  }

  /** Milliseconds until the guest's agent answered. */
  async resume(beforeRun?: () => Promise<void>): Promise<number> {
    const startedAt = performance.now();
    const { vm: saved, manifest } = await openPaused(this.paused, this.layerPath, this.faults);
    this.vm = await this.engine.restore({
      ...{ spec: this.spec, paths: this.paths, log: sleeperLog, saved, ownsMemory: true },
      beforeRun: beforeRun ?? (() => markAwake(this.paused, this.faults)),
    });
    this.guest = this.#connectTo(this.vm);
    await this.guest.connect(AbortSignal.timeout(scaled(60_000)), { needsResync: manifest.needsResync });
    return performance.now() - startedAt;
  }

  /** A fork of a saved guest, with a copy of the layer. */
  async fork(saved: SavedVm, layerPath: string): Promise<Sleeper> {
    const paths = await makePaths();
    const layer = join(paths.dir, LAYER);
    await copySparse(layerPath, layer);
    const disks = this.spec.disks.map((disk) => (disk.isReadOnly ? disk : { ...disk, path: layer }));
    const spec = { ...this.spec, disks };
    const vm = await this.engine.restore({ spec, paths, log: sleeperLog, saved });
    const sleeper = new Sleeper(this.engine, paths, spec, vm);
    await sleeper.guest.connect(AbortSignal.timeout(scaled(60_000)));
    return sleeper;
  }

  /** The output of a shell command, which must succeed. */
  async sh(script: string): Promise<string> {
    const output: Uint8Array[] = [];
    const { promise, resolve } = Promise.withResolvers<ExecOutcome>();
    const session = this.guest.exec(
      { cmd: ['sh', '-c', script], env: {}, timeout_s: 60 },
      {
        output: (_, chunk) => {
          output.push(Buffer.from(chunk));
          session.consumed(chunk.length);
        },
        exit: resolve,
      },
    );
    const outcome = await promise;
    const text = Buffer.concat(output).toString();
    if (outcome.exitCode !== 0) throw new Error(`${JSON.stringify(outcome)}: ${text}`);
    return text;
  }

  async remove(): Promise<void> {
    this.guest.close(new Error('removed'));
    await this.vm.kill();
    await rm(this.dir, { recursive: true, force: true });
    await rm(this.socketDir, { recursive: true, force: true });
  }

  #connectTo(source: Vm): Guest {
    return new Guest({ source, incarnation: 'sleeper', log: sleeperLog });
  }
}
