// The records of a watch that its client has not taken. They are bounded: when it is full, no more events are taken
// from the kernel.
import {
  MAX_WATCH_RECORD_BYTES,
  type WatchRecordInput,
  watchRecordBytes,
  writeWatchRecord,
} from '@sandboxd/proto';

const BLOCK_BYTES = 32_768;
const MAX_BLOCKS = 4;

type Block = { readonly bytes: Buffer; end: number };

export class WatchOutput {
  #blocks: Block[] = [];
  /** Sent bytes of the first block. */
  #sent = 0;
  /** Files whose last record that was not taken is a write. */
  readonly #written = new Set<string>();
  readonly #onCapacity: () => void;
  /** The client has taken all, and asked for more. */
  isDrained = true;

  /** `onCapacity` is called when records were taken. */
  constructor(onCapacity: () => void) {
    this.#onCapacity = onCapacity;
  }

  get isFull(): boolean {
    const last = this.#blocks.at(-1);
    return this.#blocks.length === MAX_BLOCKS && BLOCK_BYTES - (last?.end ?? 0) < MAX_WATCH_RECORD_BYTES;
  }

  /** Must not be full. */
  push(record: WatchRecordInput): void {
    if (record.type !== 'write') this.#written.clear();
    else if (record.isClosed !== true) {
      const path = record.path ?? '';
      // A client that reads the file when it sees the waiting record sees this write, too.
      if (this.#written.has(path)) return;
      this.#written.add(path);
    }
    this.isDrained = false;
    let last = this.#blocks.at(-1);
    if (last === undefined || BLOCK_BYTES - last.end < watchRecordBytes(record)) {
      last = { bytes: Buffer.allocUnsafeSlow(BLOCK_BYTES), end: 0 };
      this.#blocks.push(last);
    }
    last.end += writeWatchRecord(last.bytes, last.end, record);
  }

  /** Source of the stream's bytes. */
  take(maxBytes: number): Uint8Array | null {
    const first = this.#blocks[0];
    if (first === undefined) {
      if (!this.isDrained) this.#onCapacity();
      this.isDrained = true;
      return null;
    }
    this.#written.clear();
    const bytes = first.bytes.subarray(this.#sent, Math.min(first.end, this.#sent + maxBytes));
    this.#sent += bytes.length;
    if (this.#sent === first.end) {
      this.#blocks.shift();
      this.#sent = 0;
      this.#onCapacity();
    }
    return bytes;
  }
}
