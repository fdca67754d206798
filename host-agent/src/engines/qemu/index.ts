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
  UsableEngine,
  Vm,
  VmmIdentity,
} from '../engine.ts';
import { readLastWords } from '../last-words.ts';
import { adoptQemu, findQemus } from './adopt.ts';
import { type Accelerator, TCG_CPU } from './args.ts';
import { bootQemu, QEMU_PROGRAM, type QemuSetup, restoreQemu } from './boot.ts';
import { qemuFiles } from './files.ts';
import { probeQemu, readFingerprint } from './probe.ts';

/** Raised with every change of the device list: saved guests fit only the layout they were saved with. */
const LAYOUT_VERSION = 1;

export class QemuEngine implements Engine {
  readonly name = 'qemu';
  readonly accelerator: Accelerator;
  readonly #context: EngineContext;
  #version: string | undefined;

  constructor(context: EngineContext, accelerator: Accelerator) {
    this.#context = context;
    this.accelerator = accelerator;
  }

  get isEmulation(): boolean {
    return this.accelerator === 'tcg';
  }

  async probe(signal?: AbortSignal): Promise<EngineProbe> {
    const result = await probeQemu(this.#context, this.#setup, signal);
    if (result.isUsable) this.recall(result);
    return result;
  }

  fingerprint(): Promise<Readonly<Record<string, string>>> {
    return readFingerprint(this.#context, this.#setup);
  }

  recall({ version }: UsableEngine): void {
    this.#version = version;
  }

  async boot(options: ColdBootOptions): Promise<Vm> {
    this.#probedVersion();
    return bootQemu(options, this.#setup);
  }

  async restore(options: RestoreOptions): Promise<Vm> {
    this.#probedVersion();
    return restoreQemu(options, this.#setup);
  }

  compatibility(): Readonly<Record<string, string>> {
    const { accelerator } = this;
    const cpu = accelerator === 'tcg' ? TCG_CPU : hostCpu();
    return {
      engine: this.name,
      version: this.#probedVersion(),
      accelerator,
      cpu,
      layout: String(LAYOUT_VERSION),
    };
  }

  get #setup(): QemuSetup {
    return { program: this.#context.program ?? QEMU_PROGRAM, accelerator: this.accelerator };
  }

  #probedVersion(): string {
    if (this.#version === undefined) throw new AppError('internal', 'this engine was not probed yet');
    return this.#version;
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
