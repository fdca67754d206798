// Pods that others made and that are bound to this host: each becomes a sandbox with the rights of a key of its tenant,
// and its status says what the sandbox does. A pod has one sandbox at most, and a sandbox whose pod is gone ends.
import type { ServiceStatus } from '../../guest/service.ts';
import { AppError, toError } from '../../lib/errors.ts';
import type { KnownPod, KnownWish } from '../kubernetes/foreign-pods.ts';
import type { Readiness } from '../kubernetes/pod-wish.ts';
import { isWanted, KnownPods } from './known-pods.ts';
import { NO_LABEL, PodCreates, type PodCreatesOptions } from './pod-creates.ts';
import { PodEndings } from './pod-endings.ts';
import { failed, type PodOutcome, toOutcome } from './pod-outcome.ts';
import { PodReadiness } from './pod-readiness.ts';
import type { PodRecord } from './pod-sandboxes.ts';
import { type PodReport, type PodState, PodStatuses } from './pod-status.ts';
import { type TurnShares, Turns } from './turns.ts';

const POLL_MS = 1000;
const CALL_MS = 5000;
const PROBE_MS = 2000;
/** Guests that do not answer are asked more rarely: a turn waits for each. */
const SLOW_FACTOR = 10;

/** Of a namespace: guests of one tenant that do not answer keep no other one waiting. */
const SHARE = 8;

export type ForeignPodsOptions = PodCreatesOptions & {
  readonly hostIp: string | undefined;
  readonly pollMs?: number;
};

export class ForeignPods {
  readonly #options: ForeignPodsOptions;
  readonly #pods: KnownPods;
  readonly #statuses: PodStatuses;
  readonly #turns: Turns;
  /** Sandboxes whose pods are gone: they wait for none that runs. */
  readonly #ends: Turns;
  readonly #creates: PodCreates;
  readonly #endings: PodEndings;
  readonly #readiness = new PodReadiness();
  /** When they were followed last, of the monotonic clock. */
  readonly #followedMs = new Map<string, number>();
  readonly #stop = new AbortController();
  #unsubscribe: () => void = () => undefined;

  constructor(options: ForeignPodsOptions) {
    const { client, seal, log } = options;
    this.#options = options;
    this.#statuses = new PodStatuses(client, seal);
    this.#endings = new PodEndings(options.sandboxes, () => this.#limit());
    this.#pods = new KnownPods({
      ...options,
      onChange: (id) => this.#changed(id),
      onList: () => {
        const recorded = options.records.all().map(({ id }) => id);
        for (const id of new Set([...this.#pods.ids(), ...recorded])) this.#changed(id);
      },
    });
    const onFailure = (sandbox: string, error: unknown): void => {
      if (this.#stop.signal.aborted) return;
      log.warn({ sandbox, reason: toError(error).message }, 'cannot settle a pod of the cluster yet');
    };
    // Each namespace has its share, however many there are.
    const atOnce = Number.POSITIVE_INFINITY;
    const shares: TurnShares = { atOnce, share: SHARE, groupOf: (id) => this.#pods.groupOf(id) };
    this.#turns = new Turns((id) => this.#reconcile(id), onFailure, shares);
    this.#ends = new Turns((id) => this.#end(id), onFailure, shares);
    // Pulls take long, so that creates have turns of their own.
    this.#creates = new PodCreates(options, {
      pods: this.#pods,
      post: (pod, state) => this.#post(pod, undefined, state),
      onDone: (id) => this.#changed(id),
      onFailure,
    });
  }

  start(): void {
    if (this.#stop.signal.aborted) return;
    const { sandboxes, records } = this.#options;
    this.#unsubscribe = sandboxes.subscribe((id) => {
      if (records.get(id) !== undefined) this.#changed(id);
    });
    this.#pods.start();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new AppError('cancelled', 'the daemon is stopping'));
    this.#unsubscribe();
    this.#turns.stop();
    this.#ends.stop();
    const created = this.#creates.stop();
    await this.#pods.close();
    // They write to the registry, which closes next.
    await Promise.all([this.#turns.idle(), this.#ends.idle(), created]);
  }

  #changed(id: string): void {
    if (!isWanted(this.#pods.find(id))) {
      this.#creates.abort(id);
      this.#ends.enqueue(id);
      return;
    }
    // Authors and clients may change it as often as they like.
    const { pollMs = POLL_MS } = this.#options;
    const waitMs = (this.#followedMs.get(id) ?? Number.NEGATIVE_INFINITY) + pollMs - performance.now();
    if (waitMs > 0) this.#turns.later(id, waitMs);
    else this.#turns.enqueue(id);
  }

  /** The pod is gone, over, or being deleted. */
  async #end(id: string): Promise<void> {
    const { records, sandboxes, pollMs = POLL_MS } = this.#options;
    // Without the API server's list nothing is ended; a create that runs looks again when it is over.
    if (!this.#pods.isListed || this.#creates.isRunning(id)) return;
    if (this.#turns.isRunning(id)) return this.#ends.later(id, pollMs);
    if (isWanted(this.#pods.find(id))) return this.#turns.enqueue(id);
    const found = this.#pods.find(id);
    const record = records.get(id);
    if (record !== undefined && sandboxes.stateOf(id) !== undefined) {
      const graceS = record.startedAtMs === undefined ? 0 : (found?.endsWithinS ?? 0);
      if (!(await this.#endings.isOver(id, graceS))) return this.#ends.later(id, pollMs);
      await this.#delete(id);
    }
    if (found?.endsWithinS !== undefined) await this.#statuses.remove(found, this.#stop.signal);
    if (record !== undefined) await records.remove(id);
    this.#statuses.forget(id);
    this.#endings.forget(id);
    this.#creates.forget(id);
    this.#readiness.forget(id);
    this.#followedMs.delete(id);
    this.#pods.forget(id);
  }

  async #reconcile(id: string): Promise<void> {
    const { records, sandboxes } = this.#options;
    if (!this.#pods.isListed || this.#creates.isRunning(id)) return;
    const pod = this.#pods.find(id);
    if (!isWanted(pod)) return this.#ends.later(id, 0);
    const record = records.get(id);
    const sandbox = sandboxes.stateOf(id);
    if (record?.outcome !== undefined) return await this.#conclude(pod, record, record.outcome);
    const isMade = record?.startedAtMs !== undefined;
    if (record === undefined || (!isMade && sandbox === undefined)) return this.#creates.start(id);
    if (sandbox === undefined)
      return await this.#conclude(
        pod,
        record,
        failed('Deleted', 'its sandbox was deleted, or its time was over'),
      );
    if (sandbox.state === 'failed')
      return await this.#conclude(pod, record, failed('VmExited', sandbox.reason ?? ''));
    const { asked } = pod;
    const isSame =
      'wish' in asked && asked.wish.vcpus === record.vcpus && asked.wish.memoryMib === record.memoryMib;
    if (!isSame) {
      const message = 'its resources were changed, which a sandbox cannot follow';
      return await this.#conclude(pod, record, failed('SizeChanged', message));
    }
    if (!pod.isLabelled) return await this.#conclude(pod, record, failed('NoPlaceLabel', NO_LABEL));
    await this.#follow(pod, record, asked.wish, sandbox.state);
  }

  /** First what is to be, then what is done: in between it is not made again. */
  async #conclude(pod: KnownPod, record: PodRecord, outcome: PodOutcome): Promise<void> {
    const { records } = this.#options;
    if (record.outcome === undefined) await records.put(pod.id, { ...record, outcome });
    await this.#delete(pod.id);
    await this.#post(pod, record, { kind: 'over', outcome });
  }

  async #follow(pod: KnownPod, record: PodRecord, wish: KnownWish, sandboxState: string): Promise<void> {
    const { id } = pod;
    const { records, sandboxes, pollMs = POLL_MS } = this.#options;
    this.#followedMs.set(id, performance.now());
    const made = { ...record, startedAtMs: record.startedAtMs ?? Date.now() };
    // The daemon ended between the two.
    if (record.startedAtMs === undefined) await records.put(id, made);
    const running = (isReady: boolean, reason?: string, service?: ServiceStatus) =>
      this.#post(pod, made, {
        ...{ kind: 'running', isReady, service },
        ...(reason !== undefined && { reason }),
      });
    this.#turns.later(id, pollMs);
    if (sandboxState !== 'running') this.#readiness.forget(id);
    // It is not woken to be asked.
    if (sandboxState !== 'running') return await running(false, 'Paused');
    let service: ServiceStatus | undefined;
    try {
      service = await sandboxes.service(id, this.#limit());
    } catch {
      this.#turns.later(id, pollMs * SLOW_FACTOR);
      return await running(false, 'GuestUnreachable');
    }
    const outcome = service && toOutcome(service, wish.restartPolicy);
    if (outcome !== undefined) return await this.#conclude(pod, made, outcome);
    if (service !== undefined && service.state !== 'running')
      return await running(false, 'ServiceNotRunning', service);
    const { readiness } = wish;
    const ask = (asked: Readiness) => sandboxes.isReady(id, asked, this.#limit(PROBE_MS)).catch(() => false);
    const isReady = readiness === undefined || this.#readiness.isReady(id, readiness, await ask(readiness));
    await running(isReady, isReady ? undefined : 'ReadinessProbe', service);
  }

  async #post(pod: KnownPod, record: PodRecord | undefined, state: PodState): Promise<void> {
    const report: PodReport = {
      ...{ ...pod.container, state, startedAtMs: record?.startedAtMs, hostIp: this.#options.hostIp },
      ...{ ip: record?.address, size: record },
    };
    await this.#statuses.post(pod, report, this.#stop.signal);
  }

  async #delete(id: string): Promise<void> {
    if (this.#options.sandboxes.stateOf(id) !== undefined) await this.#options.sandboxes.delete(id);
  }

  #limit(limitMs = CALL_MS): AbortSignal {
    return AbortSignal.any([AbortSignal.timeout(limitMs), this.#stop.signal]);
  }
}
