// The input of a command: from the stream into its pipe or terminal. The stream's credit bounds the buffered bytes.
// Credit is returned only for bytes that were written, or that will never be read.
import { ByteQueue } from '@sandboxd/proto';
import { blockPool } from '../lib/block-pool.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';
import type { ExecStream } from './exec-stream.ts';

export type InputPumpOptions = {
  readonly poller: Poller;
  readonly stream: Pick<ExecStream, 'consumed'>;
  readonly fd: number;
  /** Signals end of input to the command, after all input was written. */
  readonly onEnd: () => void;
};

export class InputPump {
  readonly #options: InputPumpOptions;
  readonly #held = new ByteQueue(blockPool);
  #watch: Watch | undefined;
  #hasEnded = false;
  #isDeaf = false;

  constructor(options: InputPumpOptions) {
    this.#options = options;
  }

  /** `chunk` is borrowed: bytes that cannot be written at once are copied. */
  push(chunk: Buffer): void {
    const { fd, stream } = this.#options;
    let written = 0;
    if (!this.#isDeaf && this.#held.sizeBytes === 0) {
      const result = this.#write(fd, chunk);
      if (result === undefined) this.stop();
      else if (result !== NOT_NOW) written = result;
    }
    stream.consumed(this.#isDeaf ? chunk.length : written);
    if (this.#isDeaf || written === chunk.length) return;
    this.#held.push(chunk.subarray(written));
    this.#watch ??= this.#options.poller.watch(fd, POLL.out | POLL.edge, () => this.#flush());
  }

  /** Marks the end of input. */
  end(): void {
    if (this.#hasEnded || this.#isDeaf) return;
    this.#hasEnded = true;
    if (this.#held.sizeBytes === 0) this.#finish();
  }

  /** Stops writing. The owner closes the descriptor afterwards. */
  stop(): void {
    this.#watch?.close();
    this.#watch = undefined;
    this.#isDeaf = true;
    const lost = this.#held.clear();
    if (lost > 0) this.#options.stream.consumed(lost);
  }

  #flush(): void {
    const { fd, stream } = this.#options;
    for (let chunk = this.#held.first(); chunk !== undefined; chunk = this.#held.first()) {
      const written = this.#write(fd, chunk);
      if (written === undefined) {
        this.stop();
        return;
      }
      if (written === NOT_NOW) return;
      this.#held.drop(written);
      stream.consumed(written);
    }
    if (this.#hasEnded) this.#finish();
  }

  #finish(): void {
    this.stop();
    this.#options.onEnd();
  }

  /** Undefined when the input has no reader any more. */
  #write(fd: number, chunk: Buffer): number | undefined {
    try {
      return addon.write(fd, chunk, 0, chunk.length);
    } catch {
      return undefined;
    }
  }
}
