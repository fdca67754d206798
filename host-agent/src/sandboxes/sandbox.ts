// One sandbox that exists: its state, its VM, its guest, its end.
import type { Logger } from 'pino';
import type { Vm, VmExit } from '../engines/engine.ts';
import type { ExecEvents, ExecSession } from '../guest/exec-types.ts';
import type { ByteSource, PulledFile, PushResult } from '../guest/files.ts';
import type { Guest } from '../guest/guest.ts';
import { AppError } from '../lib/errors.ts';
import type { Faults } from '../lib/faults.ts';
import { SerialQueue } from '../lib/serial-queue.ts';
import type { LogStore, SandboxLog } from '../logs/index.ts';
import type { Table } from '../store/store.ts';
import { logExecEvents, logExecStart } from './exec-log.ts';
import { Lifetime } from './lifetime.ts';
import { LogCapture } from './log-capture.ts';
import { removeSandboxDirs, type SandboxPaths } from './paths.ts';
import type { SandboxRecord } from './record.ts';
import type { ExecRequest } from './sandboxes.ts';
import { createSandboxService, type SandboxService } from './service.ts';
import { checkTransition, type SandboxState } from './states.ts';
import type { SandboxInfo } from './types.ts';

export type SandboxParts = {
  readonly id: string;
  readonly record: SandboxRecord;
  readonly paths: SandboxPaths;
  readonly vm: Vm;
  readonly guest: Guest;
  readonly records: Table<SandboxRecord>;
  /** Absent, with the next, when this daemon keeps no logs. */
  readonly logs?: LogStore | undefined;
  readonly sandboxLog?: SandboxLog | undefined;
  readonly faults: Faults;
  readonly log: Logger;
};

export class Sandbox {
  readonly id: string;
  readonly paths: SandboxPaths;
  readonly vm: Vm;
  readonly guest: Guest;
  readonly #parts: SandboxParts;
  #record: SandboxRecord;
  /** Snapshots of one sandbox are taken one after another. */
  readonly snapshotQueue = new SerialQueue();
  /** Why its guest cannot be used for now, by the watchdog. */
  hang: string | undefined;
  /** Its guest stands still, or may soon. */
  isSaving = false;
  #state: SandboxState = 'running';
  #isUnheardOf = false;
  #isLeaving = false;
  #removal: Promise<void> | undefined;
  #lifetime: Lifetime | undefined;
  readonly #log: SandboxLog | undefined;
  readonly #capture: LogCapture | undefined;

  constructor(parts: SandboxParts) {
    this.id = parts.id;
    this.#parts = parts;
    this.#record = parts.record;
    this.paths = parts.paths;
    this.vm = parts.vm;
    this.guest = parts.guest;
    const { sandboxLog, guest, log } = parts;
    this.#log = sandboxLog;
    if (sandboxLog !== undefined) this.#capture = new LogCapture({ guest, log: sandboxLog, logger: log });
    void this.vm.exited.then((exit) => {
      this.guest.close(new Error(exit.reason));
      if (this.#state !== 'running') return;
      this.#state = checkTransition(this.#state, 'failed');
      // One that an earlier daemon saw ending is known already.
      if (this.#record.exit !== undefined) return;
      parts.log.warn({ exit }, 'the VM of a sandbox ended by itself');
      this.#keepExit(exit).catch((err) => parts.log.error({ err }, 'cannot record the end of a VM'));
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
    return this.#isLeaving || this.#state === 'deleted';
  }

  get info(): SandboxInfo {
    const { options, createdAtMs } = this.record;
    return {
      id: this.id,
      createdAt: new Date(createdAtMs),
      memoryMib: options.memoryMib,
      vcpus: options.vcpus,
      profile: options.profile,
      workdir: this.paths.dir,
      ...(this.record.sourceSnapshotId !== undefined && { sourceSnapshotId: this.record.sourceSnapshotId }),
    };
  }

  /** Its record once users may know of it; the caller puts it into the registry. */
  becomeReady(): SandboxRecord {
    this.#record = { ...this.#record, isReady: true };
    return this.#record;
  }

  /** Lets go of it: its guest runs on, for a later daemon to adopt. */
  detach(cause: Error): void {
    this.#lifetime?.end();
    this.#capture?.stop();
    this.guest.close(cause);
    this.vm.detach();
  }

  /** Calls `onExpiry` when the sandbox's time is over. */
  startLifetime(onExpiry: () => void): void {
    const { options, createdAtMs } = this.record;
    if (options.timeoutS > 0) this.#lifetime = new Lifetime(createdAtMs + options.timeoutS * 1000, onExpiry);
  }

  exec(request: ExecRequest, events: ExecEvents): ExecSession {
    this.assertAlive();
    const spec = { ...request, env: { ...this.record.profile.env, ...request.env } };
    if (this.#log === undefined) return this.guest.exec(spec, events);
    const session = this.guest.exec(spec, logExecEvents(this.#log, events));
    logExecStart(this.#log, request.cmd);
    return session;
  }

  service(): SandboxService {
    this.assertAlive();
    return createSandboxService(this.guest, this.record.profile.env);
  }

  async pushFiles(path: string, read: ByteSource, signal?: AbortSignal): Promise<PushResult> {
    this.assertAlive();
    return this.guest.pushFiles(path, read, signal);
  }

  async pullFile(path: string, maxBytes: number, signal?: AbortSignal): Promise<PulledFile> {
    this.assertAlive();
    return this.guest.pullFile(path, maxBytes, signal);
  }

  async pullDirectory(path: string, signal?: AbortSignal): Promise<PulledFile> {
    this.assertAlive();
    return this.guest.pullDirectory(path, signal);
  }

  /** AppError not_found when it is being deleted, internal naming the cause when its VM died, guest_unreachable when it hangs. */
  assertAlive(): void {
    if (this.#state === 'deleting' || this.#state === 'deleted') {
      throw new AppError('not_found', `sandbox ${this.id} does not exist; it was deleted`);
    }
    const reason = this.vm.exit?.reason;
    if (reason !== undefined) {
      throw new AppError('internal', `sandbox ${this.id} is dead: ${reason}; delete it and create another`);
    }
    const why = this.vm.standstill ?? this.hang;
    if (why !== undefined)
      throw new AppError('guest_unreachable', `sandbox ${this.id} hangs: ${why}; wait, or delete it`);
  }

  /**
   * Ends everything it has; the same promise for every caller. A removal that failed can be tried again. `why` is what is
   * said to those who use it, after "was deleted".
   */
  remove(why = ''): Promise<void> {
    this.#isLeaving = true;
    this.#removal ??= this.#remove(why).catch((error) => {
      this.#isLeaving = false;
      this.#removal = undefined;
      throw error;
    });
    return this.#removal;
  }

  /** Removes one that nobody ever heard of, with its log. */
  async discard(): Promise<void> {
    this.#isUnheardOf = true;
    await this.remove();
    await this.#parts.logs?.remove(this.id);
  }

  async #remove(why: string): Promise<void> {
    const { records, logs, faults } = this.#parts;
    if (this.#state !== 'deleting') this.#state = checkTransition(this.#state, 'deleting');
    this.#lifetime?.end();
    this.#capture?.stop();
    this.guest.close(new Error(`sandbox ${this.id} was deleted${why}`));
    if (records.get(this.id) !== undefined) await this.#markDeleting();
    faults.reach('delete.marked');
    // Nothing in it is worth a grace: its disk and memory go with it.
    await this.vm.kill();
    faults.reach('delete.killed');
    await removeSandboxDirs(this.paths);
    faults.reach('delete.directories');
    await records.remove(this.id);
    faults.reach('delete.forgotten');
    await logs?.end(this.id);
    this.#state = checkTransition(this.#state, 'deleted');
  }

  /** From here on the next daemon would finish it. */
  async #markDeleting(): Promise<void> {
    const { records, log } = this.#parts;
    try {
      await records.put(this.id, { ...this.#record, isReady: false, isDeleting: !this.#isUnheardOf });
    } catch (err) {
      // A delete must work on a full disk, too: it is what makes room.
      log.warn({ err }, 'the delete of a sandbox cannot be written down beforehand');
    }
  }

  async #keepExit(exit: VmExit): Promise<void> {
    this.#record = { ...this.#record, exit };
    if (this.#record.isReady) await this.#parts.records.put(this.id, this.#record);
  }
}
