// One existing sandbox: its state, VM, guest and deletion.
import type { ExecRequest } from '@sandboxd/api';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Vm, VmExit } from '../engines/engine.ts';
import type { ExecEvents, ExecOptions, ExecSession } from '../guest/exec.ts';
import type { GuestFiles } from '../guest/files.ts';
import type { Guest } from '../guest/guest.ts';
import { AppError } from '../lib/errors.ts';
import type { SandboxLog } from '../logs/index.ts';
import type { AuthorityInfo } from './authorities.ts';
import { createReaderLimit, createSandboxCommands, type SandboxCommands } from './commands.ts';
import { Deletion } from './deletion.ts';
import { startObserved } from './exec.ts';
import { type SandboxUse, trackTransferUse } from './idle/sandbox-use.ts';
import { type SandboxOwner, Timeouts } from './idle/timeouts.ts';
import type { AwakeSandbox, SnapshotRequest } from './interface.ts';
import type { LifecycleEvent, PendingEvent } from './lifecycle-events.ts';
import { environmentOf } from './metadata.ts';
import {
  checkTransition,
  movingSandbox,
  type PausedRecord,
  type SandboxRecord,
  type SandboxState,
  toCreation,
  toInfo,
} from './record.ts';
import type { Handles, ResourceContext, SandboxContext, SandboxPaths } from './resources/resource.ts';
import { RunningVm } from './running-vm.ts';
import { createSandboxService, type SandboxService } from './service.ts';
import type { SandboxInfo, SnapshotInfo } from './types.ts';
import { readVmUsage, usageWithoutVm, type VmUsage } from './vm-usage.ts';

/** States in which the end of its VM is a failure. */
const ALIVE: readonly SandboxState[] = ['running', 'pausing', 'resuming'];

export class Sandbox implements Omit<AwakeSandbox, 'connectPort'> {
  readonly id: string;
  readonly paths: SandboxPaths;
  readonly #context: ResourceContext;
  readonly #logger: Logger;
  readonly #handles: Handles;
  #createdEvent: PendingEvent | undefined;
  /** Whether users may know the sandbox. */
  isAnnounced: boolean;
  readonly #announced = Promise.withResolvers<void>();
  readonly #deletion: Deletion;
  readonly #times: Readonly<Record<string, number>> | undefined;
  #record: SandboxRecord;
  #owner: SandboxOwner<Sandbox> | undefined;
  /** Snapshots, pauses and resumes of one sandbox are made one at a time. */
  readonly snapshotQueue = new PQueue({ concurrency: 1 });
  /** Its record is changed by one at a time. */
  readonly changes = new PQueue({ concurrency: 1 });
  #state: SandboxState = 'running';
  readonly #timeouts: Timeouts<Sandbox>;
  readonly #readers = createReaderLimit();
  readonly log: SandboxLog | undefined;
  #running: RunningVm | undefined;
  /** Another VM is about to replace its own, whose memory and slot it keeps. */
  isReplaced = false;
  /** On its way to another host: nothing resumes or changes it. */
  isDeparting = false;

  /** Its resources must have been acquired or adopted. */
  constructor({ id, context, paths, record, handles, times, log }: SandboxContext) {
    this.id = id;
    this.#context = context;
    this.#record = record;
    this.#timeouts = new Timeouts<Sandbox>(this, context, record);
    this.isAnnounced = record.isReady;
    if (record.isReady) this.#announced.resolve();
    this.#handles = handles;
    this.#logger = log;
    this.paths = paths;
    this.#deletion = new Deletion(this, context, handles, log);
    this.#times = times;
    this.log = handles.sandboxLog;
    if (record.paused !== undefined) this.#state = 'paused';
    else if (handles.vm === undefined || handles.guest === undefined)
      throw new Error('a sandbox that is not paused has a VM and a guest');
    else this.#running = this.#begin(handles.vm, handles.guest);
  }

  /** Undefined while it is paused. */
  get running(): RunningVm | undefined {
    return this.#running;
  }

  /** The same, for what needs its VM. AppError paused. */
  get awake(): RunningVm {
    if (this.#running !== undefined) return this.#running;
    throw new AppError('paused', `sandbox ${this.id} is ${this.#state}; resume it first`);
  }

  #begin(vm: Vm, guest: Guest): RunningVm {
    const { sandboxLog } = this.#handles;
    const running = new RunningVm({
      ...{ vm, guest, sandboxLog, log: this.#logger },
      onOutput: () => this.#timeouts.use.noteActivity(),
      counts: this.#context.commandCounts,
    });
    void vm.exited.then((exit) => {
      guest.close(new Error(exit.reason));
      if (this.#running === running && ALIVE.includes(this.#state)) this.fail(exit, vm.diagnose());
    });
    return running;
  }

  /** Its VM has ended by itself. `diagnosis`: for the log. */
  fail(exit: VmExit, diagnosis = Promise.resolve('')): void {
    this.transition('failed');
    // An exit that an earlier daemon recorded is already published.
    if (this.#record.exit !== undefined) return;
    void diagnosis.then((text) =>
      this.#context.events.notify({ kind: 'died', sandbox: this.id, exit, diagnosis: text }),
    );
    this.#recordExit(exit).catch((err) => this.#logger.error({ err }, 'cannot record the exit of a VM'));
  }

  /** AppError internal when the table of states does not allow it. */
  transition(to: SandboxState): void {
    this.#state = checkTransition(this.#state, to);
  }

  /** Its guest is saved for good: its VM has only to be ended. `what`: why its streams end. */
  fallAsleep(paused: PausedRecord, what = 'paused'): void {
    this.transition('paused');
    this.#record = { ...this.#record, paused };
    this.dropVm(`sandbox ${this.id} was ${what}`);
  }

  /** Its VM has ended, or is not needed any more. */
  dropVm(reason: string): void {
    const running = this.#running;
    this.#running = undefined;
    running?.captures?.stop();
    running?.guest.close(new Error(reason));
    Object.assign(this.#handles, { vm: undefined, guest: undefined });
    this.#timeouts.apply();
  }

  /** It has another VM, which runs. */
  enter(record: SandboxRecord, vm: Vm, guest: Guest): void {
    this.#record = record;
    Object.assign(this.#handles, { vm, guest });
    this.#running = this.#begin(vm, guest);
    this.#running.captures?.begin(true);
  }

  /** Its guest can be used again: its timeouts count. */
  wakeUp(): void {
    this.transition('running');
    this.#timeouts.apply();
  }

  /** The registry has this record. */
  set record(record: SandboxRecord) {
    this.#record = record;
  }

  get record(): SandboxRecord {
    return this.#record;
  }

  get state(): SandboxState {
    return this.#state;
  }

  /** Whether it is hidden from clients: deleted, or being deleted. After a failed delete it is visible again. */
  get isGone(): boolean {
    return this.#deletion.isLeaving;
  }

  get info(): SandboxInfo {
    const { lastUsedAtMs } = this.#timeouts.use;
    const exit = this.#running?.vm.exit ?? this.#record.exit;
    return toInfo(this.id, this.record, this.paths.dir, { state: this.#state, lastUsedAtMs, exit });
  }

  /** The record with which it becomes visible to users, for the registry, and the event that is persisted with it. */
  becomeReady(): { readonly record: SandboxRecord; readonly event: PendingEvent } {
    this.#record = { ...this.#record, isReady: true };
    const created = toCreation(this.id, this.#record, this.#times);
    this.#createdEvent = this.#context.events.prepare(created, this.#record.owner, this.#record.metadata);
    return { record: this.#record, event: this.#createdEvent };
  }

  /** What clients may know of the authority of its lineage. */
  get authority(): AuthorityInfo | undefined {
    return this.#context.authorities.describe(this.#record);
  }

  /** Call when that record is in the registry: from now on events of its end are published. */
  announce(): void {
    this.#announced.resolve();
    this.isAnnounced = true;
    this.#context.events.published();
  }

  /** Detaches from the VM: the guest keeps running, and a later daemon adopts it. */
  async detach(cause: Error): Promise<void> {
    this.#timeouts.stop(false);
    this.#running?.detach(cause);
    await this.changes.onIdle();
  }

  /** Starts its timeouts; it now belongs to its manager. */
  beginLife(owner: SandboxOwner<Sandbox>): void {
    this.#owner = owner;
    const { metadata, owner: recordOwner } = this.#record;
    if (this.#createdEvent === undefined)
      this.#context.events.emit({ kind: 'adopted', sandbox: this.id }, recordOwner, metadata);
    else this.#createdEvent.publish();
    this.#running?.captures?.begin(
      this.#createdEvent === undefined || this.#record.sourceSnapshotId !== undefined,
    );
    this.#timeouts.start(owner);
  }

  get use(): SandboxUse {
    return this.#timeouts.use;
  }

  /** Nothing of it counts or is copied to its log any more. */
  quiet(): void {
    this.#timeouts.stop(true);
    this.#running?.captures?.stop();
  }

  /** Aborts when it is being deleted. */
  get leaving(): AbortSignal {
    return this.#deletion.signal;
  }

  /** Writes a line to its durable log. */
  note(text: string): void {
    this.log?.event('exec', text);
  }

  exec(request: ExecRequest, events: ExecEvents, options?: Omit<ExecOptions, 'baseEnv'>): ExecSession {
    this.assertAlive();
    const execOptions = { ...options, baseEnv: environmentOf(this.#record) };
    const observers = { uses: this.use, counts: this.#context.commandCounts, log: this.log };
    const start = (observed: ExecEvents) => this.awake.guest.exec(request, observed, execOptions);
    return startObserved(observers, request.cmd, events, start);
  }

  commands(): SandboxCommands {
    this.assertAlive();
    this.#timeouts.use.touch();
    const watchers = { uses: this.#timeouts.use, readers: this.#readers };
    return createSandboxCommands(this.awake, this.#record, watchers);
  }

  service(): SandboxService {
    this.assertAlive();
    this.#timeouts.use.touch();
    return createSandboxService(this.awake.guest, environmentOf(this.#record), this.#readers);
  }

  files(): GuestFiles {
    this.assertAlive();
    return trackTransferUse(this.#timeouts.use, this.awake.guest.files);
  }

  stats(): VmUsage {
    const usage = readVmUsage(this);
    if (usage !== undefined) return usage;
    this.assertNotEnded();
    if (this.#running === undefined) return usageWithoutVm(this.paths);
    throw new AppError('internal', `sandbox ${this.id} is about to end; look again`);
  }

  async snapshot(signal?: AbortSignal, by?: SnapshotRequest): Promise<SnapshotInfo> {
    this.assertAlive();
    if (this.#owner === undefined) throw new Error('a sandbox without a manager cannot be saved');
    const endUse = this.use.beginUse();
    return this.#owner.snapshot(this, signal, by).finally(endUse);
  }

  /**
   * AppError not_found when it is being deleted, exhausted when another host has it, internal when its VM died,
   * guest_unreachable when it hangs.
   */
  assertAlive(): void {
    this.assertNotEnded();
    const reason = this.awake.hangReason;
    if (reason !== undefined)
      throw new AppError('guest_unreachable', `sandbox ${this.id} hangs: ${reason}; wait, or delete it`);
  }

  /** The same, except that a hanging guest is accepted. */
  assertNotEnded(): void {
    if (this.#state === 'deleting' || this.#state === 'deleted') {
      if (this.isDeparting) throw movingSandbox(this.id);
      throw new AppError('not_found', `sandbox ${this.id} does not exist; it was deleted`);
    }
    const reason = this.#running?.vm.exit?.reason ?? this.#record.exit?.reason;
    if (reason !== undefined)
      throw new AppError('internal', `sandbox ${this.id} is dead: ${reason}; delete it and create another`);
  }

  /** First phase of a delete; see Deletion. */
  leave(reason = '', events: readonly LifecycleEvent[] = [], isMoved = false): Promise<void> {
    return this.#deletion.leave(reason, events, isMoved);
  }

  /** Second phase of a delete: removes everything that `leave` left. Can be called again. */
  async sweep(): Promise<void> {
    if (this.#state === 'deleted') return;
    // A save or a resume that the delete has cut short must not write any more.
    await this.snapshotQueue.onIdle();
    await this.#deletion.sweep();
    this.transition('deleted');
  }

  /** Removes an unused sandbox completely. */
  async remove(): Promise<void> {
    await this.leave();
    await this.sweep();
  }

  /** Removes a sandbox that no user ever saw, with its log. */
  async discard(): Promise<void> {
    this.#deletion.wasNeverVisible = true;
    await this.remove();
  }

  async #recordExit(exit: VmExit): Promise<void> {
    // The event of its exit must follow the event of its creation.
    await this.#announced.promise;
    const { events } = this.#context;
    await this.changes.add(async () => {
      if (this.#state !== 'failed') return;
      const { owner, metadata } = this.#record;
      const died = { kind: 'died', sandbox: this.id, exit, diagnosis: '' } as const;
      const { paused: _, ...record } = this.#record;
      await this.replaceRecord({ ...record, exit }, events.prepare(died, owner, metadata).persist);
      events.published();
    });
  }

  /** Stores a changed record, and what `also` writes, and applies its timeouts. Call within `changes`. */
  async replaceRecord(record: SandboxRecord, also?: () => void): Promise<void> {
    if (this.isDeparting && this.#state === 'paused') throw movingSandbox(this.id);
    await this.#context.records.put(this.id, record, also);
    this.#record = record;
    this.#timeouts.apply();
  }
}
