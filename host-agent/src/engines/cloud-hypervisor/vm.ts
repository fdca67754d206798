// One guest on this engine.
import { rm } from 'node:fs/promises';
import { AGENT_VSOCK_PORT } from '@sandboxd/proto';
import type { Logger } from 'pino';
import { AppError } from '../../lib/errors.ts';
import type { SocketLink } from '../../lib/socket-link.ts';
import { tailFile } from '../../lib/tail.ts';
import { raceSignal } from '../../lib/wait.ts';
import { limitConsoleLog } from '../console-log.ts';
import type { SavedVm, SaveOptions, Vm, VmExit, VmmIdentity } from '../engine.ts';
import { readLastWords } from '../last-words.ts';
import type { ProcessEnd, VmmProcess } from '../vmm-process.ts';
import type { VmmApi } from './api.ts';
import { hasPowerOff, hasReset, hasShutDown, readEvents } from './events.ts';
import { leftSockets, type VmmFiles } from './files.ts';
import { saveVm } from './save.ts';
import { diskId } from './vm-config.ts';
import { connectGuest } from './vsock.ts';

const RESIZE_TIMEOUT_MS = 30_000;
/** A system call that the VMM's filter forbids. */
const FILTER_SIGNAL = 'SIGSYS';

export type CloudHypervisorVmOptions = {
  readonly identity: VmmIdentity;
  readonly process: VmmProcess;
  readonly files: VmmFiles;
  readonly api: VmmApi;
  readonly log: Logger;
};

export class CloudHypervisorVm implements Vm {
  readonly identity: VmmIdentity;
  readonly exited: Promise<VmExit>;
  /** Never: this VMM hands a write that the host's disk does not take to the guest, as an error of its disk. */
  readonly standstill = undefined;
  readonly #options: CloudHypervisorVmOptions;
  readonly #ended = new AbortController();
  readonly #logLimits: readonly Disposable[];
  #exit: VmExit | undefined;
  #isKilledByUs = false;
  #isDetached = false;
  /** Why we ended it though nobody asked for that. */
  #verdict: string | undefined;

  constructor(options: CloudHypervisorVmOptions) {
    const { identity, process, files } = options;
    this.#options = options;
    this.identity = identity;
    this.#logLimits = [files.consolePath, files.logPath].map(limitConsoleLog);
    this.exited = process.ended.then(async (end) => {
      this.#stopLimits();
      this.#exit = { ...end, reason: await this.#exitReason(end) };
      this.#ended.abort(new AppError('internal', `the VM ended: ${this.#exit.reason}`));
      await Promise.all(leftSockets(files).map((path) => rm(path, { force: true }))).catch(() => undefined);
      return this.#exit;
    });
  }

  get exit(): VmExit | undefined {
    return this.#exit;
  }

  get isDetached(): boolean {
    return this.#isDetached;
  }

  /** Fires when the VMM is gone. */
  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  /** It is over, and not because of us. */
  get endedByItself(): boolean {
    return this.#exit !== undefined && !this.#isKilledByUs;
  }

  async openChannel(signal?: AbortSignal): Promise<{ link: SocketLink; needsResync: boolean }> {
    await this.endAfterReset();
    const either = signal === undefined ? this.#ended.signal : AbortSignal.any([signal, this.#ended.signal]);
    const link = await connectGuest(this.#options.files.vsockPath, AGENT_VSOCK_PORT, either);
    // A connection of its own: nobody can have written to it before.
    return { link, needsResync: false };
  }

  /**
   * A guest that reset itself was started anew by the VMM, if that could: whatever answers is not the guest that it was.
   * A connection that broke is when to look.
   */
  async endAfterReset(): Promise<void> {
    if (this.#exit === undefined && hasReset(await readEvents(this.#options.files.eventsPath)))
      await this.giveUp('the guest reset itself');
  }

  async save(options: SaveOptions): Promise<SavedVm & { readonly pausedMs: number }> {
    const { api, files, log } = this.#options;
    this.#assertRunning();
    return saveVm({ api, dir: files.dir, log, giveUp: (reason) => this.giveUp(reason) }, options);
  }

  async resizeDisk(index: number, sizeBytes: number): Promise<void> {
    this.#assertRunning();
    const body = { id: diskId(index), desired_size: sizeBytes };
    await this.#options.api.put('vm.resize-disk', body, { timeoutMs: RESIZE_TIMEOUT_MS });
  }

  async isEnding(): Promise<boolean> {
    return this.#exit !== undefined || hasShutDown(await readEvents(this.#options.files.eventsPath));
  }

  async responds(timeoutMs: number): Promise<boolean> {
    if (this.#exit !== undefined) return false;
    return this.#options.api.ping({ timeoutMs }).then(
      () => true,
      () => false,
    );
  }

  async stop(graceMs = 2000): Promise<void> {
    if (this.#exit !== undefined) return;
    this.#isKilledByUs = true;
    // Any answer will do, or none: what counts is that the process ends.
    this.#options.api.put('vmm.shutdown', undefined, { timeoutMs: graceMs }).catch(() => undefined);
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

  detach(): void {
    this.#isDetached = true;
    this.#stopLimits();
    this.#options.process.detach();
  }

  async diagnose(): Promise<string> {
    const { consolePath, startConsolePath, logPath } = this.#options.files;
    const [kept, early, log] = await Promise.all([
      tailFile(consolePath, 12),
      tailFile(startConsolePath, 12),
      tailFile(logPath, 6),
    ]);
    const console = kept === '' ? early : kept;
    const parts = [
      console === '' ? 'console: (empty)' : `console:\n${console}`,
      log === '' ? 'vmm log: (empty)' : `vmm log:\n${log}`,
    ];
    return parts.join('\n');
  }

  /** Ends a VM that was left in a state that nobody can trust; `reason` is then what it ended of. */
  async giveUp(reason: string): Promise<void> {
    this.#verdict = reason;
    this.#options.log.warn({ reason }, 'ended a VM');
    this.#options.process.signal('SIGKILL');
    await this.exited;
  }

  #assertRunning(): void {
    if (this.#exit !== undefined) throw new AppError('internal', `the VM ended: ${this.#exit.reason}`);
  }

  #stopLimits(): void {
    for (const limit of this.#logLimits) limit[Symbol.dispose]();
  }

  async #exitReason(end: ProcessEnd): Promise<string> {
    if (this.#isKilledByUs) return 'stopped';
    const told = await readLastWords(this.#options.files.consolePath);
    if (this.#verdict !== undefined) return told ?? this.#verdict;
    if (end.signal !== null) {
      const why = end.signal === FILTER_SIGNAL ? ', as it made a system call that its filter forbids' : '';
      return `the VMM was killed by ${end.signal}${why}`;
    }
    if (told !== undefined) return told;
    const events = await readEvents(this.#options.files.eventsPath);
    if (hasReset(events)) return 'the guest reset itself';
    if (end.exitCode === 0 || hasPowerOff(events)) return 'the guest powered off';
    if (end.exitCode === null)
      return 'the VMM was killed or ended by itself; its exit code is unknown, as an earlier daemon started it';
    return `the VMM exited with code ${end.exitCode}`;
  }
}
