// Records of requests on their way to the daemon, as many as it takes: the rest is counted. The first is written at
// once, those that come soon after it together, as each write would wake the daemon.
import { TokenBucket } from '../lib/token-bucket.ts';
import type { ConnectionRecord } from '../network/connection-record.ts';
import { costOfLine, GATEWAY_LINES, toLine } from '../network/gateway-wire.ts';

/** A daemon that does not read gets no more. */
const MAX_WAITING_BYTES = 1024 * 1024;
const COUNT_MS = 1000;
/** After a write others wait for so long, and up to so many characters. */
const TOGETHER_MS = 20;
const MAX_TOGETHER = 32_768;

export class Records {
  readonly #write: (lines: string) => void;
  readonly #waitingBytes: () => number;
  readonly #budget = new TokenBucket(GATEWAY_LINES.perS, GATEWAY_LINES.atOnce);
  #together = '';
  #timer: NodeJS.Timeout | undefined;
  #missed = 0;

  constructor(write: (lines: string) => void, waitingBytes: () => number) {
    this.#write = write;
    this.#waitingBytes = waitingBytes;
  }

  add(record: ConnectionRecord): void {
    const isFull = this.#waitingBytes() > MAX_WAITING_BYTES;
    const line = toLine({ record });
    if (!isFull && this.#budget.take(costOfLine(line))) {
      this.#together += line;
      if (this.#timer === undefined) this.#begin();
      else if (this.#together.length >= MAX_TOGETHER) this.flush();
      return;
    }
    if (this.#missed++ === 0) setTimeout(() => this.#writeMissed(), COUNT_MS);
  }

  /** Before anything else is written. */
  flush(): void {
    if (this.#together !== '') this.#write(this.#together);
    this.#together = '';
  }

  #begin(): void {
    this.flush();
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      if (this.#together !== '') this.#begin();
    }, TOGETHER_MS);
  }

  #writeMissed(): void {
    this.flush();
    this.#write(toLine({ missed: this.#missed }));
    this.#missed = 0;
  }
}
