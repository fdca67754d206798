// An engine whose VMs are objects of this process. It counts its calls and fails where a test requests it. Its VMs
// outlive their daemon, for the next one to adopt.
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type {
  AdoptOptions,
  ColdBootOptions,
  Engine,
  EngineProbe,
  FoundVmm,
  RestoreOptions,
  SavedVm,
  SaveOptions,
  Vm,
  VmExit,
  VmmIdentity,
} from '../../../host-agent/src/engines/engine.ts';
import { beginSharedLog } from '../../../host-agent/src/engines/page-log.ts';
import { readBootId } from '../../../host-agent/src/lib/proc.ts';
import { type AgentFaults, type AgentState, MemoryAgent } from './agent.ts';
import { loopLinks } from './link.ts';

/** Above every pid that Linux assigns, so that no real process is ever signalled. */
const FIRST_PID = 2 ** 23;

/** The running machines, independent of the daemon that started them. */
export class MemoryHost {
  readonly machines: Machine[] = [];
  /** Called before each step with the number of earlier ones of its kind. It may wait or throw. */
  onBoot: (count: number) => void | Promise<void> = () => undefined;
  onRestore: (count: number) => void | Promise<void> = () => undefined;
  onSave: (count: number) => void | Promise<void> = () => undefined;
  /** Called while a guest is paused. */
  onPaused: (count: number) => void | Promise<void> = () => undefined;
  /** Faults of agents that start from now on. */
  agentFaults: AgentFaults = {};
  onKill: (count: number) => void | Promise<void> = () => undefined;
  /** Memory that the next copy of any snapshot claims for all later ones. */
  neededBytes = 0;
  /** Content of a saved guest's memory file. */
  savedMemory: string | Uint8Array = 'memory';
  /** Of `savedMemory`, in whole pages, only what differs from an earlier copy is written. */
  logsChanges = false;
  /** Processes that look like VMMs of this run directory. */
  foreignVmms: readonly FoundVmm[] = [];
  /** Whether copies may have other disks. */
  takesOtherDisks = false;
  readonly counts = { prepares: 0, boots: 0, restores: 0, saves: 0, channels: 0, kills: 0, adopts: 0 };

  get running(): readonly Machine[] {
    return this.machines.filter((machine) => machine.exit === undefined);
  }

  start(identity: Omit<VmmIdentity, 'pid' | 'startTicks'>, state?: AgentState): Machine {
    const pid = FIRST_PID + this.machines.length;
    const machine = new Machine(
      { ...identity, pid, startTicks: pid },
      new MemoryAgent(state, this.agentFaults),
    );
    this.machines.push(machine);
    return machine;
  }

  /** The running machine of a sandbox, by its socket directory's last component. */
  of(sandboxId: string): Machine {
    const found = this.running.find(({ identity }) => identity.paths.socketDir.endsWith(sandboxId));
    if (found === undefined) throw new Error(`no machine of ${sandboxId} runs`);
    return found;
  }
}

/** One VMM and its guest. */
export class Machine {
  readonly identity: VmmIdentity;
  readonly agent: MemoryAgent;
  readonly exited: Promise<VmExit>;
  exit: VmExit | undefined;
  isPaused = false;
  hasSpoken = false;
  standstill: string | undefined;
  isAnswering = true;
  /** Its options; for an adopted machine, those of the daemon that started it. */
  spec: ColdBootOptions['spec'] | undefined;
  /** Disks that were informed of a new size: index and bytes. */
  readonly resizes: (readonly [number, number])[] = [];
  readonly #resolve: (exit: VmExit) => void;

  constructor(identity: VmmIdentity, agent: MemoryAgent) {
    this.identity = identity;
    this.agent = agent;
    const { promise, resolve } = Promise.withResolvers<VmExit>();
    this.exited = promise;
    this.#resolve = resolve;
  }

  end(reason: string): void {
    if (this.exit !== undefined) return;
    this.exit = { reason, exitCode: null, signal: null };
    this.agent.cut(new Error(reason));
    this.#resolve(this.exit);
  }
}

export class MemoryEngine implements Engine {
  readonly name = 'memory';
  readonly accelerator = 'none';
  readonly isEmulation = false;
  readonly host: MemoryHost;
  readonly #facts: Readonly<Record<string, string>>;

  constructor(host: MemoryHost, facts: Readonly<Record<string, string>> = { engine: 'memory 1' }) {
    this.host = host;
    this.#facts = facts;
  }

  async obstacle(): Promise<undefined> {}

  async probe(): Promise<EngineProbe> {
    return { isUsable: true, version: '1', detail: 'guests are objects' } as EngineProbe;
  }

  async fingerprint(): Promise<Readonly<Record<string, string>>> {
    return this.#facts;
  }

  get takesOtherDisks(): boolean {
    return this.host.takesOtherDisks;
  }

  recall(): void {}

  async prepare(): Promise<void> {
    this.host.counts.prepares += 1;
  }

  async boot(options: ColdBootOptions): Promise<Vm> {
    await this.host.onBoot(++this.host.counts.boots);
    const { memoryPath } = options;
    if (memoryPath !== undefined) await writeFile(memoryPath, 'memory');
    return this.#start(options, memoryPath === undefined ? undefined : { kind: 'file', path: memoryPath });
  }

  async restore(options: RestoreOptions): Promise<Vm> {
    await this.host.onRestore(++this.host.counts.restores);
    const state = JSON.parse(await readFile(options.saved.statePath, 'utf8')) as AgentState;
    return this.#start(options, { kind: 'copy-on-write', path: options.saved.memoryPath }, state);
  }

  async neededBytes(): Promise<number> {
    return this.host.neededBytes;
  }

  compatibility(): Readonly<Record<string, string>> {
    return this.#facts;
  }

  adopt(identity: VmmIdentity, { onResumed }: AdoptOptions): Vm | null {
    this.host.counts.adopts++;
    const machine = this.host.machines[identity.pid - FIRST_PID];
    if (machine === undefined || machine.exit !== undefined) return null;
    if (machine.isPaused) {
      machine.isPaused = false;
      queueMicrotask(() => onResumed?.());
    }
    return new MemoryVm(this.host, machine);
  }

  async explainEnd(): Promise<string> {
    return 'it ended while nobody looked';
  }

  /** Machines have no process to kill. */
  findVmms(): FoundVmm[] {
    return [...this.host.foreignVmms];
  }

  async #start(
    { spec, paths, onSpawn, beforeRun, signal }: ColdBootOptions & Pick<RestoreOptions, 'beforeRun'>,
    memory: VmmIdentity['memory'] = { kind: 'anonymous' },
    state?: AgentState,
  ): Promise<Vm> {
    signal?.throwIfAborted();
    const machine = this.host.start({ engine: this.name, bootId: readBootId(), paths, memory }, state);
    machine.spec = spec;
    try {
      await onSpawn?.(machine.identity);
      await beforeRun?.();
      signal?.throwIfAborted();
      return new MemoryVm(this.host, machine);
    } catch (error) {
      machine.end('not wanted any more');
      throw error;
    }
  }
}

class MemoryVm implements Vm {
  readonly #host: MemoryHost;
  readonly #machine: Machine;
  readonly exited: Promise<VmExit>;
  #isDetached = false;

  constructor(host: MemoryHost, machine: Machine) {
    this.#host = host;
    this.#machine = machine;
    this.exited = new Promise((resolve) => {
      // After a detach, the daemon gets no exit event.
      void machine.exited.then((exit) => this.#isDetached || resolve(exit));
    });
  }

  get identity(): VmmIdentity {
    return this.#machine.identity;
  }

  get exit(): VmExit | undefined {
    return this.#machine.exit;
  }

  get ioPauseReason(): string | undefined {
    return this.#machine.standstill;
  }

  async openChannel(): ReturnType<Vm['openChannel']> {
    this.#host.counts.channels++;
    if (this.exit !== undefined) throw new Error(`the VM ended: ${this.exit.reason}`);
    const links = loopLinks();
    const { agent, hasSpoken: needsResync } = this.#machine;
    agent.attach(links.guest, needsResync || agent.state.isMidFrame);
    this.#machine.hasSpoken = true;
    return { link: links.host, needsResync };
  }

  async save({
    dir,
    since,
    beforePause,
    whilePaused,
    afterPause,
    staysPaused = false,
    commit,
  }: SaveOptions): ReturnType<Vm['save']> {
    const count = ++this.#host.counts.saves;
    await this.#host.onSave(count);
    const machine = this.#machine;
    await beforePause?.();
    machine.isPaused = true;
    let isSaved = false;
    try {
      const saved: SavedVm = { memoryPath: join(dir, 'memory'), statePath: join(dir, 'state') };
      await writeFile(saved.memoryPath, this.#host.savedMemory);
      await writeFile(saved.statePath, JSON.stringify(machine.agent.saved));
      const written = { ...saved, pausedMs: 1, ...(await this.#logChanges(dir, saved, since)) };
      await whilePaused();
      await this.#host.onPaused(count);
      if (staysPaused) await commit?.(written);
      isSaved = true;
      return written;
    } finally {
      machine.isPaused = staysPaused && (isSaved || commit === undefined);
      afterPause?.();
    }
  }

  async #logChanges(dir: string, { memoryPath }: SavedVm, since: string | undefined) {
    if (since === undefined || !this.#host.logsChanges) return {};
    const changesPath = join(dir, 'changes');
    const memoryBytes = this.#host.savedMemory.length;
    const log = await beginSharedLog({ memoryBytes, base: since, target: changesPath });
    await log(memoryPath);
    await rm(memoryPath);
    return { memoryPath: since, changesPath };
  }

  async resizeDisk(index: number, sizeBytes: number): Promise<void> {
    this.#machine.resizes.push([index, sizeBytes]);
  }

  async kill(): Promise<void> {
    await this.#host.onKill(++this.#host.counts.kills);
    this.#machine.end('stopped');
  }

  async isEnding(): Promise<boolean> {
    return this.exit !== undefined;
  }

  async responds(): Promise<boolean> {
    return this.#machine.isAnswering;
  }

  async readBlockedTask(): Promise<undefined> {}

  detach(): void {
    this.#isDetached = true;
    this.#machine.agent.cut();
  }

  async diagnose(): Promise<string> {
    return 'console: (empty)';
  }
}
