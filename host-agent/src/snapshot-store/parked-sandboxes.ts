// Who owns a paused sandbox that is in the bucket: the host that wrote its claim. The server writes a claim only where
// there is none, so that exactly one host can; the one that the sandbox leaves takes it back in the same way.
import { randomUUID } from 'node:crypto';
import { AppError, isAppError } from '../lib/errors.ts';
import { idOfPath, PARKED } from './manifest.ts';
import type { Bucket } from './s3/bucket.ts';
import type { StoreKeys } from './store-keys.ts';

const CLAIMS = 'claims/';
const MAX_CLAIM_BYTES = 4096;
/** In place of a host's token: the sandbox was deleted where it was. */
const DELETED = 'deleted';
/** Before the token of the host that it was to leave. */
const RETURNED = 'returned ';

export class ParkedSandboxes {
  readonly #bucket: Bucket;
  readonly #keys: StoreKeys;
  #isExclusive = false;

  constructor(bucket: Bucket, keys: StoreKeys) {
    this.#bucket = bucket;
    this.#keys = keys;
  }

  /** The departures of a sandbox that are in the bucket, claimed or not. */
  async find(sandbox: string, signal?: AbortSignal): Promise<string[]> {
    const found: string[] = [];
    for await (const page of this.#bucket.list(`${PARKED}${sandbox}/`, signal))
      found.push(...page.flatMap(({ key }) => idOfPath(key) ?? []));
    return found;
  }

  /** All departures that are in the bucket, in pages. */
  async *list(signal?: AbortSignal): AsyncGenerator<readonly string[]> {
    for await (const page of this.#bucket.list(PARKED, signal))
      yield page.flatMap(({ key }) => idOfPath(key) ?? []);
  }

  /** No host has it, and none can from now on. As `claim`. */
  async claimDeleted(parkedId: string, signal?: AbortSignal): Promise<boolean> {
    return await this.claim(parkedId, DELETED, signal);
  }

  /** By the host that it was to leave: no other host can have it from now on. As `claim`. */
  async claimBack(parkedId: string, token: string, signal?: AbortSignal): Promise<boolean> {
    if (await this.claim(parkedId, `${RETURNED}${token}`, signal)) return true;
    // As earlier versions wrote it.
    return (await this.readClaim(parkedId, signal)) === token;
  }

  /** Whether that is the holder that `readClaim` found. */
  isBack(holder: string, token: string): boolean {
    return holder === token || holder === `${RETURNED}${token}`;
  }

  /** Whether a delete, or its own host, claimed it: its manifest is of no use to any host. */
  async isOver(parkedId: string, signal?: AbortSignal): Promise<boolean> {
    try {
      const holder = await this.readClaim(parkedId, signal);
      return holder === DELETED || holder?.startsWith(RETURNED) === true;
    } catch (error) {
      if (isAppError(error) && error.code === 'internal') return false;
      throw error;
    }
  }

  /** False if the holder of another token has it. True again when repeated, also after a lost answer. */
  async claim(parkedId: string, token: string, signal?: AbortSignal): Promise<boolean> {
    const path = `${CLAIMS}${parkedId}`;
    if (await this.#bucket.putNew(path, this.#keys.seal(path, Buffer.from(token)), signal)) return true;
    return (await this.readClaim(parkedId, signal)) === token;
  }

  /** The token of its holder. */
  async readClaim(parkedId: string, signal?: AbortSignal): Promise<string | undefined> {
    const path = `${CLAIMS}${parkedId}`;
    const sealed = await this.#bucket.get(path, MAX_CLAIM_BYTES, signal);
    return sealed && this.#keys.open(path, sealed).toString();
  }

  /** Only when its manifest is gone, and the host that it left does not ask again. */
  async removeClaim(parkedId: string, signal?: AbortSignal): Promise<void> {
    await this.#bucket.remove(`${CLAIMS}${parkedId}`, signal);
  }

  /** AppError `unsupported` for a server that overwrites what it should not: two hosts could own one sandbox. */
  async assertExclusive(signal?: AbortSignal): Promise<void> {
    if (this.#isExclusive) return;
    const path = `${CLAIMS}test-${randomUUID()}`;
    const isNew = await this.#bucket.putNew(path, Buffer.from('1'), signal);
    const isOverwritten = isNew && (await this.#bucket.putNew(path, Buffer.from('2'), signal));
    await this.#bucket.remove(path, signal);
    if (!isNew || isOverwritten)
      throw new AppError(
        'unsupported',
        `${this.#bucket.name} has no conditional writes (If-None-Match), without which no sandbox can change its host`,
      );
    this.#isExclusive = true;
  }
}
