// Baseline: QEMU without the daemon, with the daemon's own arguments.
import { execFileSync, spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { GuestMemory, VmSpec } from '../../host-agent/src/engines/engine.ts';
import {
  type Accelerator,
  buildQemuArgs,
  qemuCommandLine,
  TCG_CPU,
} from '../../host-agent/src/engines/qemu/args.ts';
import { QmpClient } from '../../host-agent/src/engines/qemu/qmp.ts';
import { type BareEngine, type BareVm, connectWhenReady } from './bare.ts';

const PROGRAM = 'qemu-system-x86_64';
const INCOMING_FD = 3;
const CONTROL_TIMEOUT_MS = 30_000;

export class BareQemu implements BareEngine {
  readonly version = execFileSync(PROGRAM, ['--version']).toString().split('\n')[0] ?? '';
  readonly #accelerator: Accelerator;

  constructor(accelerator: Accelerator) {
    this.#accelerator = accelerator;
  }

  async boot(spec: VmSpec, dir: string, isStock = false): Promise<BareVm> {
    // The daemon sends the kernel's command line over the control socket to hide it from other users; that is not
    // needed here.
    const toBare = (arg: string): string[] => {
      if (arg === '-preconfig') return ['-append', qemuCommandLine(spec, this.#accelerator)];
      return [isStock && arg === TCG_CPU ? 'max' : arg];
    };
    return this.#start(spec, dir, { kind: 'anonymous' }, undefined, toBare);
  }

  async restore(spec: VmSpec, savedDir: string, dir: string): Promise<BareVm> {
    await using state = await open(join(savedDir, 'state'), 'r');
    return this.#start(spec, dir, { kind: 'copy-on-write', path: join(savedDir, 'memory') }, state.fd);
  }

  #start(
    spec: VmSpec,
    dir: string,
    memory: GuestMemory,
    stateFd?: number,
    toArgs = (arg: string): string[] => [arg],
  ): BareVm {
    const [controlSocketPath, agentSocketPath] = [join(dir, 'qmp.sock'), join(dir, 'agent.sock')];
    const args = buildQemuArgs({
      spec,
      accelerator: this.#accelerator,
      memory,
      ...(stateFd !== undefined && { incomingFd: INCOMING_FD }),
      controlSocketPath,
      agentSocketPath,
      consolePath: join(dir, 'console.log'),
    });
    // On restore, QEMU reports an error for a stream that ends after the device state.
    const output = stateFd === undefined ? 'inherit' : 'ignore';
    const inherited = stateFd === undefined ? [] : [stateFd];
    const child = spawn(PROGRAM, args.flatMap(toArgs), { stdio: ['ignore', 'ignore', output, ...inherited] });
    const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    return {
      pid: child.pid ?? 0,
      openPort: (reader) => connectWhenReady(agentSocketPath, reader),
      save: () => saveToStream(dir, controlSocketPath),
      kill: async () => {
        child.kill('SIGKILL');
        await exited;
      },
    };
  }
}

/** Saves everything, memory included, to one stream. */
async function saveToStream(dir: string, controlSocketPath: string): Promise<number> {
  const control = await QmpClient.open(
    await connectWhenReady(controlSocketPath),
    () => undefined,
    AbortSignal.timeout(CONTROL_TIMEOUT_MS),
  );
  const server = createServer((socket) => socket.pipe(createWriteStream(join(dir, 'saved'))));
  const path = join(dir, 'migrate.sock');
  await new Promise<void>((resolve) => server.listen(path, resolve));
  // The bare VMM limits the bandwidth to 128 MiB/s by default.
  await control.execute('migrate-set-parameters', { 'max-bandwidth': 2 ** 40 });
  const startedAt = performance.now();
  await control.execute('stop');
  await control.execute('migrate', { uri: `unix:${path}` });
  for (;;) {
    const { status } = (await control.execute('query-migrate')) as { status: string };
    if (status === 'completed') break;
    if (status === 'failed') throw new Error('the bare save failed');
    await sleep(2);
  }
  const ms = performance.now() - startedAt;
  control.close();
  server.close();
  return ms;
}
