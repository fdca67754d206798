// Stands in for the stream of a detached command: its output goes into a ring at once, independent of its readers, and
// its input comes from one client at a time.
import {
  AgentError,
  FLOW,
  type Flow,
  MAX_DATA_BYTES,
  SERVICE_RECORD,
  type Source,
  type Stream,
  type StreamHandlers,
} from '@sandboxd/proto';
import type { ExecStream } from '../exec/exec-stream.ts';
import { logError } from '../lib/log.ts';
import type { OutputRing } from '../service/ring.ts';

/** Bytes recorded of one output before control returns to the event loop. */
const TURN_BYTES = 512 * 1024;
/** The character that ends the input on a terminal, unless a program has changed it. */
const END_OF_INPUT = Buffer.of(4);

/** A client's stream. It gets credit back for what the command has taken. */
export type InputStream = Pick<Stream, 'consumed'>;

export class Recorder implements ExecStream {
  handlers: StreamHandlers = {};
  readonly ring: OutputRing;
  readonly #sources = new Map<Flow, Source>();
  /** Outputs whose recording continues in the next turn. */
  readonly #paused = new Set<Flow>();
  #writer: { readonly stream: InputStream; readonly onReplaced: () => void } | undefined;
  /** Input that the command has not taken yet, by the stream that it came from; oldest first. */
  readonly #owed: { readonly stream: InputStream | undefined; bytes: number }[] = [];
  /** Streams that have sent all of their input, until the command has taken it. */
  readonly #waiting = new Map<InputStream, () => void>();
  #hasTerminal = false;
  #isInputOpen = false;

  constructor(ring: OutputRing) {
    this.ring = ring;
  }

  /** Whether the command takes input. */
  get isInputOpen(): boolean {
    return this.#isInputOpen;
  }

  openInput(hasTerminal: boolean): void {
    this.#hasTerminal = hasTerminal;
    this.#isInputOpen = true;
  }

  setSource(flow: Flow, source: Source): void {
    this.#sources.set(flow, source);
  }

  ready(flow: Flow): void {
    if (this.#paused.has(flow)) return;
    try {
      for (let total = 0; total < TURN_BYTES; ) {
        const bytes = this.#sources.get(flow)?.(MAX_DATA_BYTES, 0) ?? null;
        if (bytes === null || 'descriptor' in bytes) return;
        this.#record(flow, bytes);
        total += bytes.length;
      }
    } catch (error) {
      logError('command', error);
      this.handlers.cancel?.();
      return;
    }
    this.#paused.add(flow);
    setImmediate(() => {
      this.#paused.delete(flow);
      this.ready(flow);
    });
  }

  end(flow: Flow): void {
    this.#sources.delete(flow);
  }

  finish(): void {
    this.#isInputOpen = false;
  }

  /** Returns credit to the streams that the input came from. */
  consumed(bytes: number): void {
    for (let left = bytes; left > 0; ) {
      const oldest = this.#owed[0];
      if (oldest === undefined) return;
      const part = Math.min(left, oldest.bytes);
      oldest.bytes -= part;
      left -= part;
      if (oldest.bytes === 0) this.#owed.shift();
      oldest.stream?.consumed(part);
    }
    for (const [stream, callback] of this.#waiting) {
      if (this.#owes(stream)) continue;
      this.#waiting.delete(stream);
      callback();
    }
  }

  /**
   * Makes `stream` the one whose input counts. AgentError conflict while another one is, unless it is taken, which
   * calls the other's `onReplaced`.
   */
  claimInput(stream: InputStream, isTaking: boolean, onReplaced: () => void = () => {}): void {
    if (this.#writer !== undefined && !isTaking)
      throw new AgentError('conflict', 'another client writes to the command');
    const replaced = this.#writer;
    this.#writer = { stream, onReplaced };
    replaced?.onReplaced();
  }

  releaseInput(stream: InputStream): void {
    this.#waiting.delete(stream);
    if (this.#writer?.stream === stream) this.#writer = undefined;
  }

  /** Input of a stream that lost its right, or that comes too late, is discarded. */
  write(stream: InputStream, chunk: Buffer): void {
    if (this.#writer?.stream === stream && this.#isInputOpen) this.#pass(stream, chunk);
    else stream.consumed(chunk.length);
  }

  /** Ends the command's input. A terminal gets the character for it, and further input. */
  endInput(stream: InputStream): void {
    if (this.#writer?.stream !== stream || !this.#isInputOpen) return;
    if (this.#hasTerminal) this.#pass(undefined, END_OF_INPUT);
    else {
      this.#isInputOpen = false;
      this.handlers.end?.(FLOW.in);
    }
  }

  /** Calls back once the command has taken the stream's input, or never will. Unless it is released before. */
  whenTaken(stream: InputStream, callback: () => void): void {
    if (this.#owes(stream)) this.#waiting.set(stream, callback);
    else callback();
  }

  #owes(stream: InputStream): boolean {
    return this.#owed.some((each) => each.stream === stream);
  }

  #pass(stream: InputStream | undefined, chunk: Buffer): void {
    const last = this.#owed.at(-1);
    if (last !== undefined && last.stream === stream) last.bytes += chunk.length;
    else this.#owed.push({ stream, bytes: chunk.length });
    this.handlers.data?.(FLOW.in, chunk);
  }

  #record(flow: Flow, bytes: Uint8Array): void {
    const type = flow === FLOW.err ? SERVICE_RECORD.stderr : SERVICE_RECORD.stdout;
    const nowMs = Date.now();
    for (let at = 0; at < bytes.length; at += this.ring.maxRecordBytes)
      this.ring.append(type, bytes.subarray(at, at + this.ring.maxRecordBytes), nowMs);
  }
}
