// The engine for hosts of every kind: KVM where guests run on it, software emulation elsewhere.
import { cpus } from 'node:os';
import type { Logger } from 'pino';
import { AppError } from '../../lib/errors.ts';
import type {
  ColdBootOptions,
  Engine,
  EngineContext,
  EngineProbe,
  RestoreOptions,
  Vm,
  VmmIdentity,
} from '../engine.ts';
import { type Accelerator, TCG_CPU } from './args.ts';
import { bootQemu, connectControl, restoreQemu } from './boot.ts';
import { qemuFiles } from './files.ts';
import { probeQemu } from './probe.ts';
import { watchVmm } from './process.ts';
import { QemuVm } from './vm.ts';

/** Raised with every change of the device list: saved guests fit only the layout they were saved with. */
const LAYOUT_VERSION = 1;

export class QemuEngine implements Engine {
  readonly name = 'qemu';
  readonly #context: EngineContext;
  #working: { readonly accelerator: Accelerator; readonly version: string } | undefined;

  constructor(context: EngineContext) {
    this.#context = context;
  }

  async probe(signal?: AbortSignal): Promise<EngineProbe> {
    const { accelerator, result } = await probeQemu(this.#context, signal);
    if (result.isUsable) this.#working = { accelerator, version: result.version };
    return result;
  }

  boot(options: ColdBootOptions): Promise<Vm> {
    return bootQemu(options, this.#probed().accelerator);
  }

  restore(options: RestoreOptions): Promise<Vm> {
    return restoreQemu(options, this.#probed().accelerator);
  }

  compatibility(): Readonly<Record<string, string>> {
    const { accelerator, version } = this.#probed();
    const cpu = accelerator === 'tcg' ? TCG_CPU : hostCpu();
    return { engine: this.name, version, accelerator, cpu, layout: String(LAYOUT_VERSION) };
  }

  #probed(): { readonly accelerator: Accelerator; readonly version: string } {
    if (this.#working === undefined) throw new AppError('internal', 'this engine was not probed yet');
    return this.#working;
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

/** A guest that runs on the host's own CPU model can go on only on an equal one. */
function hostCpu(): string {
  return cpus()[0]?.model.trim() ?? 'unknown';
}
