// What proves that a statement is of a gateway or host of the fleet: a keyed digest. Only they have the key, so that
// neither a client nor a user who can write pods of a tenant can place a sandbox or claim an id.
import { createHmac, timingSafeEqual } from 'node:crypto';
import { AppError, isAppError, toError } from '../lib/errors.ts';
import { KEY_FILE, readPrivateFile } from '../lib/private-file.ts';

const WHAT = 'the secret of the fleet';
const ADVICE = 'a secret has 32 to 4096, such as those of `openssl rand -hex 32`';

/** What is sealed: each kind of statement has its own. */
export type SealKind =
  | 'pod'
  | 'foreign'
  | 'host'
  | 'place'
  | 'held'
  | 'claim'
  | 'lease'
  | 'doors'
  | 'unplaced'
  | 'client'
  | 'question'
  | 'upload'
  | 'key';

export class FleetSeal {
  readonly #key: Buffer;

  constructor(key: Buffer) {
    this.#key = key;
  }

  /** AppError invalid_argument. */
  static read(path: string): FleetSeal {
    try {
      const bytes = readPrivateFile(path, { ...KEY_FILE, advice: ADVICE, what: WHAT, isCredential: true });
      const key = Buffer.from(bytes.toString('latin1').trim(), 'latin1');
      if (key.length < KEY_FILE.minBytes) throw new Error(`it has ${key.length} bytes; ${ADVICE}`);
      return new FleetSeal(key);
    } catch (cause) {
      const message = isAppError(cause)
        ? cause.message
        : `${WHAT}, ${path}, cannot be used: ${toError(cause).message}`;
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
