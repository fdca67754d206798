// A stream of the output of a service or of a detached command as exec frames or JSON, with backpressure.
import { EXEC_FRAME, execFrameHeader } from '@sandboxd/api';
import type { ServiceRecord } from '@sandboxd/proto';
import type { Chunk, PullStream } from '../lib/byte-queue.ts';

/** The encoding of records. */
export type OutputForm<End = unknown> = {
  render(record: ServiceRecord): Buffer[];
  /** An empty frame or line. */
  readonly keepalive: Buffer;
  /** What is last. */
  finish?(end: End): Buffer[];
};

type OutputSink<End> = {
  records(records: readonly ServiceRecord[], bytes: number): void;
  end(end: End): void;
  failed(error: Error): void;
};
type OutputSource<End> = (sink: OutputSink<End>) => {
  consumed(bytes: number): void;
  cancel(): void;
};

/** A stderr frame reports output that was dropped while the client read, but not output dropped before that. */
export function asFrames(): OutputForm {
  let hasOutput = false;
  return {
    render(record) {
      if (record.kind === 'output') {
        hasOutput = true;
        return [execFrameHeader(EXEC_FRAME[record.stream], record.data.length), record.data];
      }
      if (record.kind === 'ring' || !hasOutput) return [];
      const notice = Buffer.from(`\n[sandboxd: ${record.bytes} bytes of output were dropped here]\n`);
      return [execFrameHeader(EXEC_FRAME.stderr, notice.length), notice];
    },
    keepalive: execFrameHeader(EXEC_FRAME.stdout, 0),
  };
}

/** Lines with sequence numbers, so that a client can continue after the last one. */
export function asLines(): OutputForm {
  return {
    render: (record) => [Buffer.from(`${JSON.stringify(toLine(record))}\n`)],
    keepalive: Buffer.from('\n'),
  };
}

function toLine(record: ServiceRecord) {
  const { kind, seq } = record;
  if (kind === 'ring') return { seq, ring: record.id };
  if (kind === 'gap') return { seq, dropped_records: record.records, dropped_bytes: record.bytes };
  const { stream, unixMs, data } = record;
  return { seq, stream, unix_ms: unixMs, data: data.toString('base64') };
}

type Batch = { readonly frames: readonly Buffer[]; readonly bytes: number };

export class OutputStream<End> implements PullStream {
  /** Resolves when the guest begins to respond; rejects if it refuses. */
  readonly opened: Promise<void>;
  readonly #subscription: ReturnType<OutputSource<End>>;
  #queue: Batch[] = [];
  #wake: () => void = () => {};
  #ending: { readonly error?: Error } | undefined;
  readonly #form: OutputForm<End>;
  #unlisten: () => void = () => {};
  readonly #open: () => void;

  /** Subscribes to the output. Each of `signals` cancels the stream. Throws AppError. */
  constructor(subscribe: OutputSource<End>, form: OutputForm<End>, signals: readonly AbortSignal[]) {
    this.#form = form;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    this.#open = resolve;
    // Prevents an unhandled rejection before a caller awaits it.
    promise.catch(() => {});
    this.#subscription = subscribe({
      records: (records, bytes) => {
        resolve();
        this.#queue.push({ frames: records.flatMap((record) => form.render(record)), bytes });
        this.#wake();
      },
      end: (end) => {
        this.#queue.push({ frames: form.finish?.(end) ?? [], bytes: 0 });
        this.#end({});
      },
      failed: (error) => {
        reject(error);
        this.#end({ error });
      },
    });
    const onAbort = (): void => this.cancel();
    for (const signal of signals) signal.addEventListener('abort', onAbort, { once: true });
    this.#unlisten = () => {
      for (const signal of signals) signal.removeEventListener('abort', onAbort);
    };
    if (signals.some((signal) => signal.aborted)) this.cancel();
  }

  /** The client has disconnected, or a signal aborted. */
  cancel(): void {
    this.#subscription.cancel();
    this.#queue = [];
    this.#end({});
  }

  keepalive(): void {
    if (this.#queue.length > 0) return;
    this.#queue.push({ frames: [this.#form.keepalive], bytes: 0 });
    this.#wake();
  }

  /** Rejects if the guest is lost. */
  async next(): Promise<Chunk | undefined> {
    for (;;) {
      const batches = this.#queue.splice(0);
      const frames = batches.flatMap((batch) => batch.frames);
      // Returns credit only now. Until then the ring in the guest overwrites old output instead of filling memory here.
      this.#subscription.consumed(batches.reduce((sum, { bytes }) => sum + bytes, 0));
      if (frames.length > 0) return { bytes: Buffer.concat(frames), release: () => {} };
      if (this.#ending?.error !== undefined) throw this.#ending.error;
      if (this.#ending !== undefined) return undefined;
      if (batches.length === 0) {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  #end(ending: { readonly error?: Error }): void {
    this.#unlisten();
    this.#ending ??= ending;
    this.#open();
    this.#wake();
  }
}
