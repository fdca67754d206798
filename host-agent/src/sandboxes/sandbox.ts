// One sandbox that exists: its state, its VM, its guest, its end.
import type { Logger } from 'pino';
import type { Vm } from '../engines/engine.ts';
import type { ExecEvents, ExecSession } from '../guest/exec-types.ts';
import type { ByteSource, PulledFile, PushResult } from '../guest/files.ts';
import type { Guest } from '../guest/guest.ts';
import { AppError } from '../lib/errors.ts';
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
  readonly log: Logger;
  /** Absent when this daemon keeps no logs. */
  readonly sandboxLog?: SandboxLog | undefined;
};

export type RemovalContext = {
  readonly records: Table<SandboxRecord>;
  readonly logs?: LogStore | undefined;
};

export class Sandbox {
  readonly id: string;
  readonly record: SandboxRecord;
  readonly paths: SandboxPaths;
  readonly vm: Vm;
  readonly guest: Guest;
  /** Snapshots of one sandbox are taken one after another. */
  readonly snapshotQueue = new SerialQueue();
  #state: SandboxState = 'running';
  #removal: Promise<void> | undefined;
  #lifetime: Lifetime | undefined;
  readonly #log: SandboxLog | undefined;
  readonly #capture: LogCapture | undefined;

  constructor(parts: SandboxParts) {
    this.id = parts.id;
    this.record = parts.record;
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
      parts.log.warn({ exit }, 'the VM of a sandbox ended by itself');
    });
  }

  get state(): SandboxState {
    return this.#state;
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

  /** AppError not_found when it is being deleted, internal naming the cause when its VM died. */
  assertAlive(): void {
    if (this.#state === 'deleting' || this.#state === 'deleted') {
      throw new AppError('not_found', `sandbox ${this.id} does not exist; it was deleted`);
    }
    const reason = this.vm.exit?.reason;
    if (reason !== undefined) {
      throw new AppError('internal', `sandbox ${this.id} is dead: ${reason}; delete it and create another`);
    }
  }

  /**
   * Ends everything it has; the same promise for every caller. A removal that failed can be tried again.
   */
  remove(context: RemovalContext): Promise<void> {
    this.#removal ??= this.#remove(context).catch((error) => {
      this.#removal = undefined;
      throw error;
    });
    return this.#removal;
  }

  async #remove({ records, logs }: RemovalContext): Promise<void> {
    if (this.#state !== 'deleting') this.#state = checkTransition(this.#state, 'deleting');
    this.#lifetime?.end();
    this.#capture?.stop();
    this.guest.close(new Error(`sandbox ${this.id} was deleted`));
    // Nothing in it is worth a grace: its disk and memory go with it.
    await this.vm.kill();
    await removeSandboxDirs(this.paths);
    await records.remove(this.id);
    await logs?.end(this.id);
    this.#state = checkTransition(this.#state, 'deleted');
  }
}
