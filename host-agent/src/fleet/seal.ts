// What proves that a statement is of a gateway or host of the fleet: a keyed digest. Only they have the key, so that
// neither a client nor a user who can write pods of a tenant can place a sandbox or claim an id.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { AppError, toError } from '../lib/errors.ts';

const MIN_BYTES = 32;
const MAX_BYTES = 4096;

/** What is sealed: each kind of statement has its own. */
export type SealKind = 'pod' | 'host' | 'place' | 'held' | 'claim' | 'lease';

export class FleetSeal {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  /** AppError invalid_argument. */
  static read(path: string): FleetSeal {
    try {
      const key = Buffer.from(readFileSync(path, 'latin1').trim(), 'latin1');
      if (key.length < MIN_BYTES || key.length > MAX_BYTES)
        throw new Error(
          `it must have ${MIN_BYTES} to ${MAX_BYTES} bytes; make one with \`openssl rand -hex 32\``,
        );
      return new FleetSeal(key);
    } catch (cause) {
      const message = `the secret of the fleet in ${path} cannot be used: ${toError(cause).message}`;
      throw new AppError('invalid_argument', message, { cause });
    }
  }

  make(kind: SealKind, ...parts: readonly string[]): string {
    return createHmac('sha256', this.#key)
      .update(JSON.stringify([kind, ...parts]))
      .digest('base64url');
  }

  isOf(seal: string, kind: SealKind, ...parts: readonly string[]): boolean {
    const [a, b] = [Buffer.from(seal, 'latin1'), Buffer.from(this.make(kind, ...parts), 'latin1')];
    return a.length === b.length && timingSafeEqual(a, b);
  }
}
