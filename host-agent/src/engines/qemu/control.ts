// The control protocol of one VMM: QMP over a persistent connection, with events.
import { existsSync } from 'node:fs';
import type { Socket } from 'node:net';
import { AppError, toError } from '../../lib/errors.ts';
import { connectLink, connectUnix, type SocketLink } from '../../lib/socket-link.ts';
import { tailFile } from '../../lib/tail.ts';
import type { Control, Controlled, ControlOptions, GuestState, VmmKind } from '../control.ts';
import type { SaveOptions, WrittenVm } from '../engine.ts';
import { diskNode } from './args.ts';
import { controlSocketOf, type QemuFiles, qemuFiles } from './files.ts';
import { IO_ERROR, IoPause } from './io-pause.ts';
import { QmpClient, QmpError, type QmpEvent, QmpViolation, toObject, toText } from './qmp.ts';
import { saveQemu } from './save.ts';

/** States of a guest that was paused on purpose: by a daemon that saved it and was then killed. */
const PAUSED = ['paused', 'save-vm', 'prelaunch'];
/** Maximum length of the VMM's error text for a failed write. */
const MAX_REASON = 200;
/** States in which the VMM is alive but its guest will never run again, each as a lower-case phrase. */
const END_STATES: ReadonlyMap<string, string> = new Map([
  ['internal-error', 'the guest cannot run any further on this host: internal error of the VMM'],
  ['guest-panicked', 'the guest panicked'],
  ['shutdown', 'the guest powered off'],
]);
/**
 * When a connection comes while QEMU hands its listening socket to another thread, both threads accept it: one waits
 * in `accept`, which blocks, until there is another connection. Seen four times in 6,000 starts.
 */
const ANOTHER_CONNECTION_MS = 1000;
const END_LOG_LINES = 2000;
const END_LOG_BYTES = 256 * 1024;
const MAX_END_DETAIL = 160;
/** What the VMM prints before the registers of a CPU that it could not run. */
const END_DETAIL =
  /^(?:KVM internal error|KVM: entry failed|error: kvm run failed|KVM: unknown exit).*(?:\nemulation failure)?/m;

export const QEMU: VmmKind = {
  name: 'qemu',
  filesOf: qemuFiles,
  controlSocketOf,
  control: (vm, options) => new QemuControl(vm, options),
  // When the VMM answers, its vCPU threads exist. They stay SCHED_BATCH: a guest that wakes up does not preempt the
  // process that serves it.
  unbatched: 'first-thread',
  answerTimeoutMs: 20_000,
};

/** A VMM that waits for the kernel's command line before it creates the machine. */
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
  /** The reason that the VMM reported for its guest's shutdown. */
  #shutdownReason: string | undefined;
  #hasConnected: boolean;
  #queries = 0;
  /** Not yet sent to the VMM. */
  #commandLine: string | undefined;

  constructor(vm: Controlled, options: ControlOptions, commandLine?: string) {
    this.#vm = vm;
    this.#commandLine = commandLine;
    this.#files = qemuFiles(vm.identity.paths);
    this.#options = options;
    this.#hasConnected = options.isAdopted;
    this.#ioPause = new IoPause({
      readStatus: () => this.#readStatus(),
      resume: () => this.resume(),
      isOver: () => vm.isOver,
      onResumed: () => options.onResumed?.(),
      onBegin: (cause) => options.onIoPause?.(cause),
      log: options.log,
    });
  }

  get ioPauseReason(): string | undefined {
    return this.#ioPause.reason;
  }

  async connect(signal: AbortSignal): Promise<boolean> {
    // QEMU serves one QMP connection at a time.
    this.#qmp?.close();
    // It is asked many times in a start, and a failure costs an error with its stack.
    if (!existsSync(this.#files.controlSocketPath)) return false;
    const socket = await connectUnix(this.#files.controlSocketPath, signal).catch(() => undefined);
    if (socket === undefined) return false;
    const qmp = await this.#open(socket, signal);
    this.#qmp = qmp;
    void qmp.closed.then(() =>
      qmp.violation === undefined ? this.#vm.checkExit() : this.#vm.terminate(qmp.violation.message),
    );
    if (this.#isClosed) qmp.close();
    await this.#begin(qmp);
    return true;
  }

  async #open(socket: Socket, signal: AbortSignal): Promise<QmpClient> {
    const path = this.#files.controlSocketPath;
    const another = async (): Promise<void> => void (await connectUnix(path, signal)).destroy();
    const timer = setInterval(() => void another().catch(() => undefined), ANOTHER_CONNECTION_MS);
    try {
      return await QmpClient.open(socket, (event) => this.#onEvent(event), signal);
    } catch (error) {
      if (error instanceof QmpViolation) await this.#vm.terminate(error.message);
      throw error;
    } finally {
      clearInterval(timer);
    }
  }

  async #begin(qmp: QmpClient): Promise<void> {
    if (this.#commandLine === undefined) return;
    const value = this.#commandLine;
    this.#commandLine = undefined;
    await qmp.execute('qom-set', { path: '/machine', property: 'append', value });
    await qmp.execute('x-exit-preconfig');
  }

  /** Events before the connection are lost, so the state is queried once; later events arrive over it. */
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

  async save(options: SaveOptions): Promise<WrittenVm> {
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
    // The serial port is the same for all connections: unread bytes of the previous one come first.
    const needsResync = this.#hasConnected;
    this.#hasConnected = true;
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
    // The pause of a save ends by itself, or its error says why not.
    if (event === 'STOP' && !this.#ioPause.isSaving) void this.#queryPauseReason();
  }

  /** Limits the queries to two: one that is running, and one more for events that came since. */
  async #queryPauseReason(): Promise<void> {
    if (this.#queries >= 2) return;
    this.#queries += 1;
    try {
      await this.#vm.checkState();
    } catch (error) {
      this.#options.log.debug({ err: toError(error) }, 'cannot query why the VMM paused a guest');
    } finally {
      this.#queries -= 1;
    }
  }

  /** A guest that cannot be resumed is ended: if it stayed paused, it would look alive. */
  async #resumeAfterSave(): Promise<void> {
    try {
      await this.resume();
    } catch (error) {
      // A VMM that did not answer resumes the guest when it gets to the request; until then it hangs.
      if (!(error instanceof QmpError) && this.#qmp?.isOpen === true) throw error;
      if (error instanceof QmpError) await this.#vm.checkState().catch(() => undefined);
      await this.#vm.terminate(`it could not be resumed after it was saved: ${toError(error).message}`);
      throw error;
    }
  }

  /** The known reason of a guest's shutdown; undefined if there is none. */
  #shutdownCause(): string | undefined {
    if (this.#shutdownReason === 'guest-panic') return 'the guest panicked';
    if (this.#shutdownReason === 'guest-shutdown') return 'the guest powered off';
    if (this.#shutdownReason === 'guest-reset') return 'the guest reset itself';
    return undefined;
  }

  /** The guest's state in the VMM's terms, such as `running`. */
  async #readStatus(): Promise<string> {
    return toText(toObject(await this.#connected().execute('query-status')).status) ?? 'unknown';
  }

  #connected(): QmpClient {
    if (this.#qmp === undefined) throw new AppError('internal', 'the VM has no control connection');
    return this.#qmp;
  }
}

/** Undefined if a guest in that state may continue. */
async function explainEndState(status: string, logPath: string): Promise<string | undefined> {
  const meaning = END_STATES.get(status);
  if (status !== 'internal-error') return meaning;
  const detail = END_DETAIL.exec(await tailFile(logPath, END_LOG_LINES, END_LOG_BYTES))?.[0];
  return detail === undefined
    ? meaning
    : `${meaning} (${detail.replace(/\.?\s*\n/, ', ').slice(0, MAX_END_DETAIL)})`;
}
