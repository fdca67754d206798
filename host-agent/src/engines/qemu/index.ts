// The engine for hosts of every kind: KVM where guests run on it, software emulation elsewhere.
import type { Logger } from 'pino';
import { AppError } from '../../lib/errors.ts';
import type { BootOptions, Engine, EngineContext, EngineProbe, Vm, VmmIdentity } from '../engine.ts';
import type { Accelerator } from './args.ts';
import { bootQemu, connectControl } from './boot.ts';
import { qemuFiles } from './files.ts';
import { probeQemu } from './probe.ts';
import { watchVmm } from './process.ts';
import { QemuVm } from './vm.ts';

export class QemuEngine implements Engine {
  readonly name = 'qemu';
  readonly #context: EngineContext;
  #accelerator: Accelerator | undefined;

  constructor(context: EngineContext) {
    this.#context = context;
  }

  async probe(signal?: AbortSignal): Promise<EngineProbe> {
    const { accelerator, result } = await probeQemu(this.#context, signal);
    if (result.isUsable) this.#accelerator = accelerator;
    return result;
  }

  boot(options: BootOptions): Promise<Vm> {
    if (this.#accelerator === undefined) throw new AppError('internal', 'this engine was not probed yet');
    return bootQemu(options, this.#accelerator);
  }

  async adopt(identity: VmmIdentity, log: Logger): Promise<Vm | null> {
    const process = watchVmm(identity.pid, identity.startTicks);
    if (process === null) return null;
    const files = qemuFiles(identity.paths);
    const vm = new QemuVm({ identity, process, files, log, hasHistory: true });
    await connectControl(vm, files.qmpSocketPath);
    return vm;
  }
}
