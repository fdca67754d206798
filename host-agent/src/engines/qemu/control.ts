// The control protocol of one VMM: QMP over a connection that is kept, and the events that come over it.
import { AppError, toError } from '../../lib/errors.ts';
import { connectLink, connectUnix, type SocketLink } from '../../lib/socket-link.ts';
import type { Control, Controlled, ControlOptions, GuestState, VmmKind } from '../control.ts';
import type { SavedVm, SaveOptions } from '../engine.ts';
import { diskNode } from './args.ts';
import { explainEndState } from './end-states.ts';
import { controlSocketOf, type QemuFiles, qemuFiles } from './files.ts';
import { IO_ERROR, IoPause } from './io-pause.ts';
import { QmpClient, QmpError, type QmpEvent, QmpViolation, toObject, toText } from './qmp.ts';
import { saveQemu } from './save.ts';

/** States of a guest that somebody stopped: a daemon that saved it and did not come back. */
const PAUSED = ['paused', 'save-vm', 'prelaunch'];
/** Of what the VMM says of a write that failed. */
const MAX_REASON = 200;

export const QEMU: VmmKind = {
  name: 'qemu',
  filesOf: qemuFiles,
  controlSocketOf,
  control: (vm, options) => new QemuControl(vm, options),
  // When it answers the threads of its CPUs exist, and they stay batch threads: a guest that wakes up does not preempt what serves it.
  unbatched: 'first-thread',
  answerTimeoutMs: 20_000,
};

/** One that waits for its kernel's command line before it makes the machine. */
export function bootingQemu(commandLine: string): VmmKind {
  return { ...QEMU, control: (vm, options) => new QemuControl(vm, options, commandLine) };
}

class QemuControl implements Control {
  readonly #vm: Controlled;
  readonly #files: QemuFiles;
  readonly #options: ControlOptions;
  readonly #ioPause: IoPause;
  #qmp: QmpClient | undefined;
  #isClosed = false;
  /** What the VMM said of its guest's end. */
  #shutdownReason: string | undefined;
  #hasSpoken: boolean;
  #questions = 0;
  /** Still to be told. */
  #commandLine: string | undefined;

  constructor(vm: Controlled, options: ControlOptions, commandLine?: string) {
    this.#vm = vm;
    this.#commandLine = commandLine;
    this.#files = qemuFiles(vm.identity.paths);
    this.#options = options;
    this.#hasSpoken = options.isAdopted;
    this.#ioPause = new IoPause({
      readStatus: () => this.#readStatus(),
      resume: () => this.resume(),
      isOver: () => vm.isOver,
      onResumed: () => options.onResumed?.(),
      onBegin: (cause) => options.onStandstill?.(cause),
      log: options.log,
    });
  }

  get ioPauseReason(): string | undefined {
    return this.#ioPause.reason;
  }

  async connect(signal: AbortSignal): Promise<boolean> {
    // It serves one connection at a time.
    this.#qmp?.close();
    const socket = await connectUnix(this.#files.controlSocketPath, signal).catch(() => undefined);
    if (socket === undefined) return false;
    const qmp = await QmpClient.open(socket, (event) => this.#onEvent(event), signal).catch(async (error) => {
      if (error instanceof QmpViolation) await this.#vm.giveUp(error.message);
      throw error;
    });
    this.#qmp = qmp;
    void qmp.closed.then(() =>
      qmp.violation === undefined ? this.#vm.lookForEnd() : this.#vm.giveUp(qmp.violation.message),
    );
    if (this.#isClosed) qmp.close();
    await this.#begin(qmp);
    return true;
  }

  async #begin(qmp: QmpClient): Promise<void> {
    if (this.#commandLine === undefined) return;
    const value = this.#commandLine;
    this.#commandLine = undefined;
    await qmp.execute('qom-set', { path: '/machine', property: 'append', value });
    await qmp.execute('x-exit-preconfig');
  }

  /** What happened before there was a connection was told to nobody; the rest comes over it. */
  async watch(): Promise<void> {
    if (this.#qmp !== undefined) await this.#vm.checkState();
  }

  async readState(): Promise<GuestState> {
    const status = await this.#readStatus();
    if (status === IO_ERROR) this.#ioPause.begin('an input/output error');
    const reason = await explainEndState(status, this.#files.logPath);
    if (reason !== undefined) return { kind: 'over', reason: this.#shutdownCause() ?? reason };
    return { kind: PAUSED.includes(status) ? 'paused' : 'runs' };
  }

  async resume(): Promise<void> {
    await this.#connected().execute('cont');
  }

  async save(options: SaveOptions): Promise<SavedVm & { readonly pausedMs: number }> {
    const { identity } = this.#vm;
    const resume = () => this.#resumeAfterSave();
    return this.#ioPause.duringSave(() =>
      saveQemu({ identity, control: this.#connected(), resume }, options),
    );
  }

  async resizeDisk(index: number, sizeBytes: number): Promise<void> {
    await this.#connected().execute('block_resize', { 'node-name': diskNode(index), size: sizeBytes });
  }

  async openChannel(signal?: AbortSignal): Promise<{ link: SocketLink; needsResync: boolean }> {
    const link = await connectLink(this.#files.agentSocketPath, signal);
    // The guest's end is one port for all connections: what the one before left there comes first.
    const needsResync = this.#hasSpoken;
    this.#hasSpoken = true;
    return { link, needsResync };
  }

  async ping(timeoutMs: number): Promise<unknown> {
    return this.#connected().execute('query-status', {}, timeoutMs);
  }

  async isEnding(): Promise<boolean> {
    return this.#shutdownReason !== undefined;
  }

  async explainExit(): Promise<string | undefined> {
    return this.#shutdownCause();
  }

  close(): void {
    this.#isClosed = true;
    this.#qmp?.close();
  }

  #onEvent({ event, data }: QmpEvent): void {
    if (event === 'SHUTDOWN') this.#shutdownReason = toText(data.reason) ?? 'unknown';
    if (event === 'GUEST_PANICKED') this.#shutdownReason = 'guest-panic';
    if (event === 'BLOCK_IO_ERROR' && data.action === 'stop')
      this.#ioPause.begin((toText(data.reason) ?? 'an input/output error').slice(0, MAX_REASON));
    // What a save stopped goes on, or says why it does not.
    if (event === 'STOP' && !this.#ioPause.isSaving) void this.#askWhy();
  }

  /** Not once for each time that it says so: one question is under way, and one more will see what came since. */
  async #askWhy(): Promise<void> {
    if (this.#questions >= 2) return;
    this.#questions += 1;
    try {
      await this.#vm.checkState();
    } catch (error) {
      this.#options.log.debug({ err: toError(error) }, 'a guest that stopped cannot be asked why');
    } finally {
      this.#questions -= 1;
    }
  }

  /** A guest that cannot go on any more is ended: paused for good it would look as if it lived. */
  async #resumeAfterSave(): Promise<void> {
    try {
      await this.resume();
    } catch (error) {
      // One that did not answer goes on when it comes to that request; until then it hangs.
      if (!(error instanceof QmpError) && this.#qmp?.isOpen === true) throw error;
      if (error instanceof QmpError) await this.#vm.checkState().catch(() => undefined);
      await this.#vm.giveUp(`it could not be resumed after it was saved: ${toError(error).message}`);
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

  /** The VMM's word for the guest's state, such as `running`. */
  async #readStatus(): Promise<string> {
    return toText(toObject(await this.#connected().execute('query-status')).status) ?? 'unknown';
  }

  #connected(): QmpClient {
    if (this.#qmp === undefined) throw new AppError('internal', 'the VM has no control connection');
    return this.#qmp;
  }
}
