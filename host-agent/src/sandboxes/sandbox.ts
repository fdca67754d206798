// One sandbox that exists: its state, its VM, its guest, its end.
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
import { logExecEvents, logExecStart } from './exec-log.ts';
import type { IdleWatch } from './idle/idle-watch.ts';
import { trackExecUse, trackTransferUse, watchIdle } from './idle/in-use.ts';
import { toInfo } from './info.ts';
import type { SandboxHandle } from './interface.ts';
import type { LifecycleEvent, PendingEvent } from './lifecycle-events.ts';
import { LogCapture } from './log-capture.ts';
import type { SandboxRecord } from './record.ts';
import { releaseResources, sweepResources } from './resources/index.ts';
import type { SandboxPaths } from './resources/paths.ts';
import type { Handles, ResourceContext, SandboxContext, TeardownContext } from './resources/resource.ts';
import { createSandboxService, type SandboxService } from './service.ts';
import { checkTransition, type SandboxState } from './states.ts';
import type { SandboxInfo, SnapshotInfo } from './types.ts';
import { readVmUsage, type VmUsage } from './vm-usage.ts';

/** What happens to a sandbox is decided by who keeps them all. */
export interface SandboxOwner {
  snapshot(sandbox: Sandbox, signal?: AbortSignal, by?: SnapshotMaker): Promise<SnapshotInfo>;
  /** Its time is over. */
  expired(sandbox: Sandbox): void;
  /** Nobody used it for as long as it may be so; `signal` fires when somebody does after all. */
  idle(sandbox: Sandbox, signal: AbortSignal): Promise<void>;
}

type SandboxRecords = ResourceContext['records'];

export class Sandbox implements SandboxHandle {
  readonly id: string;
  readonly paths: SandboxPaths;
  readonly vm: Vm;
  readonly guest: Guest;
  readonly #context: ResourceContext;
  readonly #logger: Logger;
  readonly #held: Handles;
  #birth: PendingEvent | undefined;
  /** Whether users may have heard of it. */
  #isAnnounced: boolean;
  readonly #announced = Promise.withResolvers<void>();
  /** What is to be known of its end, until that is on disk. */
  #lastWords: readonly LifecycleEvent[] = [];
  readonly #times: Readonly<Record<string, number>> | undefined;
  #record: SandboxRecord;
  #owner: SandboxOwner | undefined;
  /** Snapshots of one sandbox are taken one after another. */
  readonly snapshotQueue = new PQueue({ concurrency: 1 });
  /** Why its guest cannot be used for now, by the watchdog. */
  hang: string | undefined;
  /** Its guest stands still, or may soon. */
  isSaving = false;
  #state: SandboxState = 'running';
  #isUnheardOf = false;
  #isLeaving = false;
  #leaving: Promise<void> | undefined;
  #why = '';
  #endLifetime: () => void = () => undefined;
  #idle: IdleWatch | undefined;
  readonly #log: SandboxLog | undefined;
  readonly #capture: LogCapture | undefined;

  /** Its resources must have been got, or found again. */
  constructor({ id, context, paths, record, handles, times, log }: SandboxContext) {
    if (handles.vm === undefined || handles.guest === undefined)
      throw new Error('a sandbox has a VM and a guest');
    this.id = id;
    this.#context = context;
    this.#record = record;
    this.#isAnnounced = record.isReady;
    if (record.isReady) this.#announced.resolve();
    this.#held = handles;
    this.#logger = log;
    this.paths = paths;
    this.#times = times;
    this.vm = handles.vm;
    this.guest = handles.guest;
    this.#log = handles.sandboxLog;
    if (this.#log !== undefined)
      this.#capture = new LogCapture({
        guest: this.guest,
        log: this.#log,
        logger: log,
        onOutput: () => this.#idle?.touch(),
      });
    void this.vm.exited.then((exit) => {
      this.guest.close(new Error(exit.reason));
      if (this.#state !== 'running') return;
      this.#state = checkTransition(this.#state, 'failed');
      // One that an earlier daemon saw ending is known already.
      if (this.#record.exit !== undefined) return;
      const tell = (diagnosis: string) =>
        context.events.notify({ kind: 'died', sandbox: id, exit, diagnosis });
      void this.vm.diagnose().then(tell);
      this.#keepExit(exit).catch((err) => log.error({ err }, 'cannot record the end of a VM'));
    });
  }

  get record(): SandboxRecord {
    return this.#record;
  }

  get state(): SandboxState {
    return this.#state;
  }

  /** Whether nobody is to see it any more: it is deleted, or being deleted. One whose delete failed is seen again. */
  get isGone(): boolean {
    return this.#isLeaving;
  }

  get info(): SandboxInfo {
    return toInfo(this.id, this.record, this.paths.dir);
  }

  /** Its record once users may know of it, for the registry, and the event that goes with it. */
  becomeReady(): { readonly record: SandboxRecord; readonly event: PendingEvent } {
    this.#record = { ...this.#record, isReady: true };
    const { options, owner, sourceSnapshotId } = this.#record;
    const times = this.#times ?? {};
    const about = {
      kind: sourceSnapshotId === undefined ? 'created' : 'forked',
      sandbox: this.id,
      origin: 'bootMs' in times ? 'boot' : 'saved',
      rootfs: options.rootfs.kind,
      ...(sourceSnapshotId !== undefined && { sourceSnapshot: sourceSnapshotId }),
      times,
    } as const;
    this.#birth = this.#context.events.prepare(about, owner);
    return { record: this.#record, event: this.#birth };
  }

  /** That record is in the registry: whatever becomes of it now is known to users. */
  announce(): void {
    this.#announced.resolve();
    this.#isAnnounced = true;
    this.#context.events.published();
  }

  /** Lets go of it: its guest runs on, for a later daemon to adopt. */
  detach(cause: Error): void {
    this.#endLifetime();
    this.#idle?.stop(false);
    this.guest.close(cause);
    this.vm.detach();
  }

  /** From here on it is somebody's: its time runs. */
  beginLife(owner: SandboxOwner): void {
    this.#owner = owner;
    const { options, createdAtMs, owner: whose } = this.record;
    if (this.#birth === undefined) this.#context.events.emit({ kind: 'adopted', sandbox: this.id }, whose);
    else this.#birth.publish();
    if (options.timeoutS > 0) {
      const leftMs = createdAtMs + options.timeoutS * 1000 - Date.now();
      this.#endLifetime = startTimer(leftMs, () => owner.expired(this), { isUnref: true });
    }
    if (options.idle !== undefined) {
      const onIdle = (signal: AbortSignal) => owner.idle(this, signal);
      this.#idle = watchIdle(this, this.#context, options.idle, onIdle);
    }
  }

  /** Says something in its durable log. */
  note(text: string): void {
    this.#log?.event('exec', text);
  }

  exec(request: ExecRequest, events: ExecEvents, options?: Pick<ExecOptions, 'hasStdin'>): ExecSession {
    this.assertAlive();
    const within = { ...options, baseEnv: baseEnvironment(this.record.options.rootfs) };
    const run = (observed: ExecEvents): ExecSession => {
      if (this.#log === undefined) return this.guest.exec(request, observed, within);
      const session = this.guest.exec(request, logExecEvents(this.#log, observed), within);
      logExecStart(this.#log, request.cmd);
      return session;
    };
    return this.#idle === undefined ? run(events) : trackExecUse(this.#idle, events, run);
  }

  service(): SandboxService {
    this.assertAlive();
    this.#idle?.touch();
    return createSandboxService(this.guest, baseEnvironment(this.record.options.rootfs));
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
    if (this.#owner === undefined) throw new Error('a sandbox that is nobody’s has no snapshots');
    const end = this.#idle?.begin();
    return this.#owner.snapshot(this, signal, by).finally(end);
  }

  /** AppError not_found when it is being deleted, internal naming the cause when its VM died, guest_unreachable when it hangs. */
  assertAlive(): void {
    this.assertNotEnded();
    const why = this.vm.ioPauseReason ?? this.hang;
    if (why !== undefined)
      throw new AppError('guest_unreachable', `sandbox ${this.id} hangs: ${why}; wait, or delete it`);
  }

  /** The same, but for the last. */
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
   * Ends it for everybody, and gives back what others may want; the same promise for every caller. What only takes time is
   * left for `sweep`. After a failure it can be tried again. `why` is what is said to those who use it, after "was deleted";
   * `events` are why, for those who follow.
   */
  leave(why = '', events: readonly LifecycleEvent[] = []): Promise<void> {
    this.#isLeaving = true;
    this.#leaving ??= this.#leave(why, events).catch((error) => {
      this.#isLeaving = false;
      this.#leaving = undefined;
      throw error;
    });
    return this.#leaving;
  }

  /** Behind `leave`: gives back the rest, until nothing of it is left. Can be called again. */
  async sweep(): Promise<void> {
    if (this.#state === 'deleted') return;
    const { records, faults } = this.#context;
    await sweepResources(this.#remains());
    await this.#forget(records);
    faults.reach('delete.forgotten');
    this.#state = checkTransition(this.#state, 'deleted');
  }

  /** Removes one that nobody uses, whole. */
  async remove(): Promise<void> {
    await this.leave();
    await this.sweep();
  }

  /** Removes one that nobody ever heard of, with its log. */
  async discard(): Promise<void> {
    this.#isUnheardOf = true;
    await this.remove();
  }

  async #forget(records: SandboxRecords): Promise<void> {
    if (this.#lastWords.length === 0) return records.remove(this.id);
    // The mark could not be written, so this may fail as well: then what is left is removed all the same.
    await records
      .remove(this.id, () => this.#keepLastWords())
      .then(() => this.#spoke())
      .catch(() => records.remove(this.id));
  }

  async #leave(why: string, events: readonly LifecycleEvent[]): Promise<void> {
    this.#why = why;
    if (this.#state !== 'deleting') {
      this.#state = checkTransition(this.#state, 'deleting');
      if (this.#isAnnounced) this.#lastWords = [...events, { kind: 'deleted', sandbox: this.id }];
    }
    this.#endLifetime();
    this.#idle?.stop(true);
    this.#capture?.stop();
    const isMarked = await this.#markDeleting();
    this.#context.faults.reach('delete.marked');
    await releaseResources(this.#remains());
    // A crash would bring it back as one that died.
    if (!isMarked) await this.sweep();
  }

  #remains(): TeardownContext {
    return {
      id: this.id,
      context: this.#context,
      paths: this.paths,
      record: this.#record,
      handles: this.#held,
      log: this.#logger,
      wasKnown: !this.#isUnheardOf,
      why: `sandbox ${this.id} was deleted${this.#why}`,
    };
  }

  /** Whether the next daemon would finish it from here on. */
  async #markDeleting(): Promise<boolean> {
    const { records } = this.#context;
    if (records.get(this.id) === undefined) return true;
    try {
      const mark = { ...this.#record, isReady: false, isDeleting: !this.#isUnheardOf };
      await records.put(this.id, mark, () => this.#keepLastWords());
      this.#spoke();
      return true;
    } catch (err) {
      // A delete must work on a full disk, too: it is what makes room.
      this.#logger.warn({ err }, 'the delete of a sandbox cannot be written down beforehand');
      return false;
    }
  }

  #keepLastWords(): void {
    for (const event of this.#lastWords) this.#context.events.prepare(event, this.#record.owner).persist();
  }

  #spoke(): void {
    this.#lastWords = [];
    this.#context.events.published();
  }

  async #keepExit(exit: VmExit): Promise<void> {
    this.#record = { ...this.#record, exit };
    // Its end comes behind its beginning.
    await this.#announced.promise;
    if (this.#state !== 'failed') return;
    const { events, records } = this.#context;
    const died = events.prepare({ kind: 'died', sandbox: this.id, exit, diagnosis: '' }, this.#record.owner);
    await records.put(this.id, this.#record, died.persist);
    events.published();
  }
}

export function noSandbox(id: string): AppError {
  return new AppError('not_found', `sandbox ${id} does not exist`);
}
