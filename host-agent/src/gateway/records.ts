// Records of requests on their way to the daemon, as many as it takes: the rest is counted.
import { TokenBucket } from '../lib/token-bucket.ts';
import type { ConnectionRecord } from '../network/connection-record.ts';
import { costOfLine, type FromGateway, GATEWAY_LINES } from '../network/gateway-wire.ts';

/** A daemon that does not read gets no more. */
const MAX_WAITING_BYTES = 1024 * 1024;
const COUNT_MS = 1000;

export class Records {
  readonly #say: (message: FromGateway) => void;
  readonly #waitingBytes: () => number;
  readonly #budget = new TokenBucket(GATEWAY_LINES.perS, GATEWAY_LINES.atOnce);
  #missed = 0;

  constructor(say: (message: FromGateway) => void, waitingBytes: () => number) {
    this.#say = say;
    this.#waitingBytes = waitingBytes;
  }

  add(record: ConnectionRecord): void {
    const isFull = this.#waitingBytes() > MAX_WAITING_BYTES;
    if (!isFull && this.#budget.take(costOfLine(JSON.stringify({ record })))) {
      this.#say({ record });
      return;
    }
    if (this.#missed++ === 0) setTimeout(() => this.#sayMissed(), COUNT_MS);
  }

  #sayMissed(): void {
    this.#say({ missed: this.#missed });
    this.#missed = 0;
  }
}
