// The engine for all hosts: KVM where it works, software emulation elsewhere.
import { AppError } from '../../lib/errors.ts';
import { runProgram } from '../../lib/programs.ts';
import { adoptVmm, explainLostEnd } from '../adoption.ts';
import type {
  AdoptOptions,
  ColdBootOptions,
  Engine,
  EngineContext,
  EngineProbe,
  FoundVmm,
  RestoreOptions,
  SavedVm,
  UsableEngine,
  Vm,
  VmmIdentity,
} from '../engine.ts';
import { hostCpu, kvmObstacle, readKvmFacts, readProgramFacts } from '../host-facts.ts';
import { tryGuest } from '../trial.ts';
import { findVmms } from '../vmm-process.ts';
import { type Accelerator, TCG_BOOTED_OVERHEAD_MIB, TCG_CPU } from './args.ts';
import { bootQemu, type QemuSetup, restoreQemu } from './boot.ts';
import { QEMU } from './control.ts';
import { QEMU_PROGRAM, qemuFiles } from './files.ts';
import { SealedMemories } from './sealed-memory.ts';

/** Increment with every change of the device list: a saved guest fits only the layout that it was saved with. */
const LAYOUT_VERSION = 2;

export class QemuEngine implements Engine {
  readonly name = QEMU.name;
  readonly accelerator: Accelerator;
  /** A disk's size is read from its file when the guest's driver binds the device, and is not in the saved state. */
  readonly takesOtherDisks = true;
  readonly #context: EngineContext;
  readonly #memories: SealedMemories;
  #version: string | undefined;

  constructor(context: EngineContext, accelerator: Accelerator) {
    this.#context = context;
    this.#memories = new SealedMemories(context.memfdProgram);
    this.accelerator = accelerator;
  }

  get isEmulation(): boolean {
    return this.accelerator === 'tcg';
  }

  async obstacle(): Promise<string | undefined> {
    return findObstacle(this.#context, this.#setup, await readVersion(this.#setup.program));
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

  get bootedOverheadMib(): number | undefined {
    return this.isEmulation ? TCG_BOOTED_OVERHEAD_MIB : undefined;
  }

  get sharedBytes(): number {
    return this.#memories.sizeBytes;
  }

  neededBytes({ memoryPath }: SavedVm): Promise<number> {
    return this.#memories.neededBytes(memoryPath);
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
    const { program = QEMU_PROGRAM, jail } = this.#context;
    return { program, accelerator: this.accelerator, jail, memories: this.#memories };
  }

  #probedVersion(): string {
    if (this.#version === undefined) throw new AppError('internal', 'this engine was not probed yet');
    return this.#version;
  }

  adopt(identity: VmmIdentity, options: AdoptOptions): Vm | null {
    return adoptVmm(QEMU, identity, options);
  }

  async explainEnd({ paths }: VmmIdentity): Promise<string> {
    return explainLostEnd(qemuFiles(paths));
  }

  findVmms(runDir: string): FoundVmm[] {
    return findVmms(QEMU, runDir);
  }
}

const VERSION_TIMEOUT_MS = 10_000;

/** Why guests do not run here, from what can be seen without one. */
async function findObstacle(
  { forkMemory, kvmPath }: EngineContext,
  { program, accelerator }: QemuSetup,
  version: string | undefined,
): Promise<string | undefined> {
  if (version === undefined) return `${program} is not installed (Debian package qemu-system-x86)`;
  if (forkMemory !== 'auto' && forkMemory !== 'copy-on-write')
    return `its copies always copy memory on write, and fork_memory asks for ${forkMemory}`;
  return accelerator === 'kvm' ? kvmObstacle(kvmPath) : undefined;
}

async function probeQemu(
  context: EngineContext,
  setup: QemuSetup,
  signal?: AbortSignal,
): Promise<EngineProbe> {
  const { program, accelerator } = setup;
  const refuse = (reason: string): EngineProbe => ({ isUsable: false, reason });
  const version = await readVersion(program);
  const obstacle = await findObstacle(context, setup, version);
  if (version === undefined || obstacle !== undefined) return refuse(obstacle ?? 'it has no version');
  const failure = await tryGuest({
    context,
    boot: (options) => bootQemu(options, setup),
    restore: (options) => restoreQemu(options, setup),
    consolePath: (paths) => qemuFiles(paths).consolePath,
    signal,
  });
  if (failure !== undefined) return refuse(failure);
  const detail =
    accelerator === 'kvm'
      ? 'hardware virtualisation (KVM)'
      : 'software emulation (TCG), which is not an isolation boundary';
  return { isUsable: true, version, detail };
}

async function readFingerprint(
  { program: named, kvmPath, forkMemory }: EngineContext,
  { accelerator }: QemuSetup,
): Promise<Readonly<Record<string, string>>> {
  const program = named ?? QEMU_PROGRAM;
  const version = (await readVersion(program)) ?? 'absent';
  const device = accelerator === 'kvm' ? await readKvmFacts(kvmPath) : '';
  return { ...(await readProgramFacts(program)), version, device, forkMemory };
}

async function readVersion(program: string): Promise<string | undefined> {
  try {
    const { stdout } = await runProgram(program, ['--version'], { timeout: VERSION_TIMEOUT_MS });
    return /version (\S+)/.exec(stdout)?.[1] ?? 'unknown';
  } catch {
    return undefined;
  }
}
