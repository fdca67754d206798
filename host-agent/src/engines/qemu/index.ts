// The engine for all hosts: KVM where it works, software emulation elsewhere.
import { access, open, realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import { AppError } from '../../lib/errors.ts';
import { runProgram } from '../../lib/programs.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import { poll } from '../../lib/wait.ts';
import { adoptVmm, explainLostEnd } from '../adoption.ts';
import type {
  AdoptOptions,
  BootOptions,
  ColdBootOptions,
  Engine,
  EngineContext,
  EngineProbe,
  FoundVmm,
  GuestMemory,
  RestoreOptions,
  SavedVm,
  UsableEngine,
  Vm,
  VmmIdentity,
} from '../engine.ts';
import {
  findProgram,
  hostCpu,
  KVM_PATH,
  kvmObstacle,
  readKvmFacts,
  readProgramFacts,
} from '../host-facts.ts';
import type { Jail, View } from '../jail/jail.ts';
import { versionKey } from '../mapping.ts';
import { isDirect, startVmm } from '../start.ts';
import { tryGuest } from '../trial.ts';
import type { Vmm } from '../vmm.ts';
import { FIRST_INHERITED_FD, findVmms } from '../vmm-process.ts';
import {
  type Accelerator,
  buildQemuArgs,
  qemuCommandLine,
  TCG_BOOTED_OVERHEAD_MIB,
  TCG_CPU,
} from './args.ts';
import { BOARD } from './board.ts';
import { bootingQemu, QEMU } from './control.ts';
import { QEMU_PROGRAM, qemuFiles } from './files.ts';
import { SEALED_MAPPING, SealedMemories } from './sealed-memory.ts';

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

  async prepare(): Promise<void> {
    const { program, jail } = this.#setup;
    const path = findProgram(program);
    if (jail !== undefined) await Promise.all([jail.prepare(path), listFirmware(path)]);
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
  if (version === undefined) return `${program} is not installed (Debian package ${BOARD.package})`;
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

// Starts a VM, from its kernel or from saved state.

const LOAD_POLL_MS = 2;

/** What was found to work on this host. */
export type QemuSetup = {
  readonly program: string;
  readonly accelerator: Accelerator;
  readonly jail?: Jail | undefined;
  readonly memories: SealedMemories;
};

/** Descriptors that a VMM inherits to restore a saved guest. */
type Inherited = { readonly stateFd: number; readonly memoryFd: number };

export function bootQemu(options: ColdBootOptions, setup: QemuSetup): Promise<Vm> {
  const memory: GuestMemory =
    options.memoryPath === undefined ? { kind: 'anonymous' } : { kind: 'file', path: options.memoryPath };
  return startQemu(options, setup, memory);
}

export async function restoreQemu(options: RestoreOptions, setup: QemuSetup): Promise<Vm> {
  const { memoryPath, statePath } = options.saved;
  await using state = await open(statePath, 'r');
  if (options.ownsMemory) {
    // No other VM is harmed by what this one writes into it.
    await using file = await openRegular(memoryPath);
    const origin = { path: memoryPath, key: versionKey(await file.stat()) };
    const memory: GuestMemory = { kind: 'copy-on-write', path: await realpath(memoryPath), origin };
    return await startQemu(options, setup, memory, { stateFd: state.fd, memoryFd: file.fd });
  }
  const sealed = await setup.memories.hold(memoryPath);
  try {
    const inherited = { stateFd: state.fd, memoryFd: sealed.fd };
    const memory: GuestMemory = { kind: 'copy-on-write', path: SEALED_MAPPING, origin: sealed.origin };
    const vm = await startQemu(options, setup, memory, inherited);
    void vm.exited.then(() => sealed.release());
    return vm;
  } catch (error) {
    sealed.release();
    throw error;
  }
}

async function startQemu(
  options: BootOptions & Pick<RestoreOptions, 'beforeRun' | 'ownsMemory'>,
  { program: name, accelerator, jail }: QemuSetup,
  memory: GuestMemory,
  inherited?: Inherited,
): Promise<Vm> {
  const { spec, paths, beforeRun } = options;
  const program = findProgram(name);
  const files = qemuFiles(paths);
  // In its jail it cannot find its own directory.
  const firmware = jail === undefined ? [] : await listFirmware(program);
  const args = buildQemuArgs({
    spec,
    accelerator,
    isDirect: isDirect(options, jail),
    memory,
    ...(inherited !== undefined && { incomingFd: FIRST_INHERITED_FD, memoryFd: FIRST_INHERITED_FD + 1 }),
    waits: beforeRun !== undefined,
    ...files,
  });
  const ownsFile = memory.kind === 'file' || (memory.kind === 'copy-on-write' && options.ownsMemory === true);
  const inheritedFds = inherited === undefined ? [] : [inherited.stateFd, inherited.memoryFd];
  args.push(...firmware.flatMap((path) => ['-L', path]));
  const disks = (isReadOnly: boolean) =>
    spec.disks.filter((disk) => disk.isReadOnly === isReadOnly).map(({ path }) => path);
  const view: View = {
    reads: [
      ...firmware,
      ...(inherited === undefined ? [spec.kernelPath, spec.initramfsPath] : []),
      ...new Set(disks(true)),
    ],
    writes: [
      paths.socketDir,
      files.consolePath,
      files.statePath,
      ...disks(false),
      ...(ownsFile ? [memory.path] : []),
    ],
    devices: accelerator === 'kvm' ? [KVM_PATH] : [],
  };
  const run = beforeRun && ((vm: Vmm) => runLoaded(vm, beforeRun, options.signal));
  const launch = {
    program,
    argv0: QEMU_PROGRAM,
    args,
    memory,
    inheritedFds,
    jail,
    view,
    ...(run && { run, isFinal: true }),
  };
  const kind = inherited === undefined ? bootingQemu(qemuCommandLine(spec, accelerator)) : QEMU;
  return await startVmm(kind, options, launch);
}

/** The saved state is loaded by the VMM's main loop, usually before its first answer. */
async function runLoaded(vm: Vmm, beforeRun: () => Promise<void>, signal?: AbortSignal): Promise<void> {
  const either = signal === undefined ? vm.ended : AbortSignal.any([signal, vm.ended]);
  await poll(
    async () => ((await vm.checkState()).kind === 'paused' ? true : undefined),
    LOAD_POLL_MS,
    either,
  );
  await beforeRun();
  await vm.control.resume();
}

const firmwareOf = new Map<string, Promise<readonly string[]>>();

/** Directories of the firmware that the program loads into guests, as the program lists them: its jail shows them. */
export function listFirmware(program: string): Promise<readonly string[]> {
  let directories = firmwareOf.get(program);
  if (directories === undefined) {
    directories = queryFirmware(program);
    firmwareOf.set(program, directories);
  }
  return directories;
}

async function queryFirmware(program: string): Promise<readonly string[]> {
  const { stdout } = await runProgram(program, ['-L', 'help']);
  const named = stdout.split('\n').filter((line) => line.startsWith('/'));
  const found = named.map(async (line) => {
    const path = resolve(line);
    return (await access(path).then(
      () => true,
      () => false,
    ))
      ? [path]
      : [];
  });
  return (await Promise.all(found)).flat();
}
