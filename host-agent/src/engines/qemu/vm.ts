// One guest on QEMU.
import { rm } from 'node:fs/promises';
import type { Logger } from 'pino';
import { AppError } from '../../lib/errors.ts';
import { connectLink, type SocketLink } from '../../lib/socket-link.ts';
import { tailFile } from '../../lib/tail.ts';
import { raceSignal } from '../../lib/wait.ts';
import { limitConsoleLog } from '../console-log.ts';
import type { SavedVm, SaveOptions, Vm, VmExit, VmmIdentity } from '../engine.ts';
import { readLastWords } from '../last-words.ts';
import type { ProcessEnd, VmmProcess } from '../vmm-process.ts';
import { diskNode } from './args.ts';
import type { QemuFiles } from './files.ts';
import type { QmpClient, QmpEvent } from './qmp.ts';
import { saveQemu } from './save.ts';
import { Standstill } from './standstill.ts';

export type QemuVmOptions = {
  readonly identity: VmmIdentity;
  readonly process: VmmProcess;
  readonly files: QemuFiles;
  readonly log: Logger;
  /** Called when the guest goes on after it stood still, but for a save. */
  readonly onResumed?: (() => void) | undefined;
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

  /** The VMM stopped the guest for `cause`. */
  onStandstill(cause: string): void {
    this.#standstill.begin(cause);
  }

  async isEnding(): Promise<boolean> {
    return this.#exit !== undefined || this.#shutdownReason !== undefined;
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
      this.onStandstill(String(event.data.reason ?? 'an input/output error'));
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
    return this.#standstill.duringSave(() => saveQemu(this.identity, this.#control(), options));
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

  async diagnose(): Promise<string> {
    const { consolePath, logPath } = this.#options.files;
    const [console, log] = await Promise.all([tailFile(consolePath, 12), tailFile(logPath, 6)]);
    const parts = [
      console === '' ? 'console: (empty)' : `console:\n${console}`,
      log === '' ? 'vmm log: (empty)' : `vmm log:\n${log}`,
    ];
    return parts.join('\n');
  }

  #control(): QmpClient {
    if (this.#exit !== undefined) throw new AppError('internal', `the VM ended: ${this.#exit.reason}`);
    if (this.#qmp === undefined) throw new AppError('internal', 'the VM has no control connection');
    return this.#qmp;
  }

  async #exitReason(end: ProcessEnd): Promise<string> {
    if (this.#isKilledByUs) return 'stopped';
    if (end.signal !== null) return `the VMM was killed by ${end.signal}`;
    const told = await readLastWords(this.#options.files.consolePath);
    if (this.#shutdownReason === 'guest-panic') return told ?? 'the guest panicked';
    if (told !== undefined) return told;
    if (this.#shutdownReason === 'guest-shutdown') return 'the guest powered off';
    if (this.#shutdownReason === 'guest-reset') return 'the guest reset itself';
    if (end.exitCode === null)
      return 'the VMM was killed or ended by itself; its exit code is unknown, as an earlier daemon started it';
    return `the VMM exited with code ${end.exitCode}`;
  }
}
