// The engine driven bare: the same kernel, disks and devices as a sandbox, without the daemon.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createWritableLayer, resolveKernel, resolveProfile } from '@sandboxd/rootfs-builder';
import { buildQemuArgs } from '../../host-agent/src/engines/qemu/args.ts';
import { BAKED_DATA_DIR } from '../support/daemon.ts';

export type BareGuest = {
  /** A new connection to the agent's port. */
  readonly openPort: () => Promise<Socket>;
  readonly pid: number;
  /** performance.now() at the VMM's start. */
  readonly startedAt: number;
} & AsyncDisposable;

export type BareOptions = {
  readonly initramfsPath?: string;
  readonly bootArgs?: string;
  readonly memoryMib?: number;
  /** Changes the engine's arguments, for experiments. */
  readonly mapArgs?: (args: string[]) => string[];
};

/** Connects to a Unix socket as soon as somebody listens. */
export async function connectWhenReady(path: string): Promise<Socket> {
  for (;;) {
    const socket = await new Promise<Socket | undefined>((resolve) => {
      const attempt = connect({ path });
      attempt.once('connect', () => resolve(attempt));
      attempt.once('error', () => resolve(undefined));
    });
    if (socket !== undefined) return socket;
    await sleep(2);
  }
}

export async function startBareGuest(options: BareOptions = {}): Promise<BareGuest> {
  const dir = await mkdtemp(join(tmpdir(), 'bare-'));
  const kernel = await resolveKernel(BAKED_DATA_DIR);
  const { rootfsPath } = await resolveProfile(BAKED_DATA_DIR, 'base');
  const layer = join(dir, 'layer.ext4');
  await createWritableLayer(BAKED_DATA_DIR, layer, 4096 * 2 ** 20);
  const agentSocketPath = join(dir, 'agent.sock');
  const args = buildQemuArgs({
    spec: {
      vcpus: 1,
      memoryMib: options.memoryMib ?? 512,
      kernelPath: kernel.vmlinuxPath,
      initramfsPath: options.initramfsPath ?? kernel.initramfsPath,
      bootArgs: options.bootArgs ?? '',
      disks: [
        { path: rootfsPath, isReadOnly: true },
        { path: layer, isReadOnly: false },
      ],
    },
    accelerator: 'tcg',
    memory: { kind: 'anonymous' },
    qmpSocketPath: join(dir, 'qmp.sock'),
    agentSocketPath,
    consolePath: join(dir, 'console.log'),
  });
  const startedAt = performance.now();
  const child: ChildProcess = spawn('qemu-system-x86_64', options.mapArgs?.(args) ?? args, {
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  return {
    pid: child.pid ?? 0,
    startedAt,
    openPort: () => connectWhenReady(agentSocketPath),
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL');
      await exited;
      await rm(dir, { recursive: true, force: true });
    },
  };
}
