// The service's output as a stream of exec frames, at the pace of whoever reads it.
import { EXEC_FRAME, execFrameHeader } from '@sandboxd/api';
import type { ServiceRecord } from '@sandboxd/proto';
import type { ServiceOutputRequest } from '../../guest/service-types.ts';
import type { Outflow, Piece } from '../../lib/byte-queue.ts';
import type { SandboxService } from '../../sandboxes/service.ts';

type Batch = { readonly frames: readonly Buffer[]; readonly bytes: number };

export class OutputFrames implements Outflow {
  /** Resolves once the guest has begun to answer, rejects when it refused. */
  readonly opened: Promise<void>;
  readonly #subscription: ReturnType<SandboxService['output']>;
  #queue: Batch[] = [];
  #wake: () => void = () => {};
  #ending: { readonly error?: Error } | undefined;
  /** Frames of type 2 tell a reader what it missed, but not what was gone before it came. */
  #hasOutput = false;
  #unlisten: () => void = () => {};
  readonly #open: () => void;

  /** Opens it; any of `signals` ends it. Throws AppError. */
  constructor(
    service: Pick<SandboxService, 'output'>,
    request: ServiceOutputRequest,
    signals: readonly AbortSignal[],
  ) {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.opened = promise;
    this.#open = resolve;
    // It may fail before anyone awaits it.
    promise.catch(() => {});
    this.#subscription = service.output(request, {
      records: (records, bytes) => {
        resolve();
        this.#queue.push({ frames: records.flatMap((record) => this.#toFrames(record)), bytes });
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

  poke(): void {
    if (this.#queue.length > 0) return;
    this.#queue.push({ frames: [execFrameHeader(EXEC_FRAME.stdout, 0)], bytes: 0 });
    this.#wake();
  }

  /** Rejects when the guest is lost. */
  async next(): Promise<Piece | undefined> {
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

  #toFrames(record: ServiceRecord): Buffer[] {
    if (record.kind === 'output') {
      this.#hasOutput = true;
      return [execFrameHeader(EXEC_FRAME[record.stream], record.data.length), record.data];
    }
    if (record.kind === 'ring' || !this.#hasOutput) return [];
    const notice = Buffer.from(`\n[sandboxd: ${record.bytes} bytes of output were dropped here]\n`);
    return [execFrameHeader(EXEC_FRAME.stderr, notice.length), notice];
  }

  #end(ending: { readonly error?: Error }): void {
    this.#unlisten();
    this.#ending ??= ending;
    this.#open();
    this.#wake();
  }
}
