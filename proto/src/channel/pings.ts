// Round trips of the host on a connection. The guest answers in order, so no ping needs a number.
import { ProtocolViolation } from '../errors.ts';
import { MAX_PING_BYTES } from '../limits.ts';
import { ownBytes } from '../wire/own-bytes.ts';

type PendingPing = {
  readonly resolve: (payload: Uint8Array) => void;
  readonly reject: (cause: Error) => void;
};

export class Pings {
  readonly #pending: PendingPing[] = [];

  /** Resolves with the returned payload. `send` writes the ping. Rejects with RangeError for a long payload. */
  async send(payload: Uint8Array, send: (payload: Uint8Array) => void): Promise<Uint8Array> {
    if (payload.length > MAX_PING_BYTES) throw new RangeError(`a ping of ${payload.length} bytes`);
    return new Promise((resolve, reject) => {
      this.#pending.push({ resolve, reject });
      send(payload);
    });
  }

  /** A pong arrived. Throws ProtocolViolation when no ping is pending. */
  answered(payload: Buffer): void {
    const ping = this.#pending.shift();
    if (ping === undefined) throw new ProtocolViolation('a pong without its ping');
    ping.resolve(ownBytes(payload));
  }

  /** The connection is closed. */
  fail(cause: Error): void {
    for (const ping of this.#pending.splice(0)) ping.reject(cause);
  }
}
