// One guest and its VMM: the part of its life that is the same for each engine, the limit of its log, and why it ended.
import { constants } from 'node:fs';
import { lstat, rm } from 'node:fs/promises';
import type { Logger } from 'pino';
import { AppError, firstLine, isAppError } from '../lib/errors.ts';
import { describeThreads } from '../lib/proc.ts';
import { tailFile } from '../lib/tail.ts';
import { openRegular } from '../lib/untrusted-path.ts';
import {
  type Control,
  type Controlled,
  type ControlOptions,
  type GuestState,
  type VmmFiles,
  type VmmKind,
  VmmRefusal,
} from './control.ts';
import type { SaveOptions, Vm, VmExit, VmmIdentity, WrittenVm } from './engine.ts';
import { leaveJail } from './jail/jail.ts';
import { type ProcessEnd, type VmmProcess, vmmRecordPath } from './vmm-process.ts';

const DIAGNOSIS_LINES = 40;
/** Sent for a system call that the VMM's seccomp filter forbids. */
const FILTER_SIGNAL = 'SIGSYS';

export class Vmm implements Vm, Controlled {
  readonly identity: VmmIdentity;
  readonly control: Control;
  readonly exited: Promise<VmExit>;
  readonly #process: VmmProcess;
  readonly #files: VmmFiles;
  readonly #log: Logger;
  readonly #ended = new AbortController();
  readonly #logLimits: readonly Disposable[];
  #exit: VmExit | undefined;
  #isKilledByUs = false;
  #isDetached = false;
  /** Why the daemon ended it without a request of a client. */
  #endReason: string | undefined;

  constructor(kind: VmmKind, identity: VmmIdentity, process: VmmProcess, options: ControlOptions) {
    const files = kind.filesOf(identity.paths);
    this.identity = identity;
    this.#process = process;
    this.#files = files;
    this.#log = options.log;
    this.control = kind.control(this, options);
    this.#logLimits = [files.consolePath, files.logPath, ...(files.growingPaths ?? [])].map(limitLog);
    this.exited = process.ended.then(async (end) => {
      this.#letGo();
      this.#exit = { ...end, reason: await this.#exitReason(end) };
      this.#ended.abort(new AppError('internal', `the VM ended: ${this.#exit.reason}`));
      const gone = [...files.socketPaths, vmmRecordPath(identity.paths)];
      await Promise.all(gone.map((path) => rm(path, { force: true }))).catch(() => undefined);
      if (identity.jail !== undefined)
        await leaveJail(identity.jail).catch((err) =>
          this.#log.warn({ err }, 'cannot release the user id and cgroup of a VMM'),
        );
      return this.#exit;
    });
  }

  get exit(): VmExit | undefined {
    return this.#exit;
  }

  get ended(): AbortSignal {
    return this.#ended.signal;
  }

  get isOver(): boolean {
    return this.#exit !== undefined || this.#isKilledByUs || this.#isDetached;
  }

  /** It exited without being killed by us. */
  get endedByItself(): boolean {
    return this.#exit !== undefined && !this.#isKilledByUs;
  }

  get ioPauseReason(): string | undefined {
    return this.control.ioPauseReason;
  }

  async checkState(): Promise<GuestState> {
    const state = await this.control.readState();
    if (state.kind === 'over') await this.terminate(state.reason);
    return state;
  }

  async terminate(reason: string): Promise<void> {
    if (this.isOver) return;
    if (this.#endReason === undefined) {
      this.#endReason = reason;
      // Before its files can be removed with it.
      this.#log.warn({ reason, diagnosis: await this.diagnose() }, 'ended a VM');
    }
    this.#process.signal('SIGKILL');
    await this.exited;
  }

  checkExit(): void {
    this.#process.poll();
  }

  openChannel: Vm['openChannel'] = (signal) => this.control.openChannel(signal);

  async save(options: SaveOptions): Promise<WrittenVm> {
    this.#assertRunning();
    if (this.ioPauseReason !== undefined)
      throw new AppError('exhausted', `the VM cannot be saved now: ${this.ioPauseReason}`, { stage: 'save' });
    try {
      return await this.control.save(options);
    } catch (cause) {
      const isFull = cause instanceof VmmRefusal && cause.isDiskFull;
      const code = isFull ? 'exhausted' : isAppError(cause) ? cause.code : 'internal';
      throw new AppError(code, `cannot save the VM: ${firstLine(cause)}`, { stage: 'save', cause });
    }
  }

  async resizeDisk(index: number, sizeBytes: number): Promise<void> {
    this.#assertRunning();
    await this.control.resizeDisk(index, sizeBytes);
  }

  async isEnding(): Promise<boolean> {
    return this.#exit !== undefined || this.#endReason !== undefined || (await this.control.isEnding());
  }

  async responds(timeoutMs: number): Promise<boolean> {
    if (this.#exit !== undefined) return false;
    return this.control.ping(timeoutMs).then(
      () => true,
      () => false,
    );
  }

  async kill(): Promise<void> {
    if (this.#process.signal('SIGKILL')) this.#isKilledByUs = true;
    await this.exited;
  }

  detach(): void {
    this.#isDetached = true;
    this.#letGo();
    this.#process.detach();
  }

  readBlockedTask(): Promise<string | undefined> {
    return readBlockedTask(this.#files.consolePath);
  }

  async diagnose(): Promise<string> {
    const { consolePath, earlyConsolePath, logPath } = this.#files;
    const tail = async (path: string) => tailFile(path, DIAGNOSIS_LINES);
    const [kept, early, log] = await Promise.all([
      tail(consolePath),
      earlyConsolePath === undefined ? '' : tail(earlyConsolePath),
      tail(logPath),
    ]);
    const console = kept === '' ? early : kept;
    const parts = [
      console === '' ? 'console: (empty)' : `console:\n${console}`,
      log === '' ? 'vmm log: (empty)' : `vmm log:\n${log}`,
      ...(this.#exit === undefined ? [`threads: ${describeThreads(this.identity.pid)}`] : []),
    ];
    return parts.join('\n');
  }

  #assertRunning(): void {
    if (this.#exit !== undefined) throw new AppError('internal', `the VM ended: ${this.#exit.reason}`);
  }

  #letGo(): void {
    this.control.close();
    for (const limit of this.#logLimits) limit[Symbol.dispose]();
  }

  async #exitReason(end: ProcessEnd): Promise<string> {
    if (this.#isKilledByUs && this.#endReason === undefined) return 'stopped';
    const lastWords = await readLastWords(this.#files.consolePath);
    if (this.#endReason !== undefined) return lastWords ?? this.#endReason;
    if (end.signal !== null) {
      const why = end.signal === FILTER_SIGNAL ? ', as it made a system call that its filter forbids' : '';
      return `the VMM was killed by ${end.signal}${why}`;
    }
    const known = lastWords ?? (await this.control.explainExit(end.exitCode));
    if (known !== undefined) return known;
    if (end.exitCode === null)
      return 'the VMM was killed or ended by itself; its exit code is unknown, as an earlier daemon started it';
    return explainExitCode(end.exitCode, this.#files.logPath);
  }
}

const { O_WRONLY, O_CREAT, O_EXCL } = constants;

const CHECK_MS = 2000;
const LIMIT_BYTES = 1024 * 1024;
/** Unit of `blocks`, independent of the file system's own. */
const BLOCK_BYTES = 512;
const KEEP_BYTES = 64 * 1024;

/** Truncates the log when it exceeds 1 MiB, and keeps its last 64 KiB in `<path>.1`. */
export function limitLog(path: string): Disposable {
  const check = async (): Promise<void> => {
    // A VMM that continues to write at its old offset increases only the size: the part before it is a hole.
    if ((await lstat(path)).blocks * BLOCK_BYTES <= LIMIT_BYTES) return;
    await using log = await openRegular(path, O_WRONLY);
    // Truncate even if the last part cannot be kept.
    await keep(`${path}.1`, await tailFile(path, Number.POSITIVE_INFINITY, KEEP_BYTES)).catch(
      () => undefined,
    );
    await log.truncate();
  };
  const timer = setInterval(() => void check().catch(() => undefined), CHECK_MS);
  timer.unref();
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Creates a new file: an existing path may be a link to another file. */
async function keep(path: string, text: string): Promise<void> {
  await rm(path, { force: true });
  await using file = await openRegular(path, O_WRONLY | O_CREAT | O_EXCL);
  await file.writeFile(text);
}

const CONSOLE_LINES = 60;
/** A guest may print lines of any length. */
const MAX_PHRASE = 200;

/** A lower-case phrase; undefined if the console shows no end. */
export async function readLastWords(consolePath: string): Promise<string | undefined> {
  const console = await tailFile(consolePath, CONSOLE_LINES);
  const panic = /Kernel panic - not syncing[^\n]*/.exec(console)?.[0].slice(0, MAX_PHRASE);
  if (panic !== undefined) return `the guest panicked (${panic.toLowerCase()})`;
  const initFailure = /sandbox-init: [^\n]*/.exec(console)?.[0].slice(0, MAX_PHRASE);
  return initFailure === undefined ? undefined : `the guest could not start (${initFailure})`;
}

/**
 * The guest kernel's last message about a task that has been blocked for long (hung task), usually by a disk that does
 * not answer. The agent may still answer. The message includes its time, so that no two are equal.
 */
export async function readBlockedTask(consolePath: string): Promise<string | undefined> {
  const lines = (await tailFile(consolePath, Number.POSITIVE_INFINITY)).split('\n');
  const line = lines.findLast((text) => /INFO: task .{1,64}? blocked for more than \d+ seconds/.test(text));
  return line?.slice(0, MAX_PHRASE);
}

/** A lower-case phrase with the exit code and the last line of the VMM's log. */
export async function explainExitCode(exitCode: number, logPath: string): Promise<string> {
  const last = (await tailFile(logPath, 1)).slice(0, MAX_PHRASE);
  return `the VMM exited with code ${exitCode}${exitCode === 0 || last === '' ? '' : ` (${last})`}`;
}
