// A pull or import as lines of JSON: each step when it begins, and how it ended.
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

/** Progress that a slow reader does not take is dropped, but for the newest. */
const MAX_WAITING_LINES = 1000;

export class ImageLines implements PullStream {
  readonly #waiting: Line[] = [];
  readonly #leave: () => void;
  #isOver = false;
  #wake: (() => void) | undefined;

  /** `leave` is called when nobody reads any more. */
  constructor(leave: () => void) {
    this.#leave = leave;
  }

  progress(text: string, { layer, bytes, totalBytes }: Partial<LayerProgress> = {}): void {
    if (this.#waiting.length >= MAX_WAITING_LINES) this.#waiting.shift();
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
    if (this.#waiting.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const lines = this.#waiting.splice(0);
    if (lines.length === 0) return undefined;
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    return { bytes: Buffer.from(text), release: () => undefined };
  }

  cancel(): void {
    this.#isOver = true;
    this.#leave();
    this.#wake?.();
  }

  #add(line: Line): void {
    this.#waiting.push(line);
    this.#wake?.();
    this.#wake = undefined;
  }
}
