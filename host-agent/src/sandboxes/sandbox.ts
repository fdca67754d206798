// One existing sandbox: its state, VM, guest and deletion.
import type { ExecRequest } from '@sandboxd/api';
import { startTimer } from '@sandboxd/proto';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Vm, VmExit } from '../engines/engine.ts';
import type { ExecEvents, ExecOptions, ExecSession } from '../guest/exec-types.ts';
import type { GuestFiles } from '../guest/files.ts';
import type { Guest } from '../guest/guest.ts';
import { AppError } from '../lib/errors.ts';
import type { SandboxLog } from '../logs/index.ts';
import { createReaderLimit, createSandboxCommands, type SandboxCommands } from './commands.ts';
import type { IdleWatch } from './idle/idle-watch.ts';
import { trackExecUse, trackTransferUse, watchIdle } from './idle/in-use.ts';
import { SandboxUse } from './idle/sandbox-use.ts';
import type { AwakeSandbox, SnapshotRequest } from './interface.ts';
import type { LifecycleEvent, PendingEvent } from './lifecycle-events.ts';
import { startLogged } from './log-capture.ts';
import { environmentOf, expiryOf, metadataOf } from './metadata.ts';
import {
  checkTransition,
  type PausedRecord,
  pausesAtEnd,
  type SandboxRecord,
  type SandboxState,
  toInfo,
} from './record.ts';
import { RecordedDelete } from './recorded-delete.ts';
import { releaseResources, sweepResources } from './resources/index.ts';
import type {
  Handles,
  ResourceContext,
  SandboxContext,
  SandboxPaths,
  TeardownContext,
} from './resources/resource.ts';
import { Running } from './running.ts';
import { createSandboxService, type SandboxService } from './service.ts';
import type { IdleRule, SandboxInfo, SnapshotInfo } from './types.ts';
import { readVmUsage, usageWithoutVm, type VmUsage } from './vm-usage.ts';

/** What a sandbox needs from its manager. */
export interface SandboxOwner {
  snapshot(sandbox: Sandbox, signal?: AbortSignal, by?: SnapshotRequest): Promise<SnapshotInfo>;
  /** Its timeout_s has passed. */
  expired(sandbox: Sandbox): void;
  /** No client used it for its idle_timeout_s; `signal` fires when a client uses it again. */
  idle(sandbox: Sandbox, signal: AbortSignal): Promise<void>;
}

/** States in which the end of its VM is a failure. */
const ALIVE: readonly SandboxState[] = ['running', 'pausing', 'resuming'];

export class Sandbox implements AwakeSandbox {
  readonly id: string;
  readonly paths: SandboxPaths;
  readonly #context: ResourceContext;
  readonly #logger: Logger;
  readonly #handles: Handles;
  #createdEvent: PendingEvent | undefined;
  /** Whether users may know the sandbox. */
  #isAnnounced: boolean;
  readonly #announced = Promise.withResolvers<void>();
  readonly #delete: RecordedDelete;
  readonly #times: Readonly<Record<string, number>> | undefined;
  #record: SandboxRecord;
  #owner: SandboxOwner | undefined;
  /** Snapshots, pauses and resumes of one sandbox are made one at a time. */
  readonly snapshotQueue = new PQueue({ concurrency: 1 });
  #state: SandboxState = 'running';
  #wasNeverVisible = false;
  #isLeaving = false;
  #leavingAbort = new AbortController();
  #leaving: Promise<void> | undefined;
  #deletionReason = '';
  #endLifetime: () => void = () => undefined;
  readonly #use: SandboxUse;
  readonly #readers = createReaderLimit();
  readonly #log: SandboxLog | undefined;
  #running: Running | undefined;

  /** Its resources must have been acquired or adopted. */
  constructor({ id, context, paths, record, handles, times, log }: SandboxContext) {
    this.id = id;
    this.#context = context;
    this.#record = record;
    this.#use = new SandboxUse(metadataOf(record).lastUsedAtMs ?? record.createdAtMs);
    this.#isAnnounced = record.isReady;
    if (record.isReady) this.#announced.resolve();
    this.#handles = handles;
    this.#logger = log;
    this.#delete = new RecordedDelete(id, context, log);
    this.paths = paths;
    this.#times = times;
    this.#log = handles.sandboxLog;
    if (record.paused !== undefined) this.#state = 'paused';
    else if (handles.vm === undefined || handles.guest === undefined)
      throw new Error('a sandbox that is not paused has a VM and a guest');
    else this.#running = this.#begin(handles.vm, handles.guest);
  }

  /** Undefined while it is paused. */
  get running(): Running | undefined {
    return this.#running;
  }

  /** The same, for what needs its VM. AppError paused. */
  get awake(): Running {
    if (this.#running !== undefined) return this.#running;
    throw new AppError('paused', `sandbox ${this.id} is ${this.#state}; resume it first`);
  }

  #begin(vm: Vm, guest: Guest): Running {
    const { sandboxLog } = this.#handles;
    const running = new Running({
      ...{ vm, guest, sandboxLog, log: this.#logger },
      onOutput: () => this.#use.noteActivity(),
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

  /** Its guest is saved for good: its VM is not needed any more, and has only to be ended. */
  fallAsleep(paused: PausedRecord): void {
    const running = this.awake;
    this.transition('paused');
    this.#running = undefined;
    this.#record = { ...this.#record, paused };
    running.captures?.stop();
    running.guest.close(new Error(`sandbox ${this.id} was paused`));
    this.#handles.vm = undefined;
    this.#handles.guest = undefined;
    this.#use.watch(undefined);
    if (pausesAtEnd(this.#record)) this.#endLifetime();
  }

  /** It has another VM, which runs. */
  enter(record: SandboxRecord, vm: Vm, guest: Guest): void {
    this.#record = record;
    this.#handles.vm = vm;
    this.#handles.guest = guest;
    this.#running = this.#begin(vm, guest);
    this.#running.captures?.begin(true);
  }

  /** Its guest can be used again: its timeouts count. */
  wakeUp(): void {
    this.transition('running');
    if (this.#owner !== undefined) this.#startTimeouts(this.#owner);
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
    return this.#isLeaving;
  }

  get info(): SandboxInfo {
    const { lastUsedAtMs } = this.#use;
    return toInfo(this.id, this.record, this.paths.dir, { state: this.#state, lastUsedAtMs });
  }

  /** The record with which it becomes visible to users, for the registry, and the event that is persisted with it. */
  becomeReady(): { readonly record: SandboxRecord; readonly event: PendingEvent } {
    this.#record = { ...this.#record, isReady: true };
    const { options, owner, sourceSnapshotId } = this.#record;
    const times = this.#times ?? {};
    const created = {
      kind: sourceSnapshotId === undefined ? 'created' : 'forked',
      sandbox: this.id,
      origin: 'bootMs' in times ? 'boot' : 'saved',
      rootfs: options.rootfs.kind,
      ...(sourceSnapshotId !== undefined && { sourceSnapshot: sourceSnapshotId }),
      times,
    } as const;
    this.#createdEvent = this.#context.events.prepare(created, owner);
    return { record: this.#record, event: this.#createdEvent };
  }

  /** Call when that record is in the registry: from now on events of its end are published. */
  announce(): void {
    this.#announced.resolve();
    this.#isAnnounced = true;
    this.#context.events.published();
  }

  /** Detaches from the VM: the guest keeps running, and a later daemon adopts it. */
  detach(cause: Error): void {
    this.#endLifetime();
    this.#use.stop(false);
    this.#running?.detach(cause);
  }

  /** Starts its timeouts; it now belongs to its manager. */
  beginLife(owner: SandboxOwner): void {
    this.#owner = owner;
    const { owner: recordOwner } = this.record;
    if (this.#createdEvent === undefined)
      this.#context.events.emit({ kind: 'adopted', sandbox: this.id }, recordOwner);
    else this.#createdEvent.publish();
    this.#running?.captures?.begin(
      this.#createdEvent === undefined || this.#record.sourceSnapshotId !== undefined,
    );
    this.#startTimeouts(owner);
  }

  #startTimeouts(owner: SandboxOwner): void {
    if (this.#state === 'paused' && pausesAtEnd(this.#record)) return;
    this.#startLifetime(owner);
    const { idle } = this.#record.options;
    if (idle !== undefined && this.#running !== undefined)
      this.#use.watch(() => this.#watchIdle(idle, owner));
  }

  #startLifetime(owner: SandboxOwner): void {
    this.#endLifetime();
    const expiresAtMs = expiryOf(this.#record);
    if (expiresAtMs === undefined) return;
    const leftMs = expiresAtMs - Date.now();
    this.#endLifetime = startTimer(leftMs, () => owner.expired(this), { isUnref: true });
  }

  #watchIdle(rule: IdleRule, owner: SandboxOwner): IdleWatch {
    return watchIdle(this, this.#context, rule, (signal) => owner.idle(this, signal));
  }

  /** A client is about to use it: it is not idle. */
  touch(): void {
    this.#use.touch();
  }

  /** Aborts when it is being deleted. */
  get leaving(): AbortSignal {
    return this.#leavingAbort.signal;
  }

  get log(): SandboxLog | undefined {
    return this.#log;
  }

  /** Writes a line to its durable log. */
  note(text: string): void {
    this.#log?.event('exec', text);
  }

  exec(request: ExecRequest, events: ExecEvents, options?: Omit<ExecOptions, 'baseEnv'>): ExecSession {
    this.assertAlive();
    const execOptions = { ...options, baseEnv: environmentOf(this.#record) };
    const run = (observed: ExecEvents): ExecSession =>
      startLogged(this.#log, request.cmd, observed, (all) =>
        this.awake.guest.exec(request, all, execOptions),
      );
    return trackExecUse(this.#use, events, run);
  }

  commands(): SandboxCommands {
    this.assertAlive();
    this.#use.touch();
    const watchers = { uses: this.#use, readers: this.#readers };
    return createSandboxCommands(this.awake, this.#record, watchers);
  }

  service(): SandboxService {
    this.assertAlive();
    this.#use.touch();
    return createSandboxService(this.awake.guest, environmentOf(this.#record), this.#readers);
  }

  files(): GuestFiles {
    this.assertAlive();
    return trackTransferUse(this.#use, this.awake.guest.files);
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
    const endUse = this.#use.beginUse();
    return this.#owner.snapshot(this, signal, by).finally(endUse);
  }

  /**
   * AppError not_found when it is being deleted, internal with the cause when its VM died, guest_unreachable when it
   * hangs.
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
      throw new AppError('not_found', `sandbox ${this.id} does not exist; it was deleted`);
    }
    const reason = this.#running?.vm.exit?.reason ?? this.#record.exit?.reason;
    if (reason !== undefined) {
      throw new AppError('internal', `sandbox ${this.id} is dead: ${reason}; delete it and create another`);
    }
  }

  /**
   * First phase of a delete: makes it unreachable and frees shared resources; all callers get the same promise. Slow
   * clean-up is left to `sweep`. Can be called again after a failure. `reason` follows "was deleted" in the errors of
   * calls in progress; `events` are persisted with the delete.
   */
  leave(reason = '', events: readonly LifecycleEvent[] = []): Promise<void> {
    this.#isLeaving = true;
    this.#leaving ??= this.#leave(reason, events).catch((error) => {
      this.#isLeaving = false;
      this.#leaving = undefined;
      this.#leavingAbort = new AbortController();
      throw error;
    });
    return this.#leaving;
  }

  /** Second phase of a delete: removes everything that `leave` left. Can be called again. */
  async sweep(): Promise<void> {
    if (this.#state === 'deleted') return;
    const { faults } = this.#context;
    // A save or a resume that the delete has cut short must not write any more.
    await this.snapshotQueue.onIdle();
    await sweepResources(this.#teardownContext());
    await this.#delete.finish(this.#record);
    faults.reach('delete.forgotten');
    this.#state = checkTransition(this.#state, 'deleted');
  }

  /** Removes an unused sandbox completely. */
  async remove(): Promise<void> {
    await this.leave();
    await this.sweep();
  }

  /** Removes a sandbox that no user ever saw, with its log. */
  async discard(): Promise<void> {
    this.#wasNeverVisible = true;
    await this.remove();
  }

  async #leave(reason: string, events: readonly LifecycleEvent[]): Promise<void> {
    this.#deletionReason = reason;
    if (this.#state !== 'deleting') {
      this.#state = checkTransition(this.#state, 'deleting');
      if (this.#isAnnounced) this.#delete.begin([...events, { kind: 'deleted', sandbox: this.id }]);
    }
    this.#leavingAbort.abort(new AppError('not_found', `sandbox ${this.id} was deleted`));
    this.#endLifetime();
    this.#use.stop(true);
    this.#running?.captures?.stop();
    const isMarked = await this.#delete.mark(this.#record, !this.#wasNeverVisible);
    this.#context.faults.reach('delete.marked');
    await releaseResources(this.#teardownContext());
    // Without the mark, the next daemon would report it as dead after a crash.
    if (!isMarked) await this.sweep();
  }

  #teardownContext(): TeardownContext {
    return {
      id: this.id,
      context: this.#context,
      paths: this.paths,
      record: this.#record,
      handles: this.#handles,
      log: this.#logger,
      wasVisible: !this.#wasNeverVisible,
      reason: `sandbox ${this.id} was deleted${this.#deletionReason}`,
    };
  }

  async #recordExit(exit: VmExit): Promise<void> {
    const { paused: _, ...record } = this.#record;
    this.#record = { ...record, exit };
    // The event of its exit must follow the event of its creation.
    await this.#announced.promise;
    if (this.#state !== 'failed') return;
    const { events, records } = this.#context;
    const died = events.prepare({ kind: 'died', sandbox: this.id, exit, diagnosis: '' }, this.#record.owner);
    await records.put(this.id, this.#record, died.persist);
    events.published();
  }
}
