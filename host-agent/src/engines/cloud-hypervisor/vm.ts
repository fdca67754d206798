// One guest on this engine.
import { rm } from 'node:fs/promises';
import { AGENT_VSOCK_PORT } from '@sandboxd/proto';
import type { Logger } from 'pino';
import { AppError } from '../../lib/errors.ts';
import { patientDeadline } from '../../lib/patience.ts';
import type { SocketLink } from '../../lib/socket-link.ts';
import { tailFile } from '../../lib/tail.ts';
import { raceSignal } from '../../lib/wait.ts';
import { limitConsoleLog } from '../console-log.ts';
import type { SavedVm, SaveOptions, Vm, VmExit, VmmIdentity } from '../engine.ts';
import { explainExitCode, readBlockedTask, readLastWords } from '../last-words.ts';
import type { ProcessEnd, VmmProcess } from '../vmm-process.ts';
import type { VmmApi } from './api.ts';
import { EventTail, hasPanicked, hasPowerOff, hasReset, hasShutDown } from './events.ts';
import { leftSockets, type VmmFiles } from './files.ts';
import { saveVm } from './save.ts';
import { diskId } from './vm-config.ts';
import { connectGuest } from './vsock.ts';

const RESIZE_TIMEOUT_MS = 30_000;
/** A VMM whose guest powered off ends by itself, if not in this time then not at all. */
const OWN_END_MS = 500;
const DIAGNOSIS_LINES = 40;
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
  readonly #events: EventTail;
  #ending: Disposable | undefined;
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
    this.#events = new EventTail(files.eventsPath);
    this.#logLimits = [files.consolePath, files.logPath, files.eventsPath].map(limitConsoleLog);
    this.exited = process.ended.then(async (end) => {
      this.#stopWatching();
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
    await this.checkEvents();
    const either = signal === undefined ? this.#ended.signal : AbortSignal.any([signal, this.#ended.signal]);
    const link = await connectGuest(this.#options.files.vsockPath, AGENT_VSOCK_PORT, either);
    // A connection of its own: nobody can have written to it before.
    return { link, needsResync: false };
  }

  /** From now on a guest that is over is noticed by the VMM's events, too. */
  watchEvents(): Promise<void> {
    const look = (): void => void this.checkEvents();
    if (this.#exit === undefined && !this.#isDetached) this.#events.watch(look);
    return this.checkEvents();
  }

  /**
   * Ends a VM whose guest is over. One that reset itself was started anew by the VMM, if that could: whatever answers is not
   * the guest that it was.
   */
  async checkEvents(): Promise<void> {
    const events = await this.#events.read();
    if (this.#exit !== undefined || this.#isKilledByUs || this.#isDetached) return;
    if (hasReset(events)) await this.giveUp('the guest reset itself');
    else if (hasPanicked(events)) await this.giveUp('the guest panicked');
    else if (hasShutDown(events)) this.#ending ??= this.#expectEnd('the guest powered off');
  }

  #expectEnd(reason: string): Disposable {
    const limit = patientDeadline({ timeoutMs: OWN_END_MS, reason: () => new Error(reason) });
    limit.signal.addEventListener('abort', () => void this.giveUp(reason));
    return limit;
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
    return this.#exit !== undefined || hasShutDown(await this.#events.read());
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
    this.#stopWatching();
    this.#options.process.detach();
  }

  readBlockedTask(): Promise<string | undefined> {
    return readBlockedTask(this.#options.files.consolePath);
  }

  async diagnose(): Promise<string> {
    const { consolePath, startConsolePath, logPath } = this.#options.files;
    const [kept, early, log] = await Promise.all([
      tailFile(consolePath, DIAGNOSIS_LINES),
      tailFile(startConsolePath, DIAGNOSIS_LINES),
      tailFile(logPath, DIAGNOSIS_LINES),
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
    if (this.#exit !== undefined) return;
    if (this.#verdict === undefined) {
      this.#verdict = reason;
      // Before its files can go with it.
      this.#options.log.warn({ reason, diagnosis: await this.diagnose() }, 'ended a VM');
    }
    this.#options.process.signal('SIGKILL');
    await this.exited;
  }

  #assertRunning(): void {
    if (this.#exit !== undefined) throw new AppError('internal', `the VM ended: ${this.#exit.reason}`);
  }

  #stopWatching(): void {
    this.#ending?.[Symbol.dispose]();
    this.#events[Symbol.dispose]();
    for (const limit of this.#logLimits) limit[Symbol.dispose]();
  }

  async #exitReason(end: ProcessEnd): Promise<string> {
    if (this.#isKilledByUs && this.#verdict === undefined) return 'stopped';
    const told = await readLastWords(this.#options.files.consolePath);
    if (this.#verdict !== undefined) return told ?? this.#verdict;
    if (end.signal !== null) {
      const why = end.signal === FILTER_SIGNAL ? ', as it made a system call that its filter forbids' : '';
      return `the VMM was killed by ${end.signal}${why}`;
    }
    if (told !== undefined) return told;
    const events = await this.#events.read();
    if (hasReset(events)) return 'the guest reset itself';
    if (end.exitCode === 0 || hasPowerOff(events)) return 'the guest powered off';
    if (end.exitCode === null)
      return 'the VMM was killed or ended by itself; its exit code is unknown, as an earlier daemon started it';
    return explainExitCode(end.exitCode, this.#options.files.logPath);
  }
}
