// One existing sandbox: its state, VM, guest and deletion.
import type { ExecRequest } from '@sandboxd/api';
import { startTimer } from '@sandboxd/proto';
import PQueue from 'p-queue';
import type { Logger } from 'pino';
import type { Vm, VmExit } from '../engines/engine.ts';
import type { ExecEvents, ExecOptions, ExecSession } from '../guest/exec-types.ts';
import type { GuestFiles } from '../guest/files.ts';
import type { Guest } from '../guest/guest.ts';
import { baseEnvironment } from '../images/index.ts';
import type { SnapshotMaker } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { SandboxLog } from '../logs/index.ts';
import { createReaderLimit, createSandboxCommands, type SandboxCommands } from './commands.ts';
import type { IdleWatch } from './idle/idle-watch.ts';
import { trackExecUse, trackTransferUse, watchIdle } from './idle/in-use.ts';
import type { SandboxHandle } from './interface.ts';
import type { LifecycleEvent, PendingEvent } from './lifecycle-events.ts';
import { startLogged } from './log-capture.ts';
import { LogCaptures } from './log-captures.ts';
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
  snapshot(sandbox: Sandbox, signal?: AbortSignal, by?: SnapshotMaker): Promise<SnapshotInfo>;
  /** Its timeout_s has passed. */
  expired(sandbox: Sandbox): void;
  /** No client used it for its idle_timeout_s; `signal` fires when a client uses it again. */
  idle(sandbox: Sandbox, signal: AbortSignal): Promise<void>;
}

export class Sandbox implements SandboxHandle {
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
  /** Why its guest is unusable at present; set by the watchdog. */
  hang: string | undefined;
  /** Its guest is paused for a snapshot, or will be soon. */
  isSaving = false;
  #state: SandboxState = 'running';
  #wasNeverVisible = false;
  #isLeaving = false;
  #leaving: Promise<void> | undefined;
  #deletionReason = '';
  #endLifetime: () => void = () => undefined;
  #idle: IdleWatch | undefined;
  readonly #readers = createReaderLimit();
  readonly #log: SandboxLog | undefined;
  readonly #captures: LogCaptures | undefined;

  /** Its resources must have been acquired or adopted. */
  constructor({ id, context, paths, record, handles, times, log }: SandboxContext) {
    if (handles.vm === undefined || handles.guest === undefined)
      throw new Error('a sandbox has a VM and a guest');
    this.id = id;
    this.#context = context;
    this.#record = record;
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
        onOutput: () => this.#idle?.touch(),
        counts: context.commandCounts,
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
    return toInfo(this.id, this.record, this.paths.dir);
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
    this.#idle?.stop(false);
    this.guest.close(cause);
    this.vm.detach();
  }

  /** Starts its timeouts; it now belongs to its manager. */
  beginLife(owner: SandboxOwner): void {
    this.#owner = owner;
    const { options, createdAtMs, owner: recordOwner } = this.record;
    if (this.#createdEvent === undefined)
      this.#context.events.emit({ kind: 'adopted', sandbox: this.id }, recordOwner);
    else this.#createdEvent.publish();
    this.#captures?.begin(this.#createdEvent === undefined || this.#record.sourceSnapshotId !== undefined);
    if (options.timeoutS > 0) {
      const leftMs = createdAtMs + options.timeoutS * 1000 - Date.now();
      this.#endLifetime = startTimer(leftMs, () => owner.expired(this), { isUnref: true });
    }
    if (options.idle !== undefined) {
      const onIdle = (signal: AbortSignal) => owner.idle(this, signal);
      this.#idle = watchIdle(this, this.#context, options.idle, onIdle);
    }
  }

  /** Writes a line to its durable log. */
  note(text: string): void {
    this.#log?.event('exec', text);
  }

  exec(request: ExecRequest, events: ExecEvents, options?: Omit<ExecOptions, 'baseEnv'>): ExecSession {
    this.assertAlive();
    const execOptions = { ...options, baseEnv: baseEnvironment(this.record.options.rootfs) };
    const run = (observed: ExecEvents): ExecSession =>
      this.#context.commandCounts.track(observed, (counted) =>
        startLogged(this.#log, request.cmd, counted, (all) => this.guest.exec(request, all, execOptions)),
      );
    return this.#idle === undefined ? run(events) : trackExecUse(this.#idle, events, run);
  }

  /** Number of detached commands that run, as far as they are followed for the log. */
  get detachedCommands(): number {
    return this.state === 'running' ? (this.#captures?.commands.count ?? 0) : 0;
  }

  commands(): SandboxCommands {
    this.assertAlive();
    this.#idle?.touch();
    const logs = this.#captures?.commands;
    return createSandboxCommands(this, { logs, idle: this.#idle, readers: this.#readers });
  }

  service(): SandboxService {
    this.assertAlive();
    this.#idle?.touch();
    return createSandboxService(this.guest, baseEnvironment(this.record.options.rootfs), this.#readers);
  }

  files(): GuestFiles {
    this.assertAlive();
    return this.#idle === undefined ? this.guest.files : trackTransferUse(this.#idle, this.guest.files);
  }

  stats(): VmUsage {
    const usage = readVmUsage(this);
    if (usage !== undefined) return usage;
    this.assertNotEnded();
    throw new AppError('internal', `sandbox ${this.id} is about to end; look again`);
  }

  async snapshot(signal?: AbortSignal, by?: SnapshotMaker): Promise<SnapshotInfo> {
    this.assertAlive();
    if (this.#owner === undefined) throw new Error('a sandbox without a manager cannot be saved');
    const endUse = this.#idle?.beginUse();
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
    this.#endLifetime();
    this.#idle?.stop(true);
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
    this.#record = { ...this.#record, exit };
    // The event of its exit must follow the event of its creation.
    await this.#announced.promise;
    if (this.#state !== 'failed') return;
    const { events, records } = this.#context;
    const died = events.prepare({ kind: 'died', sandbox: this.id, exit, diagnosis: '' }, this.#record.owner);
    await records.put(this.id, this.#record, died.persist);
    events.published();
  }
}
