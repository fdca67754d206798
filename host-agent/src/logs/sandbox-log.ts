// Writes the log of one sandbox. Appending never waits: records are queued in memory and written in batches. If the
// disk is too slow, records are dropped and counted.
import { type FileHandle, open, truncate, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Chunk, createByteQueue } from '../lib/byte-queue.ts';
import { toError } from '../lib/errors.ts';
import { NOTHING } from '../lib/utf8-joiner.ts';
import { type CommandMark, CommandMarks } from './command-marks.ts';
import { type CapturePosition, encodeRecord, type LogSource, type NewRecord } from './record.ts';
import { repairLog, type Segment, segmentPath } from './segments.ts';

/**
 * How long a record waits to be batched with others, such as the start and end of a short command. Readers do not wait
 * for it.
 */
const LINGER_MS = 50;
const BATCH_BYTES = 1024 * 1024;
/** Above this size, further records are dropped. */
const MAX_QUEUE_BYTES = 8 * 1024 * 1024;
/** Above this size, producers that can wait should (backpressure). */
const BACKPRESSURE_BYTES = 2 * 1024 * 1024;
/** A file that reserves disk space for a final message when the disk is full. */
export const RESERVE_NAME = 'reserve';
const RESERVE_BYTES = 4096;
const SEGMENTS = 8;
/** Which no service has. */
const UNKNOWN_RING = 'f'.repeat(16);

type SandboxLogOptions = {
  readonly dir: string;
  readonly maxBytes: number;
  /** Called once, after a write failed and the log was closed. */
  readonly onFailure: (error: Error) => void;
};

export class SandboxLog {
  readonly #options: SandboxLogOptions;
  readonly #segmentBytes: number;
  #segments: Segment[] = [];
  #file: FileHandle | undefined;
  /** End of the written, readable part. */
  #writtenEnd = 0;
  /** End of the queued part. */
  #queuedEnd = 0;
  readonly #queue = createByteQueue();
  /** Lengths of the queued records: each file begins and ends at a record boundary. */
  #recordBytes: number[] = [];
  #position: CapturePosition | undefined;
  /** Number of running commands, stored in each record, so that a log that a crash truncated can be completed. */
  #runningExecs = 0;
  #droppedBytes = 0;
  #droppedSource: LogSource = 'exec';
  #writing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #hasFailed = false;
  #isClosed = false;
  readonly #capacityWaiters: (() => void)[] = [];

  readonly #marks: CommandMarks;

  private constructor(options: SandboxLogOptions, marks: CommandMarks) {
    this.#options = options;
    this.#marks = marks;
    this.#segmentBytes = Math.max(64 * 1024, Math.floor(options.maxBytes / SEGMENTS));
  }

  /**
   * Continues the log in `dir` after a repair, or creates it; the directory must exist. Commands that ran when a daemon
   * was killed ended with it.
   */
  static async open(options: SandboxLogOptions): Promise<SandboxLog> {
    const { segments, end, position, runningExecs } = await repairLog(options.dir);
    const log = new SandboxLog(options, await CommandMarks.open(options.dir, end));
    log.#segments = [...segments];
    log.#writtenEnd = end;
    log.#queuedEnd = end;
    log.#position = position;
    await writeFile(join(options.dir, RESERVE_NAME), Buffer.alloc(RESERVE_BYTES, 1)).catch(() => {});
    log.#runningExecs = runningExecs;
    for (let n = 0; n < runningExecs; n++) log.execEnded(-1);
    return log;
  }

  /** How far the service's output is in the log (or in its queue). */
  get position(): CapturePosition | undefined {
    return this.#position;
  }

  /** Whether writing failed: nothing is recorded any more. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Readers must stop here. */
  get writtenEnd(): number {
    return this.#writtenEnd;
  }

  get hasCapacity(): boolean {
    return this.#queuedEnd - this.#writtenEnd < BACKPRESSURE_BYTES;
  }

  /** Calls back when the queue is below its threshold again, or will never be written. */
  whenWritable(callback: () => void): void {
    if (this.hasCapacity || this.#hasFailed || this.#isClosed) callback();
    else this.#capacityWaiters.push(callback);
  }

  /**
   * Queues a copy of a record. `position` is the service's new position. A full queue drops the record and counts its
   * bytes; an event reports the number when there is capacity again.
   */
  append(record: NewRecord, position?: CapturePosition): void {
    if (this.#hasFailed || this.#isClosed) return;
    if (this.#queuedEnd - this.#writtenEnd + record.data.length > MAX_QUEUE_BYTES) {
      this.#droppedBytes += record.data.length;
      this.#droppedSource = record.source;
      this.#position = position ?? this.#position;
      return;
    }
    if (this.#droppedBytes > 0) this.#reportDropped(record.timeMs);
    this.#position = position ?? this.#position;
    this.#enqueue(record);
    if (this.#writing !== undefined) return;
    if (this.#queuedEnd - this.#writtenEnd >= BATCH_BYTES) this.#write();
    else this.#timer ??= setTimeout(() => this.#write(), LINGER_MS);
  }

  event(source: LogSource, text: string, position?: CapturePosition): void {
    this.append({ source, stream: 'event', timeMs: Date.now(), data: Buffer.from(text) }, position);
  }

  execStarted(cmd: string): void {
    this.#runningExecs += 1;
    this.event('exec', `exec: ${cmd}`);
  }

  execEnded(exitCode: number): void {
    this.#runningExecs = Math.max(0, this.#runningExecs - 1);
    this.event('exec', `exit ${exitCode}`);
  }

  /** Detached commands whose end is not in the log. */
  get commands(): readonly CommandMark[] {
    return this.#marks.all.filter(({ hasEnded }) => !hasEnded);
  }

  /** How far a detached command is in the log (or in its queue). To be called directly after its records are queued. */
  markCommand(mark: CommandMark): void {
    if (!this.#hasFailed && !this.#isClosed) this.#marks.add(mark, this.#queuedEnd);
  }

  /** Another guest follows: what is known of the output of the one before does not hold for it. */
  changeGuest(text: string): void {
    const held = { stdout: NOTHING, stderr: NOTHING };
    for (const mark of this.commands) this.markCommand({ ...mark, hasEnded: true });
    this.event('exec', text, { ring: UNKNOWN_RING, nextSeq: 0, held });
  }

  /** Resolves when everything queued so far is written, or never will be. */
  async flush(): Promise<void> {
    const end = this.#queuedEnd;
    while (this.#writtenEnd < end && !this.#hasFailed) {
      this.#write();
      await this.#writing;
    }
  }

  /** Writes what is queued, and closes the log. */
  async close(): Promise<void> {
    if (this.#droppedBytes > 0) this.#reportDropped(Date.now());
    this.#isClosed = true;
    await this.flush();
    await this.#file?.close();
    this.#file = undefined;
    await unlink(join(this.#options.dir, RESERVE_NAME)).catch(() => {});
    this.#wakeWaiters();
  }

  #reportDropped(timeMs: number): void {
    const text = `${this.#droppedBytes} bytes of output were not logged: the host's disk was slower than the output`;
    this.#droppedBytes = 0;
    this.#enqueue({ source: this.#droppedSource, stream: 'event', timeMs, data: Buffer.from(text) });
  }

  #enqueue(record: NewRecord): void {
    const chunks = encodeRecord(record, this.#position, this.#queuedEnd, this.#runningExecs);
    let sizeBytes = 0;
    for (const chunk of chunks) {
      this.#queue.push(chunk);
      sizeBytes += chunk.length;
    }
    this.#recordBytes.push(sizeBytes);
    this.#queuedEnd += sizeBytes;
  }

  #write(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing ??= this.#writeQueue().finally(() => {
      this.#writing = undefined;
    });
  }

  async #writeQueue(): Promise<void> {
    try {
      while (this.#queue.sizeBytes > 0) {
        const file = await this.#currentFile();
        const chunks = this.#takeBatch();
        try {
          await this.#marks.save(this.#writtenEnd);
          await writeAll(
            file,
            chunks.map(({ bytes }) => bytes),
          );
        } finally {
          for (const chunk of chunks) chunk.release();
        }
        for (const { bytes } of chunks) this.#writtenEnd += bytes.length;
        if (this.hasCapacity) this.#wakeWaiters();
      }
    } catch (error) {
      await this.#fail(toError(error));
    }
  }

  #takeBatch(): Chunk[] {
    const capacityBytes = this.#segmentBytes - (this.#writtenEnd - (this.#segments.at(-1)?.start ?? 0));
    let leftBytes = 0;
    let taken = 0;
    for (const recordBytes of this.#recordBytes) {
      if (taken > 0 && leftBytes + recordBytes > Math.min(BATCH_BYTES, capacityBytes)) break;
      leftBytes += recordBytes;
      taken++;
    }
    this.#recordBytes.splice(0, taken);
    const chunks: Chunk[] = [];
    for (let chunk = this.#queue.take(leftBytes); chunk !== undefined; chunk = this.#queue.take(leftBytes)) {
      chunks.push(chunk);
      leftBytes -= chunk.bytes.length;
    }
    return chunks;
  }

  /** Starts a new file when the last one is full, and then removes the oldest. */
  async #currentFile(): Promise<FileHandle> {
    const { dir, maxBytes } = this.#options;
    const last = this.#segments.at(-1);
    if (last !== undefined && this.#writtenEnd - last.start < this.#segmentBytes) {
      this.#file ??= await open(last.path, 'a');
      return this.#file;
    }
    await this.#file?.close();
    this.#file = undefined;
    const path = segmentPath(dir, this.#writtenEnd);
    this.#file = await open(path, 'a', 0o600);
    this.#segments.push({ path, start: this.#writtenEnd, sizeBytes: 0 });
    // The limit counts the new file at its full size.
    while (this.#segments.length > 1) {
      const oldest = this.#segments[0];
      if (oldest === undefined || this.#writtenEnd + this.#segmentBytes - oldest.start <= maxBytes) break;
      this.#segments.shift();
      await unlink(oldest.path);
    }
    return this.#file;
  }

  /** The disk is full or broken: writes a final message if possible, and stops. */
  async #fail(error: Error): Promise<void> {
    this.#hasFailed = true;
    const lostBytes = this.#queuedEnd - this.#writtenEnd;
    this.#queue.clear();
    this.#recordBytes = [];
    this.#queuedEnd = this.#writtenEnd;
    try {
      await this.#writeFinalMessage(
        `logging stopped: ${describe(error)}; ${lostBytes} bytes were not logged`,
      );
    } catch {
      // Then only the daemon's own log has the error.
    }
    this.#wakeWaiters();
    this.#options.onFailure(error);
  }

  async #writeFinalMessage(text: string): Promise<void> {
    await unlink(join(this.#options.dir, RESERVE_NAME)).catch(() => {});
    const last = this.#segments.at(-1);
    if (last === undefined) return;
    await truncate(last.path, this.#writtenEnd - last.start);
    this.#file ??= await open(last.path, 'a');
    const record: NewRecord = {
      source: 'service',
      stream: 'event',
      timeMs: Date.now(),
      data: Buffer.from(text),
    };
    const chunks = encodeRecord(record, this.#position, this.#writtenEnd);
    await writeAll(this.#file, chunks);
    this.#writtenEnd += chunks.reduce((sum, chunk) => sum + chunk.length, 0);
    this.#queuedEnd = this.#writtenEnd;
  }

  #wakeWaiters(): void {
    for (const callback of this.#capacityWaiters.splice(0)) callback();
  }
}

async function writeAll(file: FileHandle, chunks: readonly Buffer[]): Promise<void> {
  let rest = chunks;
  while (rest.length > 0) {
    let { bytesWritten } = await file.writev(rest);
    const left: Buffer[] = [];
    for (const chunk of rest) {
      if (bytesWritten < chunk.length) left.push(chunk.subarray(bytesWritten));
      bytesWritten = Math.max(0, bytesWritten - chunk.length);
    }
    rest = left;
  }
}

function describe(error: Error): string {
  return /ENOSPC|EDQUOT/.test(error.message) ? "the host's disk is full" : error.message;
}
