// The commands of this guest by id: those that run, and those that have ended within the last hour. The table is in the
// guest's memory, so it outlives connections and daemons, and each copy of the guest has its own.
import {
  AgentError,
  COMMAND_RESULT_MS,
  type CommandStatusInput,
  type Exec,
  type ExecResultInput,
  MAX_COMMAND_LINE_BYTES,
  MAX_DETACHED_COMMANDS,
  MAX_ENDED_COMMANDS,
  MAX_RUNNING_COMMANDS,
  startTimer,
  type TtySize,
} from '@sandboxd/proto';
import type { Launched } from '../exec/launch.ts';
import { OutputRing, type RingMemory } from '../service/ring.ts';
import { Recorder } from './recorder.ts';

/** Memory for the retained output of all commands together. */
const MAX_OUTPUT_BYTES = 16 * 2 ** 20;
const OUTPUT_SHARE = 1 / 32;
/** A smaller ring would make a record of each few bytes. */
const MIN_OUTPUT_BYTES = 4096;
const RING_ID = '0'.repeat(16);
const ID = /^[\w-]{1,64}$/;

/** What the table can do with a running command. */
export interface CommandControls {
  signal(name: string): void;
  resize(size: TtySize): void;
  terminate(graceMs: number): void;
}

export class CommandTable {
  /** Oldest first. */
  readonly #commands = new Map<string, Command>();
  /** In the order of their ends. */
  readonly #ended = new Map<string, number>();
  readonly #output: OutputMemory;
  #detached = 0;
  #stopPruning: () => void = () => {};

  constructor(guestMemoryBytes: number) {
    const limitBytes = Math.min(MAX_OUTPUT_BYTES, guestMemoryBytes * OUTPUT_SHARE);
    this.#output = new OutputMemory(limitBytes, () => this.#clearOldest());
  }

  /** Memory that the output of all commands occupies. */
  get outputBytes(): number {
    return this.#output.usedBytes;
  }

  /** Oldest first. */
  get all(): readonly Command[] {
    this.#prune();
    return [...this.#commands.values()];
  }

  /** AgentError not_found. */
  get(id: string): Command {
    this.#prune();
    const command = this.#commands.get(id);
    if (command === undefined) throw new AgentError('not_found', `command ${id} does not exist`);
    return command;
  }

  /**
   * Enters a command that is about to start. Undefined for one that stays unlisted. AgentError invalid, conflict for a
   * known id, busy for too many.
   */
  admit(exec: Exec): Command | undefined {
    const { id, detach } = exec;
    if (id === '' && !detach) return undefined;
    if (!ID.test(id)) throw new AgentError('invalid', 'the id of the command is not valid');
    this.#prune();
    if (this.#commands.has(id)) throw new AgentError('conflict', `command ${id} exists already`);
    if (detach && this.#detached >= MAX_DETACHED_COMMANDS)
      throw new AgentError('busy', `${this.#detached} detached commands are running already`);
    const attached = this.#commands.size - this.#ended.size - this.#detached;
    if (!detach && attached >= MAX_RUNNING_COMMANDS - MAX_DETACHED_COMMANDS) return undefined;
    const recorder = detach
      ? new Recorder(
          new OutputRing(RING_ID, Math.max(exec.outputBufferBytes, MIN_OUTPUT_BYTES), this.#output),
        )
      : undefined;
    const command = new Command(exec, recorder, () => this.#onEnded(command));
    this.#commands.set(id, command);
    if (detach) this.#detached += 1;
    return command;
  }

  #onEnded(command: Command): void {
    if (command.recorder !== undefined) this.#detached -= 1;
    this.#ended.set(command.id, performance.now());
    this.#prune();
  }

  #prune(): void {
    const oldestMs = performance.now() - COMMAND_RESULT_MS;
    for (const [id, endedMs] of this.#ended) {
      if (this.#ended.size <= MAX_ENDED_COMMANDS && endedMs > oldestMs) {
        this.#stopPruning();
        this.#stopPruning = startTimer(endedMs - oldestMs, () => this.#prune(), { isUnref: true });
        return;
      }
      this.#commands.get(id)?.recorder?.ring.clear();
      this.#commands.delete(id);
      this.#ended.delete(id);
    }
    this.#stopPruning();
  }

  /** Drops the output of the command that ended first and has any. False when none has. */
  #clearOldest(): boolean {
    for (const id of this.#ended.keys()) {
      const ring = this.#commands.get(id)?.recorder?.ring;
      if (ring === undefined || ring.first.seq === ring.end.seq) continue;
      ring.clear();
      return true;
    }
    return false;
  }
}

/** One entry of the table. */
export class Command {
  readonly id: string;
  /** Undefined for an attached command, whose output goes to its client. */
  readonly recorder: Recorder | undefined;
  readonly #line: { readonly cmd: readonly string[]; readonly isCut: boolean };
  readonly #startedUnixMs: number;
  readonly #onEnded: () => void;
  readonly #waiting = new Set<() => void>();
  #controls: CommandControls | undefined;
  #pid = 0;
  #tty: TtySize | undefined;
  #end: { readonly result: ExecResultInput; readonly unixMs: number } | undefined;

  constructor(exec: Exec, recorder: Recorder | undefined, onEnded: () => void) {
    this.id = exec.id;
    this.recorder = recorder;
    this.#line = cutLine(exec.cmd);
    this.#startedUnixMs = Date.now();
    this.#onEnded = onEnded;
    if (exec.tty) this.#tty = { cols: exec.tty.cols ?? 0, rows: exec.tty.rows ?? 0 };
  }

  /** Undefined when it has ended. */
  get controls(): CommandControls | undefined {
    return this.#controls;
  }

  get status(): CommandStatusInput {
    const { cmd, isCut } = this.#line;
    return {
      id: this.id,
      cmd: [...cmd],
      cmdTruncated: isCut,
      pid: this.#pid,
      detached: this.recorder !== undefined,
      stdin: this.recorder?.isInputOpen === true,
      startedUnixMs: this.#startedUnixMs,
      ...(this.#tty && { tty: this.#tty }),
      ...(this.#end && { result: this.#end.result, endedUnixMs: this.#end.unixMs }),
      ...(this.recorder && { output: toCounts(this.recorder.ring) }),
    };
  }

  started({ pid, descriptors }: Launched, controls: CommandControls): void {
    this.#pid = pid;
    // A command that ended at once has its result already.
    if (this.#end !== undefined) return;
    this.#controls = controls;
    if (descriptors.input !== undefined) this.recorder?.openInput(descriptors.error === undefined);
  }

  ended(result: ExecResultInput): void {
    this.#end = { result, unixMs: Date.now() };
    this.#controls = undefined;
    this.recorder?.finish();
    // Readers that are at the end give the result now.
    this.recorder?.ring.seal();
    this.#onEnded();
    for (const callback of [...this.#waiting]) callback();
    this.#waiting.clear();
  }

  resize(size: TtySize): void {
    if (this.#tty === undefined) return;
    const isSame = size.cols === this.#tty.cols && size.rows === this.#tty.rows;
    // The kernel reports only changes, and a program redraws its screen after one.
    if (isSame) this.#controls?.resize({ ...size, rows: size.rows + 1 });
    this.#controls?.resize(size);
    this.#tty = size;
  }

  /** Calls back once it has ended, unless the returned function is called before. */
  whenEnded(callback: () => void): () => void {
    if (this.#end !== undefined) callback();
    else this.#waiting.add(callback);
    return () => this.#waiting.delete(callback);
  }
}

/** The memory of all rings: a limit that ended commands give way to first. */
class OutputMemory implements RingMemory {
  usedBytes = 0;
  readonly #limitBytes: number;
  readonly #reclaim: () => boolean;

  constructor(limitBytes: number, reclaim: () => boolean) {
    this.#limitBytes = limitBytes;
    this.#reclaim = reclaim;
  }

  take(bytes: number, isGuaranteed: boolean): boolean {
    while (this.usedBytes + bytes > this.#limitBytes && this.#reclaim());
    if (this.usedBytes + bytes > this.#limitBytes && !isGuaranteed) return false;
    this.usedBytes += bytes;
    return true;
  }

  give(bytes: number): void {
    this.usedBytes -= bytes;
  }
}

function toCounts({ counts: { firstSeq, nextSeq, droppedBytes } }: OutputRing) {
  return { firstSeq, nextSeq, droppedBytes };
}

/** The first arguments, cut so that a list of all commands fits into a message. */
function cutLine(cmd: readonly string[]): { readonly cmd: readonly string[]; readonly isCut: boolean } {
  const line: string[] = [];
  let leftBytes = MAX_COMMAND_LINE_BYTES;
  for (const argument of cmd) {
    // An empty argument costs its field, too.
    const bytes = Buffer.byteLength(argument) + 8;
    if (bytes > leftBytes) {
      const start = Buffer.from(argument.slice(0, leftBytes)).subarray(0, Math.max(0, leftBytes - 8));
      line.push(start.toString().replace(/\uFFFD+$/, ''));
      return { cmd: line, isCut: true };
    }
    leftBytes -= bytes;
    line.push(argument);
  }
  return { cmd: line, isCut: false };
}
