// The record of one request in the egress log: written once, when it is over.
import type { Readable } from 'node:stream';
import type { ReadConnection } from './read-connection.ts';
import type { SecretUse } from './substitution/index.ts';
import type { Substituted } from './substitution.ts';

type SentRequest = Exclude<Substituted, { refused: string }>;

/** Why a request passed. */
export const BY_RULE = 'a rule lets it pass';

const MAX_PATH_CHARS = 1024;
const MAX_METHOD_CHARS = 64;
const MAX_REASON_CHARS = 256;

export class RequestReport {
  readonly #connection: ReadConnection;
  readonly #method: string;
  readonly #path: string;
  readonly #startedAt = performance.now();
  readonly #bytes = { up: 0, down: 0 };
  #isWritten = false;
  #uses: () => readonly SecretUse[] = () => [];

  constructor(connection: ReadConnection, method: string, target: string) {
    this.#connection = connection;
    this.#method = method.slice(0, MAX_METHOD_CHARS);
    const [path = ''] = target.split(/[?#]/);
    this.#path = path.slice(0, MAX_PATH_CHARS);
  }

  count(direction: 'up' | 'down', stream: Readable): void {
    stream.on('data', (data: Buffer) => {
      this.#bytes[direction] += data.length;
    });
  }

  /** Secrets that it has; those of its body are known when it is over. */
  use({ used, body }: Pick<SentRequest, 'used' | 'body'>): void {
    this.#uses = () => [...used, ...(body?.uses() ?? [])];
  }

  add(direction: 'up' | 'down', bytes: number): void {
    this.#bytes[direction] += bytes;
  }

  allowed(rule: string, reason: string, status?: number): void {
    this.#write({ verdict: 'allowed', reason, rule }, status);
  }

  denied(reason: string, status?: number): void {
    this.#write({ verdict: 'denied', reason }, status);
  }

  #write(
    verdict: { verdict: 'allowed' | 'denied'; reason: string; rule?: string },
    status: number | undefined,
  ): void {
    if (this.#isWritten) return;
    this.#isWritten = true;
    const uses = this.#uses();
    this.#connection.report({
      ...verdict,
      reason: verdict.reason.slice(0, MAX_REASON_CHARS),
      method: this.#method,
      path: this.#path,
      ...(status !== undefined && { status }),
      ...(uses.length > 0 && {
        secrets: [...new Set(uses.map(({ secret }) => secret))],
        forms: [...new Set(uses.map(({ form }) => form))],
      }),
      bytesUp: this.#bytes.up,
      bytesDown: this.#bytes.down,
      ms: Math.round(performance.now() - this.#startedAt),
    });
  }
}
