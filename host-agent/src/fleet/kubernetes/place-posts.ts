// Pods of places that gateways make by themselves, for sandboxes that move or have lost theirs: a few at once, since
// they share the connections of creates, and none for a while in a namespace that was refused one.
import PQueue from 'p-queue';
import { backOffMs } from '../../lib/back-off.ts';
import { isRefusal, type KubeClient } from '../kube/client.ts';
import { podPath } from '../kube/objects.ts';
import type { toPod } from './pods.ts';

const CONCURRENCY = 4;
const BACK_OFF = { firstMs: 500, mostMs: 30_000, jitter: 0.25 };

type Pause = { readonly failures: number; readonly untilMs: number };

export type PlacePost = { readonly namespace: string; readonly body: ReturnType<typeof toPod> };

export type PlacePostsDeps = {
  readonly client: Pick<KubeClient, 'request'>;
  readonly timeoutMs: number;
};

export class PlacePosts {
  readonly #deps: PlacePostsDeps;
  readonly #queue = new PQueue({ concurrency: CONCURRENCY });
  /** Of namespaces. */
  readonly #pauses = new Map<string, Pause>();

  constructor(deps: PlacePostsDeps) {
    this.#deps = deps;
  }

  /** When the next one of that namespace may be made, of the monotonic clock. */
  dueMs(namespace: string): number {
    return this.#pauses.get(namespace)?.untilMs ?? 0;
  }

  /**
   * `read`: as things are when its turn comes; undefined: it is not needed. Whether this gateway made it. Rejects as
   * requests do; `dueMs` says when the next attempt may be.
   */
  async post(read: () => PlacePost | undefined): Promise<boolean> {
    return await this.#queue.add(() => this.#post(read));
  }

  async #post(read: () => PlacePost | undefined): Promise<boolean> {
    const { client, timeoutMs } = this.#deps;
    const wanted = read();
    if (wanted === undefined || this.dueMs(wanted.namespace) > performance.now()) return false;
    const { namespace, body } = wanted;
    // Those that are refused at the same time are one failure.
    const failures = (this.#pauses.get(namespace)?.failures ?? 0) + 1;
    try {
      await client.request({ method: 'POST', path: podPath(namespace), body, timeoutMs });
      this.#pauses.delete(namespace);
      return true;
    } catch (error) {
      // Another gateway was faster.
      if (isRefusal(error, 409)) return false;
      this.#pauses.set(namespace, { failures, untilMs: performance.now() + backOffMs(failures, BACK_OFF) });
      throw error;
    }
  }
}
