// Places whose sandboxes come from other hosts. Downloads take long, so that they have turns of their own.
import type { Logger } from 'pino';
import type { PlacedSize } from '../../http/index.ts';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import { NOT_TAKEN, type PlacePod } from '../kubernetes/pods.ts';
import type { Action } from './decide.ts';
import type { HostPods } from './host-pods.ts';
import type { LocalSandboxes, PlaceRecords, TakeoverConditions } from './local-sandboxes.ts';
import { assertFits } from './place-size.ts';
import type { Registration } from './registration.ts';
import { Turns } from './turns.ts';

const MAX_REFUSED = 10_000;
/** They say that this host cannot have it; after all others the same host tries again. */
const FINAL_CODES = new Set(['conflict', 'not_found', 'forbidden', 'invalid_argument', 'unsupported']);

type TakeoverDeps = {
  readonly records: PlaceRecords;
  readonly sandboxes: LocalSandboxes;
  readonly pods: HostPods;
  readonly registration: Registration;
  readonly busy: Set<string>;
  readonly decide: (id: string) => Action;
  readonly onDone: (id: string) => void;
  readonly log: Logger;
};

export class Takeovers {
  readonly #deps: TakeoverDeps;
  readonly #turns: Turns;
  readonly #ahead: Turns;
  /** Uids of pods, whose refusal our own watch may not have seen yet. */
  readonly #refused = new Set<string>();

  constructor(deps: TakeoverDeps) {
    this.#deps = deps;
    this.#turns = new Turns(
      (id) => this.#work(id),
      (sandbox, error) =>
        deps.log.warn({ sandbox, reason: toError(error).message }, 'a sandbox cannot arrive here yet'),
    );
    this.#ahead = new Turns(
      (id) => this.#prefetch(id),
      (sandbox, error) =>
        deps.log.warn({ sandbox, reason: toError(error).message }, 'a sandbox cannot be fetched ahead yet'),
    );
  }

  enqueue(id: string): void {
    this.#turns.enqueue(id);
  }

  /** Its sandbox still runs elsewhere. */
  enqueueAhead(id: string): void {
    this.#ahead.enqueue(id);
  }

  /** What the fleet says of a sandbox that is to leave, and what of one that arrives is not needed any more. */
  async follow(id: string): Promise<void> {
    const { pods, records, sandboxes } = this.#deps;
    const pod = pods.find(id, records.get(id)?.uid);
    if (pod?.arrival !== undefined) sandboxes.noteArrival(id, pod.arrival);
    const isComing = pod?.move !== undefined && !pod.isDeleting && pod.phase === 'Pending';
    if (!isComing || this.isRefused(pod.uid)) await sandboxes.forgetPrefetch(id);
  }

  isRefused(uid: string): boolean {
    return this.#refused.has(uid);
  }

  stop(): void {
    this.#turns.stop();
    this.#ahead.stop();
  }

  /** What is fetched ahead is not awaited. */
  async idle(): Promise<void> {
    const { sandboxes } = this.#deps;
    await Promise.all([...sandboxes.prefetched()].map((id) => sandboxes.forgetPrefetch(id)));
    await Promise.all([this.#turns.idle(), this.#ahead.idle()]);
  }

  /** What this host cannot take is refused before its pause, so that another one is chosen. */
  async #prefetch(id: string): Promise<void> {
    const { decide, pods, registration, sandboxes } = this.#deps;
    const pod = pods.find(id);
    if (pod?.move === undefined || decide(id) !== 'prefetch') return;
    if (registration.isFenced) throw new AppError('exhausted', 'this host cannot reach the API server');
    const conditions = { assertFits: (size: PlacedSize): void => assertFits(pod, size) };
    try {
      await Promise.all([sandboxes.prefetch(id, pod.move, conditions), this.#report(id)]);
    } catch (error) {
      if (!isAppError(error) || !FINAL_CODES.has(error.code)) throw error;
      return await this.#refuse(pod, error.code);
    }
    await this.#report(id);
  }

  async #report(id: string): Promise<void> {
    const { pods, sandboxes } = this.#deps;
    const pod = pods.find(id);
    if (pod?.move === undefined || pod.isAhead !== true || pod.isDeleting) return;
    const state = sandboxes.prefetchOf(id, pod.move);
    if (state !== undefined && state !== pod.fetched)
      await pods.setFetched(pod, state, sandboxes.takesChanges);
  }

  async #refuse(pod: PlacePod, code: string): Promise<void> {
    if (this.#refused.size >= MAX_REFUSED) this.#refused.clear();
    this.#refused.add(pod.uid);
    // Tenants read it: the message may name the snapshot store.
    await this.#deps.pods.setPhase(pod, 'Failed', NOT_TAKEN, code);
  }

  async #work(id: string): Promise<void> {
    const { decide, busy, onDone, registration } = this.#deps;
    const action = decide(id);
    if (action !== 'take-over' && action !== 'finish-arrival') return;
    if (registration.isFenced) throw new AppError('exhausted', 'this host cannot reach the API server');
    busy.add(id);
    try {
      await (action === 'take-over' ? this.#takeOver(id) : this.#finish(id));
    } finally {
      busy.delete(id);
    }
    onDone(id);
  }

  async #takeOver(id: string): Promise<void> {
    const { records, sandboxes, pods, registration } = this.#deps;
    const pod = pods.find(id);
    if (pod === undefined) return;
    const { namespace, uid } = pod;
    const assertPlace: TakeoverConditions['assertFits'] = (size) => {
      const now = pods.find(id, uid);
      if (now?.uid !== uid || now.isDeleting || registration.isFenced)
        throw new AppError('cancelled', `the place of sandbox ${id} went while it arrived`);
      assertFits(now, size);
    };
    try {
      await records.put(id, { namespace, uid, nodeUid: registration.nodeOf(pod), isArrival: true });
      await sandboxes.takeOver(id, { assertFits: assertPlace });
    } catch (error) {
      // From the claim on it is this host's, whatever fails.
      if (sandboxes.stateOf(id) !== undefined || sandboxes.isArriving(id)) throw error;
      await records.remove(id);
      if (!isAppError(error) || !FINAL_CODES.has(error.code)) throw error;
      await this.#refuse(pod, error.code);
    }
  }

  /** Its place is gone: what this host has claimed comes without one, and the rest stays where it is. */
  async #finish(id: string): Promise<void> {
    const { sandboxes } = this.#deps;
    try {
      await sandboxes.takeOver(id, { onlyOwn: true });
    } catch (error) {
      if (sandboxes.stateOf(id) !== undefined || sandboxes.isArriving(id)) throw error;
    }
  }
}
