// One guest on QEMU.
import { rm } from 'node:fs/promises';
import type { Logger } from 'pino';
import { AppError, toError } from '../../lib/errors.ts';
import { connectLink, type SocketLink } from '../../lib/socket-link.ts';
import { tailFile } from '../../lib/tail.ts';
import { raceSignal } from '../../lib/wait.ts';
import { limitConsoleLog } from '../console-log.ts';
import type { SavedVm, SaveOptions, Vm, VmExit, VmmIdentity } from '../engine.ts';
import { explainExitCode, readBlockedTask, readLastWords } from '../last-words.ts';
import type { ProcessEnd, VmmProcess } from '../vmm-process.ts';
import { diskNode } from './args.ts';
import { explainEndState } from './end-states.ts';
import type { QemuFiles } from './files.ts';
import { type QmpClient, QmpError, type QmpEvent } from './qmp.ts';
import { saveQemu } from './save.ts';
import { IO_ERROR, Standstill } from './standstill.ts';

const DIAGNOSIS_LINES = 40;

export type QemuVmOptions = {
  readonly identity: VmmIdentity;
  readonly process: VmmProcess;
  readonly files: QemuFiles;
  readonly log: Logger;
  /** Called when the guest goes on after it stood still, but for a save. */
  readonly onResumed?: (() => void) | undefined;
  readonly onStandstill?: ((cause: string) => void) | undefined;
  /** Whether somebody may have spoken on the agent port before us. */
  readonly hasHistory: boolean;
};

export class QemuVm implements Vm {
  readonly identity: VmmIdentity;
  readonly exited: Promise<VmExit>;
  readonly #options: QemuVmOptions;
  #qmp: QmpClient | undefined;
  #exit: VmExit | undefined;
  #shutdownReason: string | undefined;
  #hasSpoken: boolean;
  #isKilledByUs = false;
  #isDetached = false;
  /** Why we ended it though nobody asked for that. */
  #verdict: string | undefined;
  readonly #consoleLimit: Disposable;
  readonly #standstill: Standstill;

  constructor(options: QemuVmOptions) {
    this.#options = options;
    this.identity = options.identity;
    this.#hasSpoken = options.hasHistory;
    this.#consoleLimit = limitConsoleLog(options.files.consolePath);
    this.#standstill = new Standstill({
      readStatus: () => this.readStatus(),
      resume: () => this.resume(),
      isOver: () => this.#exit !== undefined || this.#isDetached,
      onResumed: () => options.onResumed?.(),
      onBegin: (cause) => options.onStandstill?.(cause),
      log: options.log,
    });
    this.exited = options.process.ended.then(async (end) => {
      this.#consoleLimit[Symbol.dispose]();
      this.#qmp?.close();
      this.#exit = { ...end, reason: await this.#exitReason(end) };
      await Promise.all(
        [options.files.qmpSocketPath, options.files.agentSocketPath].map((path) => rm(path, { force: true })),
      ).catch(() => undefined);
      return this.#exit;
    });
  }

  get exit(): VmExit | undefined {
    return this.#exit;
  }

  /** The control connection, once it stands. */
  attachQmp(qmp: QmpClient): void {
    this.#qmp = qmp;
    void qmp.closed.then(() => this.#options.process.look());
    if (this.#isDetached || this.#exit !== undefined) qmp.close();
  }

  get isDetached(): boolean {
    return this.#isDetached;
  }

  /** The VMM's word for the guest's state, such as `running`. */
  async readStatus(): Promise<string> {
    const answer = (await this.#control().execute('query-status')) as { readonly status?: string };
    return answer.status ?? 'unknown';
  }

  async resume(): Promise<void> {
    await this.#control().execute('cont');
  }

  get standstill(): string | undefined {
    return this.#standstill.reason;
  }

  /**
   * Asks for the guest's state. One that is over is given up; one whose writes the host does not take is said to stand
   * still. Gives the state.
   */
  async checkState(): Promise<string> {
    const status = await this.readStatus();
    if (status === IO_ERROR) this.#standstill.begin('an input/output error');
    const reason = await explainEndState(status, this.#options.files.logPath);
    if (reason !== undefined) await this.giveUp(this.#shutdownCause() ?? reason);
    return status;
  }

  /** Ends a VM whose guest is over, or that nobody can trust; `reason` is then what it ended of. */
  async giveUp(reason: string): Promise<void> {
    if (this.#exit !== undefined || this.#isDetached) return;
    this.#verdict ??= reason;
    // Before its files can go with it.
    this.#options.log.warn({ reason, diagnosis: await this.diagnose() }, 'ended a VM');
    this.#options.process.signal('SIGKILL');
    await this.exited;
  }

  async isEnding(): Promise<boolean> {
    return this.#exit !== undefined || this.#verdict !== undefined || this.#shutdownReason !== undefined;
  }

  async responds(timeoutMs: number): Promise<boolean> {
    if (this.#qmp === undefined) return false;
    return this.#qmp.execute('query-status', {}, timeoutMs).then(
      () => true,
      () => false,
    );
  }

  detach(): void {
    this.#isDetached = true;
    this.#consoleLimit[Symbol.dispose]();
    this.#options.process.detach();
    this.#qmp?.close();
  }

  onQmpEvent(event: QmpEvent): void {
    if (event.event === 'SHUTDOWN') this.#shutdownReason = String(event.data.reason ?? 'unknown');
    if (event.event === 'GUEST_PANICKED') this.#shutdownReason = 'guest-panic';
    if (event.event === 'BLOCK_IO_ERROR' && event.data.action === 'stop')
      this.#standstill.begin(String(event.data.reason ?? 'an input/output error'));
    // What a save stopped goes on, or says why it does not.
    if (event.event === 'STOP' && !this.#standstill.isSaving)
      this.checkState().catch((error) =>
        this.#options.log.debug({ err: toError(error) }, 'a guest that stopped cannot be asked why'),
      );
  }

  async openChannel(signal?: AbortSignal): Promise<{ link: SocketLink; needsResync: boolean }> {
    const link = await connectLink(this.#options.files.agentSocketPath, signal);
    const needsResync = this.#hasSpoken;
    this.#hasSpoken = true;
    return { link, needsResync };
  }

  async save(options: SaveOptions): Promise<SavedVm & { readonly pausedMs: number }> {
    if (this.standstill !== undefined)
      throw new AppError('exhausted', `the VM cannot be saved now: ${this.standstill}`, { stage: 'save' });
    const { identity } = this;
    const resume = () => this.#resumeAfterSave();
    return this.#standstill.duringSave(() =>
      saveQemu({ identity, control: this.#control(), resume }, options),
    );
  }

  async resizeDisk(index: number, sizeBytes: number): Promise<void> {
    await this.#control().execute('block_resize', { 'node-name': diskNode(index), size: sizeBytes });
  }

  async stop(graceMs = 2000): Promise<void> {
    if (this.#exit !== undefined) return;
    this.#isKilledByUs = true;
    this.#qmp?.execute('quit', {}, graceMs).catch(() => undefined);
    if (this.#qmp === undefined) this.#options.process.signal('SIGTERM');
    const isGone = await raceSignal(this.exited, AbortSignal.timeout(graceMs)).then(
      () => true,
      () => false,
    );
    if (!isGone) await this.kill();
  }

  async kill(): Promise<void> {
    if (this.#options.process.signal('SIGKILL')) this.#isKilledByUs = true;
    await this.exited;
  }

  readBlockedTask(): Promise<string | undefined> {
    return readBlockedTask(this.#options.files.consolePath);
  }

  async diagnose(): Promise<string> {
    const { consolePath, logPath } = this.#options.files;
    const [console, log] = await Promise.all([
      tailFile(consolePath, DIAGNOSIS_LINES),
      tailFile(logPath, DIAGNOSIS_LINES),
    ]);
    const parts = [
      console === '' ? 'console: (empty)' : `console:\n${console}`,
      log === '' ? 'vmm log: (empty)' : `vmm log:\n${log}`,
    ];
    return parts.join('\n');
  }

  /** A guest that cannot go on any more is ended: paused for good it would look as if it lived. */
  async #resumeAfterSave(): Promise<void> {
    try {
      await this.resume();
    } catch (error) {
      // One that did not answer goes on when it comes to that request; until then it hangs.
      if (!(error instanceof QmpError) && this.#qmp?.isOpen === true) throw error;
      if (error instanceof QmpError) await this.checkState().catch(() => undefined);
      await this.giveUp(`it could not be resumed after it was saved: ${toError(error).message}`);
      throw error;
    }
  }

  /** What is known of a guest that shut down, undefined when nothing is. */
  #shutdownCause(): string | undefined {
    if (this.#shutdownReason === 'guest-panic') return 'the guest panicked';
    if (this.#shutdownReason === 'guest-shutdown') return 'the guest powered off';
    if (this.#shutdownReason === 'guest-reset') return 'the guest reset itself';
    return undefined;
  }

  #control(): QmpClient {
    if (this.#exit !== undefined) throw new AppError('internal', `the VM ended: ${this.#exit.reason}`);
    if (this.#qmp === undefined) throw new AppError('internal', 'the VM has no control connection');
    return this.#qmp;
  }

  async #exitReason(end: ProcessEnd): Promise<string> {
    if (this.#isKilledByUs && this.#verdict === undefined) return 'stopped';
    const told = await readLastWords(this.#options.files.consolePath);
    if (this.#verdict !== undefined) return told ?? this.#verdict;
    if (end.signal !== null) return `the VMM was killed by ${end.signal}`;
    const known = told ?? this.#shutdownCause();
    if (known !== undefined) return known;
    if (end.exitCode === null)
      return 'the VMM was killed or ended by itself; its exit code is unknown, as an earlier daemon started it';
    return explainExitCode(end.exitCode, this.#options.files.logPath);
  }
}
