// The service's output as a stream of exec frames or of lines of JSON, at the pace of whoever reads it.
import { EXEC_FRAME, execFrameHeader } from '@sandboxd/api';
import type { ServiceRecord } from '@sandboxd/proto';
import type { ServiceOutputRequest } from '../../guest/service-types.ts';
import type { Chunk, PullStream } from '../../lib/byte-queue.ts';
import type { SandboxService } from '../../sandboxes/service.ts';

/** How records travel. */
export type OutputForm = {
  render(record: ServiceRecord): Buffer[];
  /** Says nothing. */
  readonly pulse: Buffer;
};

/** Frames of type 2 tell a reader what it missed, but not what was gone before it came. */
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
    pulse: execFrameHeader(EXEC_FRAME.stdout, 0),
  };
}

/** With numbers, so that a reader who comes again goes on behind the last one. */
export function asLines(): OutputForm {
  return {
    render: (record) => [Buffer.from(`${JSON.stringify(toLine(record))}\n`)],
    pulse: Buffer.from('\n'),
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

export class OutputStream implements PullStream {
  /** Resolves once the guest has begun to answer, rejects when it refused. */
  readonly opened: Promise<void>;
  readonly #subscription: ReturnType<SandboxService['output']>;
  #queue: Batch[] = [];
  #wake: () => void = () => {};
  #ending: { readonly error?: Error } | undefined;
  readonly #form: OutputForm;
  #unlisten: () => void = () => {};
  readonly #open: () => void;

  /** Opens it; any of `signals` ends it. Throws AppError. */
  constructor(
    service: Pick<SandboxService, 'output'>,
    request: ServiceOutputRequest,
    form: OutputForm,
    signals: readonly AbortSignal[],
  ) {
    this.#form = form;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    this.#open = resolve;
    // It may fail before anyone awaits it.
    promise.catch(() => {});
    this.#subscription = service.output(request, {
      records: (records, bytes) => {
        resolve();
        this.#queue.push({ frames: records.flatMap((record) => form.render(record)), bytes });
        this.#wake();
      },
      end: () => this.#end({}),
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

  /** The reader left, or must. */
  cancel(): void {
    this.#subscription.cancel();
    this.#queue = [];
    this.#end({});
  }

  keepalive(): void {
    if (this.#queue.length > 0) return;
    this.#queue.push({ frames: [this.#form.pulse], bytes: 0 });
    this.#wake();
  }

  /** Rejects when the guest is lost. */
  async next(): Promise<Chunk | undefined> {
    for (;;) {
      const batches = this.#queue.splice(0);
      const frames = batches.flatMap((batch) => batch.frames);
      // Only now: in the guest the ring goes on without this reader meanwhile.
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
