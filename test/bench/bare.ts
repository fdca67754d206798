// The baseline: the engine without the daemon, with a sandbox's kernel, disks and devices. Each engine has its own
// file. The baseline uses the engine that the measured daemon chose.
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises';
import { connect, type OnReadOpts, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { copySparse, createWritableLayer, resolveKernel, resolveProfile } from '@sandboxd/rootfs-builder';
import type { VmSpec } from '../../host-agent/src/engines/engine.ts';
import type { SavedManifest } from '../../host-agent/src/sandboxes/saved/manifest.ts';
import { BAKED_DATA_DIR, type LogLine } from '../support/daemon.ts';

export type BareVm = {
  readonly pid: number;
  /**
   * Opens a connection to the agent's port; `reader` gets its bytes instead of `data`, where the engine supports that.
   */
  readonly openPort: (reader?: OnReadOpts) => Promise<Socket>;
  /** Lets the VMM save everything, memory included. Returns the pause of the guest in ms; the guest stays paused. */
  readonly save: () => Promise<number>;
  readonly kill: () => Promise<void>;
};

export interface BareEngine {
  /** The program's own version text. */
  readonly version: string;
  /** `dir` exists and belongs to the VM. `isStock`: with the CPU model that the program would emulate by default. */
  boot(spec: VmSpec, dir: string, isStock?: boolean): Promise<BareVm>;
  /** Restores from the files `memory` and `state` of `savedDir`. */
  restore(spec: VmSpec, savedDir: string, dir: string): Promise<BareVm>;
}

/** `startedAt`: performance.now() at the VMM's start, or for a restore before its layer was copied. */
type BareGuest = BareVm & { readonly dir: string; readonly startedAt: number } & AsyncDisposable;

export type BareOptions = {
  readonly initramfsPath?: string;
  readonly bootArgs?: string;
  readonly memoryMib?: number;
  readonly isStock?: boolean;
  /** The host reads as Node's streams do, into a new buffer each time. */
  readonly isStream?: boolean;
};

let chosen: BareEngine | undefined;

/** Reads the engine from a daemon's log. Must be called first. */
export async function chooseBareEngine(log: readonly LogLine[]): Promise<BareEngine> {
  const line = log.find(({ msg }) => msg === 'engine chosen');
  const reason = String(line?.reason);
  if (line?.engine === 'qemu') {
    const { BareQemu } = await import('./bare-qemu.ts');
    chosen = new BareQemu(reason.includes('(KVM)') ? 'kvm' : 'tcg');
  } else if (line?.engine === 'cloud-hypervisor') {
    const { BareCloudHypervisor } = await import('./bare-cloud-hypervisor.ts');
    chosen = new BareCloudHypervisor(/get their memory by (\w+)/.exec(reason)?.[1] ?? 'Copy');
  } else {
    throw new Error(`there is no baseline for the engine ${line?.engine}`);
  }
  return chosen;
}

function bareEngine(): BareEngine {
  if (chosen === undefined) throw new Error('no engine is chosen yet');
  return chosen;
}

/** Boots what a sandbox without options boots, or another program in its place. */
export async function startBareGuest(options: BareOptions = {}): Promise<BareGuest> {
  const dir = await makeDirectory();
  const kernel = await resolveKernel(BAKED_DATA_DIR);
  const { rootfsPath } = await resolveProfile(BAKED_DATA_DIR, 'base');
  const layer = join(dir, 'layer.ext4');
  await createWritableLayer(BAKED_DATA_DIR, layer, 4096 * 2 ** 20);
  const spec = {
    vcpus: 1,
    memoryMib: options.memoryMib ?? 512,
    kernelPath: kernel.vmlinuxPath,
    initramfsPath: options.initramfsPath ?? kernel.initramfsPath,
    bootArgs: options.bootArgs ?? '',
    disks: [
      { path: rootfsPath, isReadOnly: true },
      { path: layer, isReadOnly: false },
    ],
  };
  const startedAt = performance.now();
  return toGuest(await bareEngine().boot(spec, dir, options.isStock), dir, startedAt);
}

/** On the file system of the daemon's snapshots, because memory and layers are hard links and reflinks of them. */
async function makeDirectory(): Promise<string> {
  const parent = join(BAKED_DATA_DIR, 'test');
  await mkdir(parent, { recursive: true });
  return mkdtemp(join(parent, 'bare-'));
}

export async function readSaved(savedDir: string): Promise<SavedManifest> {
  return JSON.parse(await readFile(join(savedDir, 'manifest.json'), 'utf8')) as SavedManifest;
}

/** Copies the layer and restores the daemon's snapshot. */
export async function restoreBareGuest(savedDir: string, manifest: SavedManifest): Promise<BareGuest> {
  const dir = await makeDirectory();
  const { initramfsPath } = await resolveKernel(BAKED_DATA_DIR);
  const startedAt = performance.now();
  const layer = join(dir, 'layer');
  await copySparse(join(savedDir, 'disk'), layer);
  const { rootfsPath, agentPath } = manifest.options.rootfs;
  const spec = {
    vcpus: manifest.options.vcpus,
    memoryMib: manifest.options.memoryMib,
    kernelPath: '',
    initramfsPath,
    bootArgs: '',
    disks: [
      { path: rootfsPath, isReadOnly: true },
      { path: layer, isReadOnly: false },
      ...(agentPath === undefined ? [] : [{ path: agentPath, isReadOnly: true }]),
    ],
  };
  return toGuest(await bareEngine().restore(spec, savedDir, dir), dir, startedAt);
}

function toGuest(vm: BareVm, dir: string, startedAt: number): BareGuest {
  return {
    ...vm,
    dir,
    startedAt,
    [Symbol.asyncDispose]: async () => {
      await vm.kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Connects to a Unix socket as soon as it has a listener. */
export async function connectWhenReady(path: string, onread?: OnReadOpts): Promise<Socket> {
  for (;;) {
    const socket = await new Promise<Socket | undefined>((resolve) => {
      const attempt = connect({ path, ...(onread && { onread }) });
      attempt.once('connect', () => resolve(attempt));
      attempt.once('error', () => resolve(undefined));
    });
    if (socket !== undefined) return socket;
    await sleep(2);
  }
}
