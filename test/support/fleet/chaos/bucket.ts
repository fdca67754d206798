// The bucket that all hosts share, and how it fails.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Fault, S3Server } from '../../s3/server.ts';
import { pick, type Random } from './random.ts';

/** `lost`: it does what it is asked for, and the answer does not arrive. */
const STATES = ['full', 'slow', 'away', 'silent', 'busy', 'lost', 'well'] as const;
const MAX_SLOW_MS = 1500;

export type BucketState = (typeof STATES)[number];

export class ChaosBucket {
  readonly s3: S3Server;
  readonly #random: Random;
  #state: BucketState = 'well';
  #change = Promise.withResolvers<void>();

  constructor(s3: S3Server, random: Random) {
    this.s3 = s3;
    this.#random = random;
    s3.fault = (method) => this.#faultOf(method);
  }

  disturb(): void {
    this.#set(pick(this.#random, STATES) ?? 'well');
  }

  /** No answer is waited for any more: a part that is killed cannot wait either. */
  endSilence(): void {
    if (this.#state === 'silent') this.#set('away');
  }

  heal(): void {
    this.#set('well');
  }

  #set(state: BucketState): void {
    this.#state = state;
    this.#change.resolve();
    this.#change = Promise.withResolvers();
    // Of a run that may be long.
    this.s3.requests.length = 0;
  }

  async #faultOf(method: string): Promise<Fault> {
    switch (this.#state) {
      case 'full':
        return method === 'PUT' ? { status: 507, code: 'XMinioStorageFull' } : undefined;
      case 'slow':
        await sleep(this.#random(MAX_SLOW_MS));
        return undefined;
      case 'away':
        return 'cut';
      case 'silent':
        await this.#change.promise;
        return 'cut';
      case 'busy':
        return this.#random(2) === 0 ? { status: 503, code: 'SlowDown' } : undefined;
      case 'lost':
        return this.#random(3) === 0 ? 'lost' : undefined;
      case 'well':
        return undefined;
    }
  }
}
