// Baseline: Cloud Hypervisor without the daemon, with the daemon's own arguments and configuration.
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import type { Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { AGENT_VSOCK_PORT } from '@sandboxd/proto';
import { isStillRestoring, VmmApi } from '../../host-agent/src/engines/cloud-hypervisor/api.ts';
import { vmmArguments, vmmFiles } from '../../host-agent/src/engines/cloud-hypervisor/files.ts';
import { type MemoryMode, requestOf } from '../../host-agent/src/engines/cloud-hypervisor/memory-modes.ts';
import { landlockObstacle } from '../../host-agent/src/engines/cloud-hypervisor/probe.ts';
import { layOutCopy } from '../../host-agent/src/engines/cloud-hypervisor/restore.ts';
import { linkMemory } from '../../host-agent/src/engines/cloud-hypervisor/saved-files.ts';
import { buildVmConfig } from '../../host-agent/src/engines/cloud-hypervisor/vm-config.ts';
import type { VmSpec } from '../../host-agent/src/engines/engine.ts';
import { connectUnix } from '../../host-agent/src/lib/socket-link.ts';
import type { BareEngine, BareVm } from './bare.ts';

const PROGRAM = process.env.SANDBOXD_CLOUD_HYPERVISOR_PROGRAM ?? 'cloud-hypervisor';
const RETRY_MS = 200;
const CALL = { timeoutMs: 600_000 };

export class BareCloudHypervisor implements BareEngine {
  readonly version = execFileSync(PROGRAM, ['--version']).toString().split('\n')[0] ?? '';
  readonly #hasLandlock = landlockObstacle() === undefined;
  readonly #mode: MemoryMode['name'];

  constructor(mode: string) {
    this.#mode = mode as MemoryMode['name'];
  }

  async boot(spec: VmSpec, dir: string): Promise<BareVm> {
    const files = vmmFiles({ dir, socketDir: dir });
    await mkdir(files.startDir);
    await symlink(spec.kernelPath, files.startKernelPath);
    const { vm, api } = await start(dir);
    await api.put(
      'vm.create',
      buildVmConfig({ spec, files, hasLandlock: this.#hasLandlock, isDirect: false }),
      CALL,
    );
    await api.put('vm.boot', undefined, CALL);
    return vm;
  }

  async restore(spec: VmSpec, savedDir: string, dir: string): Promise<BareVm> {
    const files = vmmFiles({ dir, socketDir: dir });
    await mkdir(files.startDir);
    const saved = { memoryPath: join(savedDir, 'memory'), statePath: join(savedDir, 'state') };
    await linkMemory(saved, files.startDir);
    const knowsState = this.#mode === 'MappedFile';
    await layOutCopy(
      saved,
      { spec, files, hasLandlock: this.#hasLandlock, isDirect: false, knowsState },
      this.#mode,
    );
    const { vm, api } = await start(dir);
    const request = {
      source_url: `file://${files.startDir}`,
      memory_restore_mode: requestOf(this.#mode),
      resume: true,
    };
    await api.put('vm.restore', request, CALL);
    return vm;
  }
}

async function start(dir: string): Promise<{ readonly vm: BareVm; readonly api: VmmApi }> {
  const files = vmmFiles({ dir, socketDir: dir });
  const log = openSync(files.logPath, 'a');
  const child = spawn(PROGRAM, vmmArguments(files), { stdio: ['ignore', log, log] });
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const api = new VmmApi(files.controlSocketPath);
  while ((await api.ping(CALL).catch(() => undefined)) === undefined) await sleep(2);
  const vm = {
    pid: child.pid ?? 0,
    openPort: () => dialGuest(files.vsockPath),
    save: () => save(api, join(dir, 'saved')),
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
  return { vm, api };
}

/** Connects to the agent's port; returns the guest's side of the connection. */
async function dialGuest(socketPath: string): Promise<Socket> {
  // Paced as the daemon's own tries: each costs CPU time of the guest.
  let [limitMs, pauseMs] = [100, 5];
  for (;;) {
    const socket = await connectUnix(socketPath);
    socket.write(`CONNECT ${AGENT_VSOCK_PORT}\n`);
    // Before the guest's driver is up, no connection is ever answered.
    const limit = setTimeout(() => socket.destroy(), limitMs);
    await Promise.race([once(socket, 'readable'), once(socket, 'close')]).catch(() => undefined);
    clearTimeout(limit);
    const answer = (socket.read() as Buffer | null) ?? Buffer.alloc(0);
    if (answer.toString('latin1', 0, 3) === 'OK ') {
      socket.unshift(answer.subarray(answer.indexOf('\n') + 1));
      return socket;
    }
    socket.on('error', () => undefined).destroy();
    await sleep(pauseMs);
    [limitMs, pauseMs] = [Math.min(1500, limitMs * 1.5), Math.min(RETRY_MS, pauseMs * 2)];
  }
}

async function save(api: VmmApi, to: string): Promise<number> {
  await mkdir(to);
  for (;;) {
    const startedAt = performance.now();
    await api.put('vm.pause', undefined, CALL);
    try {
      await api.put('vm.snapshot', { destination_url: `file://${to}` }, CALL);
      return performance.now() - startedAt;
    } catch (error) {
      // Its own memory is still being loaded.
      if (!isStillRestoring(error)) throw error;
      await api.put('vm.resume', undefined, CALL);
      await sleep(RETRY_MS);
    }
  }
}
