// The engine for hosts of every kind: KVM where guests run on it, software emulation elsewhere.
import { cpus } from 'node:os';
import { AppError } from '../../lib/errors.ts';
import type {
  AdoptOptions,
  ColdBootOptions,
  Engine,
  EngineContext,
  EngineProbe,
  FoundVmm,
  RestoreOptions,
  Vm,
  VmmIdentity,
} from '../engine.ts';
import { readLastWords } from '../last-words.ts';
import { adoptQemu, findQemus } from './adopt.ts';
import { type Accelerator, TCG_CPU } from './args.ts';
import { bootQemu, QEMU_PROGRAM, type QemuSetup, restoreQemu } from './boot.ts';
import { qemuFiles } from './files.ts';
import { probeQemu } from './probe.ts';

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
    return bootQemu(options, this.#setup());
  }

  restore(options: RestoreOptions): Promise<Vm> {
    return restoreQemu(options, this.#setup());
  }

  compatibility(): Readonly<Record<string, string>> {
    const { accelerator, version } = this.#probed();
    const cpu = accelerator === 'tcg' ? TCG_CPU : hostCpu();
    return { engine: this.name, version, accelerator, cpu, layout: String(LAYOUT_VERSION) };
  }

  #setup(): QemuSetup {
    return { program: this.#context.program ?? QEMU_PROGRAM, accelerator: this.#probed().accelerator };
  }

  #probed(): { readonly accelerator: Accelerator; readonly version: string } {
    if (this.#working === undefined) throw new AppError('internal', 'this engine was not probed yet');
    return this.#working;
  }

  adopt(identity: VmmIdentity, options: AdoptOptions): Vm | null {
    return adoptQemu(identity, options);
  }

  async explainEnd({ paths }: VmmIdentity): Promise<string> {
    return (await readLastWords(qemuFiles(paths).consolePath)) ?? 'the VMM ended while no daemon ran';
  }

  findVmms(runDir: string): FoundVmm[] {
    return findQemus(runDir);
  }
}

/** A guest that runs on the host's own CPU model can go on only on an equal one. */
function hostCpu(): string {
  return cpus()[0]?.model.trim() ?? 'unknown';
}
