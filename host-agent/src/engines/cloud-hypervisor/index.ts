// The engine for hosts with KVM.
import { AppError } from '../../lib/errors.ts';
import { adoptVmm, explainLostEnd } from '../adoption.ts';
import type { VmmKind } from '../control.ts';
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
import { findProgram, hostCpu, kvmObstacle } from '../host-facts.ts';
import { findVmms } from '../vmm-process.ts';
import { cloudHypervisor } from './control.ts';
import { hasReset, readEvents } from './events.ts';
import { VMM_NAME, vmmFiles } from './files.ts';
import { MemoryModes } from './memory-modes.ts';
import { type Probed, probeHost, readFingerprint, readVersion, recallHost } from './probe.ts';
import { restoreVm } from './restore.ts';
import { removeStaging } from './staging.ts';
import { bootVm } from './start.ts';

/** Increment with every change of the device list: a saved guest fits only the layout that it was saved with. */
const LAYOUT_VERSION = 1;

export class CloudHypervisorEngine implements Engine {
  readonly name = VMM_NAME;
  readonly accelerator = 'kvm';
  readonly isEmulation = false;
  readonly #context: EngineContext;
  readonly #kind: VmmKind;
  readonly #modes: MemoryModes;
  #probed: Probed | undefined;

  constructor(context: EngineContext) {
    this.#context = context;
    this.#kind = cloudHypervisor(context.claimProgram);
    this.#modes = new MemoryModes(context.forkMemory);
  }

  async obstacle(): Promise<string | undefined> {
    const found = await readVersion(findProgram(this.#context.program ?? VMM_NAME));
    return found.isUsable ? kvmObstacle(this.#context.kvmPath) : found.reason;
  }

  async probe(signal?: AbortSignal): Promise<EngineProbe> {
    const { result, probed } = await probeHost(this.#context, this.#modes, signal);
    this.#probed = probed;
    return result;
  }

  fingerprint(): Promise<Readonly<Record<string, string>>> {
    return readFingerprint(this.#context);
  }

  recall(probe: UsableEngine): void {
    this.#probed = recallHost(this.#context, this.#modes, probe);
  }

  async boot(options: ColdBootOptions): Promise<Vm> {
    return bootVm(options, this.#assertProbed().setup);
  }

  async prepare(): Promise<void> {
    const { program = VMM_NAME, jail } = this.#context;
    await jail?.prepare(findProgram(program));
  }

  async restore(options: RestoreOptions): Promise<Vm> {
    return restoreVm(options, this.#assertProbed().setup, this.#modes);
  }

  /** Disk sizes of a fork are written into the saved state, which requires a known format. */
  get takesOtherDisks(): boolean {
    return this.#probed?.setup.knowsState === true;
  }

  /** A saved guest can be restored only by the same VMM version on the same CPU model. */
  compatibility(): Readonly<Record<string, string>> {
    const { version } = this.#assertProbed();
    return { engine: this.name, version, cpu: hostCpu(), layout: String(LAYOUT_VERSION) };
  }

  adopt(identity: VmmIdentity, options: AdoptOptions): Vm | null {
    const onAnswer = async (): Promise<void> => {
      await removeStaging(identity.paths.dir);
      if (identity.jail !== undefined) await this.#context.jail?.limitDisk(identity.jail);
    };
    return adoptVmm(this.#kind, identity, { ...options, onAnswer });
  }

  async explainEnd({ paths }: VmmIdentity): Promise<string> {
    const files = vmmFiles(paths);
    return explainLostEnd(files, async () =>
      hasReset(await readEvents(files.eventsPath)) ? 'the guest reset itself' : undefined,
    );
  }

  findVmms(runDir: string): FoundVmm[] {
    return findVmms(this.#kind, runDir);
  }

  #assertProbed(): Probed {
    if (this.#probed === undefined) throw new AppError('internal', 'this engine was not probed yet');
    return this.#probed;
  }
}
