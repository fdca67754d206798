// The progress and result of a pull or import as JSON lines.
import type { ApiErrorCode } from '@sandboxd/api';
import type { LayerProgress } from '../images/index.ts';
import type { Chunk, PullStream } from '../lib/byte-queue.ts';
import { toErrorAnswer } from './errors.ts';

type Line =
  | {
      readonly progress: string;
      readonly layer?: string;
      readonly bytes?: number;
      readonly total_bytes?: number;
    }
  | { readonly image: unknown }
  | { readonly error: string; readonly code: ApiErrorCode; readonly status: number };

/** If a slow reader has more pending lines than this, the oldest ones are dropped. */
const MAX_PENDING_LINES = 1000;

export class ImageLines implements PullStream {
  readonly #pending: Line[] = [];
  readonly #onCancel: () => void;
  #isOver = false;
  #wake: (() => void) | undefined;

  /** `onCancel` is called when the client disconnects. */
  constructor(onCancel: () => void) {
    this.#onCancel = onCancel;
  }

  progress(text: string, { layer, bytes, totalBytes }: Partial<LayerProgress> = {}): void {
    if (this.#pending.length >= MAX_PENDING_LINES) this.#pending.shift();
    this.#add({
      progress: text,
      ...(layer !== undefined && { layer }),
      ...(bytes !== undefined && { bytes }),
      ...(totalBytes !== undefined && { total_bytes: totalBytes }),
    });
  }

  succeed(image: unknown): void {
    this.#isOver = true;
    this.#add({ image });
  }

  fail(error: unknown, requestId: string): void {
    const { status, body } = toErrorAnswer(error, requestId);
    this.#isOver = true;
    this.#add({ ...body, status });
  }

  async next(): Promise<Chunk | undefined> {
    if (this.#pending.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const lines = this.#pending.splice(0);
    if (lines.length === 0) return undefined;
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    return { bytes: Buffer.from(text), release: () => undefined };
  }

  cancel(): void {
    this.#isOver = true;
    this.#onCancel();
    this.#wake?.();
  }

  #add(line: Line): void {
    this.#pending.push(line);
    this.#wake?.();
    this.#wake = undefined;
  }
}
