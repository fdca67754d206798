// One existing sandbox: its state, VM, guest and deletion.

import type { ExecRequest } from '@sandboxd/api';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Vm, VmExit } from '../engines/engine.ts';
import type { ExecEvents, ExecOptions, ExecSession } from '../guest/exec-types.ts';
import type { GuestFiles } from '../guest/files.ts';
import type { Guest } from '../guest/guest.ts';
import { AppError } from '../lib/errors.ts';
import type { SandboxLog } from '../logs/index.ts';
import { createSandboxCommands, type SandboxCommands } from './commands.ts';
import { createUse, trackExecUse, trackTransferUse } from './idle/in-use.ts';
import type { SandboxUse } from './idle/sandbox-use.ts';
import { Timeouts } from './idle/timeouts.ts';
import type { SandboxHandle, SnapshotRequest } from './interface.ts';
import type { LifecycleEvent, PendingEvent } from './lifecycle-events.ts';
import { startLogged } from './log-capture.ts';
import { LogCaptures } from './log-captures.ts';
import { environmentOf } from './metadata.ts';
import { checkTransition, type SandboxRecord, type SandboxState, toInfo } from './record.ts';
import { RecordedDelete } from './recorded-delete.ts';
import { releaseResources, sweepResources } from './resources/index.ts';
import type {
  Handles,
  ResourceContext,
  SandboxContext,
  SandboxPaths,
  TeardownContext,
} from './resources/resource.ts';
import { createSandboxService, type SandboxService } from './service.ts';
import type { SandboxInfo, SnapshotInfo } from './types.ts';
import { readVmUsage, type VmUsage } from './vm-usage.ts';

/** What a sandbox needs from its manager. */
export interface SandboxOwner {
  snapshot(sandbox: Sandbox, signal?: AbortSignal, by?: SnapshotRequest): Promise<SnapshotInfo>;
  /** Its timeout_s has passed. */
  expired(sandbox: Sandbox): void;
  /** No client used it for its idle_timeout_s; `signal` fires when a client uses it again. */
  idle(sandbox: Sandbox, signal: AbortSignal): Promise<void>;
}

export class Sandbox implements Omit<SandboxHandle, 'snapshot'> {
  readonly id: string;
  readonly paths: SandboxPaths;
  readonly vm: Vm;
  readonly guest: Guest;
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
  /** Snapshots of one sandbox are taken one at a time. */
  readonly snapshotQueue = new PQueue({ concurrency: 1 });
  /** Its record is changed by one at a time. */
  readonly changes = new PQueue({ concurrency: 1 });
  /** Why its guest is unusable at present; set by the watchdog. */
  hang: string | undefined;
  /** Its guest is paused for a snapshot, or will be soon. */
  isSaving = false;
  #state: SandboxState = 'running';
  #wasNeverVisible = false;
  #isLeaving = false;
  #leaving: Promise<void> | undefined;
  #deletionReason = '';
  #timeouts: Timeouts | undefined;
  readonly #use: SandboxUse;
  readonly #log: SandboxLog | undefined;
  readonly #captures: LogCaptures | undefined;

  /** Its resources must have been acquired or adopted. */
  constructor({ id, context, paths, record, handles, times, log }: SandboxContext) {
    if (handles.vm === undefined || handles.guest === undefined)
      throw new Error('a sandbox has a VM and a guest');
    this.id = id;
    this.#context = context;
    this.#record = record;
    this.#use = createUse(id, context.directories, record.createdAtMs);
    this.#isAnnounced = record.isReady;
    if (record.isReady) this.#announced.resolve();
    this.#handles = handles;
    this.#logger = log;
    this.#delete = new RecordedDelete(id, context, log);
    this.paths = paths;
    this.#times = times;
    this.vm = handles.vm;
    this.guest = handles.guest;
    this.#log = handles.sandboxLog;
    if (this.#log !== undefined)
      this.#captures = new LogCaptures({
        guest: this.guest,
        log: this.#log,
        logger: log,
        onOutput: () => this.#use.noteActivity(),
      });
    void this.vm.exited.then((exit) => {
      this.guest.close(new Error(exit.reason));
      if (this.#state !== 'running') return;
      this.#state = checkTransition(this.#state, 'failed');
      // An exit that an earlier daemon recorded is already published.
      if (this.#record.exit !== undefined) return;
      const publish = (diagnosis: string) =>
        context.events.notify({ kind: 'died', sandbox: id, exit, diagnosis });
      void this.vm.diagnose().then(publish);
      this.#recordExit(exit).catch((err) => log.error({ err }, 'cannot record the exit of a VM'));
    });
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
    const live = { state: this.#state, lastUsedAtMs: this.#use.lastUsedAtMs, exit: this.vm.exit };
    return toInfo(this.id, this.record, this.paths.dir, live);
  }

  /** The record with which it becomes visible to users, for the registry, and the event that is persisted with it. */
  becomeReady(): { readonly record: SandboxRecord; readonly event: PendingEvent } {
    this.#record = { ...this.#record, isReady: true };
    const { options, owner, metadata, sourceSnapshotId } = this.#record;
    const times = this.#times ?? {};
    const created = {
      kind: sourceSnapshotId === undefined ? 'created' : 'forked',
      sandbox: this.id,
      origin: 'bootMs' in times ? 'boot' : 'saved',
      rootfs: options.rootfs.kind,
      ...(sourceSnapshotId !== undefined && { sourceSnapshot: sourceSnapshotId }),
      times,
    } as const;
    this.#createdEvent = this.#context.events.prepare(created, owner, metadata);
    return { record: this.#record, event: this.#createdEvent };
  }

  /** Call when that record is in the registry: from now on events of its end are published. */
  announce(): void {
    this.#announced.resolve();
    this.#isAnnounced = true;
    this.#context.events.published();
  }

  /** Detaches from the VM: the guest keeps running, and a later daemon adopts it. */
  async detach(cause: Error): Promise<void> {
    this.#timeouts?.stop();
    this.#use.stop(false);
    this.guest.close(cause);
    this.vm.detach();
    await this.changes.onIdle();
  }

  /** Starts its timeouts; it now belongs to its manager. */
  beginLife(owner: SandboxOwner): void {
    this.#owner = owner;
    const { metadata, owner: recordOwner } = this.#record;
    if (this.#createdEvent === undefined)
      this.#context.events.emit({ kind: 'adopted', sandbox: this.id }, recordOwner, metadata);
    else this.#createdEvent.publish();
    this.#captures?.begin(this.#createdEvent === undefined || this.#record.sourceSnapshotId !== undefined);
    this.#timeouts = new Timeouts(this, this.#context, this.#use, {
      expired: () => owner.expired(this),
      idle: (signal) => owner.idle(this, signal),
    });
    this.#timeouts.apply(this.#record);
  }

  /** A client uses it without its guest. */
  noteUse(): void {
    this.#use.touch();
  }

  /** Writes a line to its durable log. */
  note(text: string): void {
    this.#log?.event('exec', text);
  }

  exec(request: ExecRequest, events: ExecEvents, options?: Omit<ExecOptions, 'baseEnv'>): ExecSession {
    this.assertAlive();
    const execOptions = { ...options, baseEnv: environmentOf(this.#record) };
    const run = (observed: ExecEvents): ExecSession =>
      startLogged(this.#log, request.cmd, observed, (all) => this.guest.exec(request, all, execOptions));
    return trackExecUse(this.#use, events, run);
  }

  commands(): SandboxCommands {
    this.assertAlive();
    this.#use.touch();
    return createSandboxCommands(this, this.#captures?.commands, this.#use);
  }

  service(): SandboxService {
    this.assertAlive();
    this.#use.touch();
    return createSandboxService(this.guest, environmentOf(this.#record));
  }

  files(): GuestFiles {
    this.assertAlive();
    return trackTransferUse(this.#use, this.guest.files);
  }

  stats(): VmUsage {
    const usage = readVmUsage(this);
    if (usage !== undefined) return usage;
    this.assertNotEnded();
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
    const reason = this.vm.ioPauseReason ?? this.hang;
    if (reason !== undefined)
      throw new AppError('guest_unreachable', `sandbox ${this.id} hangs: ${reason}; wait, or delete it`);
  }

  /** The same, except that a hanging guest is accepted. */
  assertNotEnded(): void {
    if (this.#state === 'deleting' || this.#state === 'deleted') {
      throw new AppError('not_found', `sandbox ${this.id} does not exist; it was deleted`);
    }
    const reason = this.vm.exit?.reason;
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
      throw error;
    });
    return this.#leaving;
  }

  /** Second phase of a delete: removes everything that `leave` left. Can be called again. */
  async sweep(): Promise<void> {
    if (this.#state === 'deleted') return;
    const { faults } = this.#context;
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
    this.#timeouts?.stop();
    this.#use.stop(true);
    this.#captures?.stop();
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
    // The event of its exit must follow the event of its creation.
    await this.#announced.promise;
    const { events } = this.#context;
    await this.changes.add(async () => {
      if (this.#state !== 'failed') return;
      const { owner, metadata } = this.#record;
      const died = { kind: 'died', sandbox: this.id, exit, diagnosis: '' } as const;
      await this.replaceRecord({ ...this.#record, exit }, events.prepare(died, owner, metadata).persist);
      events.published();
    });
  }

  /** Stores a changed record, and what `also` writes, and applies its timeouts. Call within `changes`. */
  async replaceRecord(record: SandboxRecord, also?: () => void): Promise<void> {
    await this.#context.records.put(this.id, record, also);
    this.#record = record;
    this.#timeouts?.apply(record);
  }
}
