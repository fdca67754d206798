// The output of the service: read from its pipe into the ring at once, independent of the ring's readers.
import { MAX_SERVICE_RECORD_BYTES, SERVICE_RECORD } from '@sandboxd/proto';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller, type Watch } from '../native/poller.ts';
import type { OutputRing } from './ring.ts';

/** Bytes read before control returns to the event loop. */
const TURN_BYTES = 512 * 1024;

const scratch = Buffer.allocUnsafeSlow(MAX_SERVICE_RECORD_BYTES);

export class OutputTap {
  readonly #fd: number;
  readonly #type: number;
  readonly #ring: OutputRing;
  #watch: Watch | undefined;

  /** Takes ownership of the descriptor. */
  constructor(poller: Poller, fd: number, stream: 'stdout' | 'stderr', ring: OutputRing) {
    this.#fd = fd;
    this.#type = SERVICE_RECORD[stream];
    this.#ring = ring;
    this.#watch = poller.watch(fd, POLL.in | POLL.edge, () => this.#read());
  }

  /** Reads what is ready; returns whether the pipe has ended. For a pipe whose writers are gone. */
  drain(): boolean {
    this.#read();
    return this.#watch === undefined;
  }

  close(): void {
    if (this.#watch === undefined) return;
    this.#watch.close();
    this.#watch = undefined;
    addon.close(this.#fd);
  }

  #read(): void {
    for (let total = 0; total < TURN_BYTES; ) {
      if (this.#watch === undefined) return;
      const got = this.#readOnce();
      if (got === NOT_NOW) return;
      if (got <= 0) {
        this.close();
        return;
      }
      const nowMs = Date.now();
      for (let at = 0; at < got; at += this.#ring.maxRecordBytes) {
        const end = Math.min(got, at + this.#ring.maxRecordBytes);
        this.#ring.append(this.#type, scratch.subarray(at, end), nowMs);
      }
      total += got;
    }
    setImmediate(() => this.#read());
  }

  #readOnce(): number {
    try {
      return addon.read(this.#fd, scratch, 0, scratch.length);
    } catch {
      return 0;
    }
  }
}
