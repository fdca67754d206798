// Progress of one call, for a client that asked for it.
import type { ServerContext } from '@modelcontextprotocol/server';

/** At most one message per so much time: a client that reads slowly must not make the server slow. */
const INTERVAL_MS = 1000;
/** Clients give up after a minute without a message. */
const HEARTBEAT_MS = 10_000;

export class Progress implements Disposable {
  readonly #mcp: ServerContext['mcpReq'];
  readonly #token: string | number | undefined;
  readonly #heartbeat: ReturnType<typeof setInterval> | undefined;
  #sent = 0;
  #sentAt = performance.now();
  #isPending = false;

  constructor(mcp: ServerContext['mcpReq']) {
    this.#mcp = mcp;
    this.#token = mcp._meta?.progressToken;
    if (this.#token !== undefined)
      this.#heartbeat = setInterval(() => this.send('in progress'), HEARTBEAT_MS);
  }

  send(message: string): void {
    const progressToken = this.#token;
    if (progressToken === undefined || this.#isPending) return;
    if (performance.now() - this.#sentAt < INTERVAL_MS) return;
    this.#sentAt = performance.now();
    this.#isPending = true;
    this.#sent += 1;
    const params = { progressToken, progress: this.#sent, message };
    this.#mcp
      .notify({ method: 'notifications/progress', params })
      // A client that has left is noticed by the signal.
      .catch(() => undefined)
      .finally(() => {
        this.#isPending = false;
      });
  }

  [Symbol.dispose](): void {
    clearInterval(this.#heartbeat);
  }
}
