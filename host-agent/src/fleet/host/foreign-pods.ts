// Pods that others made and that are bound to this host: each becomes a sandbox with the rights of a key of its tenant,
// and its status says what the sandbox does. A pod has one sandbox at most, and a sandbox whose pod is gone ends.
import type { Logger } from 'pino';
import type { ServiceStatus } from '../../guest/service.ts';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import type { Ipv4Range } from '../../lib/ipv4.ts';
import type { KubeClient } from '../kube/client.ts';
import { PODS, readPod } from '../kube/objects.ts';
import { Watch } from '../kube/watch.ts';
import { type ForeignPod, hasPlaceLabel, readForeignPod, readTenant } from '../kubernetes/foreign-pods.ts';
import { readContainer, readWish, type Wish } from '../kubernetes/pod-wish.ts';
import { PLACE_LABEL } from '../kubernetes/pods.ts';
import type { FleetSeal } from '../seal.ts';
import { chooseAddress } from './pod-addresses.ts';
import { PodEndings } from './pod-endings.ts';
import { readEnvironment } from './pod-environment.ts';
import { failed, type PodOutcome, toOutcome } from './pod-outcome.ts';
import type { PodRecord, PodRecords, PodSandboxes } from './pod-sandboxes.ts';
import { type PodReport, type PodState, PodStatuses } from './pod-status.ts';
import { Turns } from './turns.ts';

const POLL_MS = 1000;
const CALL_MS = 5000;
const PROBE_MS = 2000;
/** Guests that do not answer are asked more rarely: a turn waits for each. */
const SLOW_FACTOR = 10;

export type ForeignPodsOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly node: string;
  /** As gateways have it. */
  readonly namespace: string;
  readonly records: PodRecords;
  readonly sandboxes: PodSandboxes;
  readonly range: Ipv4Range | undefined;
  readonly hostIp: string | undefined;
  /** Whether the engine may hold this host for dead. */
  readonly isFenced: () => boolean;
  readonly log: Logger;
  readonly pollMs?: number;
};

/** Reasons of pods that are refused, by the code of the error. Others are tried again. */
const FINAL_REASONS: Readonly<Record<string, string>> = {
  forbidden: 'Forbidden',
  invalid_argument: 'Unsupported',
  unsupported: 'Unsupported',
  conflict: 'Conflict',
  exhausted: 'OutOfCapacity',
  internal: 'StartError',
};

export class ForeignPods {
  readonly #options: ForeignPodsOptions;
  readonly #watch: Watch;
  readonly #statuses: PodStatuses;
  readonly #turns: Turns;
  /** Pulls take long, so that creates have turns of their own. */
  readonly #creates: Turns;
  readonly #creating = new Map<string, AbortController>();
  /** Creates that have failed, and are tried again by their turns. */
  readonly #retried = new Set<string>();
  readonly #endings: PodEndings;
  readonly #stop = new AbortController();
  #known = new Map<string, ForeignPod>();
  #isListed = false;
  #unsubscribe: () => void = () => undefined;

  constructor(options: ForeignPodsOptions) {
    const { client, seal, node, log } = options;
    this.#options = options;
    this.#statuses = new PodStatuses(client, seal);
    this.#endings = new PodEndings(options.sandboxes, () => this.#limit());
    const toTurns = (work: (id: string) => Promise<void>) =>
      new Turns(work, (sandbox, error) => {
        if (!this.#stop.signal.aborted)
          log.warn({ sandbox, reason: toError(error).message }, 'cannot settle a pod of the cluster yet');
      });
    this.#turns = toTurns((id) => this.#reconcile(id));
    this.#creates = toTurns((id) => this.#createFor(id));
    // Those that gateways made are among them: the others need not have any label.
    this.#watch = new Watch({
      ...{ client, log, path: PODS, query: { fieldSelector: `spec.nodeName=${node}` } },
      onList: (objects) => {
        const pods = objects.flatMap((object) => readForeignPod(object, seal) ?? []);
        this.#known = new Map(pods.map((pod) => [pod.id, pod]));
        this.#isListed = true;
        const recorded = options.records.all().map(({ id }) => id);
        for (const id of new Set([...this.#known.keys(), ...recorded])) this.#changed(id);
      },
      onChange: (change, object) => {
        const pod = readForeignPod(object, seal);
        const { uid } = readPod(object)?.metadata ?? {};
        if (pod === undefined) return;
        if (change === 'put') this.#known.set(pod.id, pod);
        else if (this.#known.get(pod.id)?.uid === uid) this.#known.delete(pod.id);
        this.#changed(pod.id);
      },
    });
  }

  start(): void {
    if (this.#stop.signal.aborted) return;
    const { sandboxes, records } = this.#options;
    this.#unsubscribe = sandboxes.subscribe((id) => {
      if (records.get(id) !== undefined) this.#turns.enqueue(id);
    });
    this.#watch.start();
  }

  async stop(): Promise<void> {
    this.#stop.abort(new AppError('cancelled', 'the daemon is stopping'));
    this.#unsubscribe();
    this.#turns.stop();
    this.#creates.stop();
    for (const creating of this.#creating.values()) creating.abort(this.#stop.signal.reason);
    await this.#watch.close();
    // They write to the registry, which closes next.
    await Promise.all([this.#turns.idle(), this.#creates.idle()]);
  }

  #changed(id: string): void {
    if (!isWanted(this.#known.get(id)))
      this.#creating.get(id)?.abort(new AppError('cancelled', 'the pod was deleted'));
    this.#turns.enqueue(id);
  }

  async #reconcile(id: string): Promise<void> {
    const { records, sandboxes, pollMs = POLL_MS } = this.#options;
    // Without the API server's list nothing is ended; a create that runs looks again when it is over.
    if (!this.#isListed || this.#creating.has(id)) return;
    const found = this.#known.get(id);
    const record = records.get(id);
    const sandbox = sandboxes.stateOf(id);
    const pod = isWanted(found) ? found : undefined;
    if (pod === undefined) {
      if (record !== undefined && sandbox !== undefined) {
        const graceS = record.startedAtMs === undefined ? 0 : (found?.endsWithinS ?? 0);
        if (!(await this.#endings.isOver(id, graceS))) return this.#turns.later(id, pollMs);
        await this.#delete(id);
      }
      if (found?.endsWithinS !== undefined) await this.#statuses.remove(found, this.#stop.signal);
      if (record !== undefined) await records.remove(id);
      this.#endings.forget(id);
      this.#retried.delete(id);
      return;
    }
    if (record?.outcome !== undefined) return await this.#conclude(pod, record, record.outcome);
    const isMade = record?.startedAtMs !== undefined;
    if (record === undefined || (!isMade && sandbox === undefined)) {
      if (!this.#retried.has(id)) this.#creates.enqueue(id);
      return;
    }
    if (sandbox === undefined)
      return await this.#conclude(
        pod,
        record,
        failed('Deleted', 'its sandbox was deleted, or its time was over'),
      );
    if (sandbox.state === 'failed')
      return await this.#conclude(pod, record, failed('VmExited', sandbox.reason ?? ''));
    const asked = readWish(pod);
    const isSame =
      'wish' in asked && asked.wish.vcpus === record.vcpus && asked.wish.memoryMib === record.memoryMib;
    if (!isSame) {
      const message = 'its resources were changed, which a sandbox cannot follow';
      return await this.#conclude(pod, record, failed('SizeChanged', message));
    }
    await this.#follow(pod, record, asked.wish, sandbox.state);
  }

  async #createFor(id: string): Promise<void> {
    const { records, sandboxes, isFenced } = this.#options;
    const pod = this.#known.get(id);
    const isMade = records.get(id)?.startedAtMs !== undefined || sandboxes.stateOf(id) !== undefined;
    if (!isWanted(pod) || isMade || this.#creating.has(id)) return;
    const creating = new AbortController();
    this.#creating.set(id, creating);
    this.#retried.add(id);
    try {
      if (isFenced()) throw new AppError('exhausted', 'this host cannot reach the API server');
      await this.#create(pod, AbortSignal.any([creating.signal, this.#stop.signal]));
      this.#retried.delete(id);
    } finally {
      this.#creating.delete(id);
      this.#turns.enqueue(id);
    }
  }

  async #create(pod: ForeignPod, signal: AbortSignal): Promise<void> {
    const { records, sandboxes, client, namespace, log } = this.#options;
    const { id, uid } = pod;
    const { isOurs, tenant } = readTenant(namespace, pod.namespace);
    const asked = readWish(pod);
    const refusal =
      'refusal' in asked
        ? failed('Unsupported', asked.refusal)
        : !isOurs
          ? failed('Forbidden', `pods run here only in the namespace ${namespace}, or ${namespace}-<tenant>`)
          : hasPlaceLabel(pod)
            ? undefined
            : failed('NoPlaceLabel', `the pod has no label ${PLACE_LABEL}, which its template can give it`);
    if ('refusal' in asked || refusal !== undefined)
      return await this.#refuse(pod, refusal ?? failed('Unsupported', ''));
    const { wish } = asked;
    try {
      const env = await readEnvironment(pod, wish.variables, client, signal);
      const address = this.#addressOf(uid);
      const { vcpus, memoryMib } = wish;
      const record = { uid, vcpus, memoryMib, ...(address !== undefined && { address }) };
      await records.put(id, record);
      await sandboxes.create({ id, tenant, body: wish.toBody(env, address) }, signal);
      await records.put(id, { ...record, startedAtMs: Date.now() });
      log.info(
        { sandbox: id, pod: pod.name, namespace: pod.namespace },
        'a pod of the cluster has a sandbox',
      );
    } catch (error) {
      if (signal.aborted) return;
      const { message } = toError(error);
      const reason = isAppError(error) ? FINAL_REASONS[error.code] : undefined;
      if (reason !== undefined) return await this.#refuse(pod, failed(reason, message));
      const state: PodState = { kind: 'waiting', reason: 'CreateContainerError', message };
      await this.#post(pod, undefined, wish, state);
      throw error;
    }
  }

  /** Before there is a sandbox. */
  async #refuse(pod: ForeignPod, outcome: PodOutcome): Promise<void> {
    const { records, log } = this.#options;
    await records.remove(pod.id);
    log.warn(
      { pod: pod.name, namespace: pod.namespace, reason: outcome.message },
      'a pod of the cluster is refused',
    );
    await this.#post(pod, undefined, readContainer(pod), { kind: 'over', outcome });
    // Our own watch may be behind.
    if (this.#known.get(pod.id)?.uid === pod.uid) this.#known.set(pod.id, { ...pod, phase: outcome.phase });
  }

  /** First what is to be, then what is done: in between it is not made again. */
  async #conclude(pod: ForeignPod, record: PodRecord, outcome: PodOutcome): Promise<void> {
    const { records } = this.#options;
    if (record.outcome === undefined) await records.put(pod.id, { ...record, outcome });
    await this.#delete(pod.id);
    await this.#post(pod, record, readContainer(pod), { kind: 'over', outcome });
  }

  async #follow(pod: ForeignPod, record: PodRecord, wish: Wish, sandboxState: string): Promise<void> {
    const { id } = pod;
    const { records, sandboxes, pollMs = POLL_MS } = this.#options;
    const made = { ...record, startedAtMs: record.startedAtMs ?? Date.now() };
    // The daemon ended between the two.
    if (record.startedAtMs === undefined) await records.put(id, made);
    const running = (isReady: boolean, reason?: string, service?: ServiceStatus) =>
      this.#post(pod, made, wish, {
        ...{ kind: 'running', isReady, service },
        ...(reason !== undefined && { reason }),
      });
    this.#turns.later(id, pollMs);
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
    const isReady =
      readiness === undefined ||
      (await sandboxes.isReady(id, readiness, this.#limit(PROBE_MS)).catch(() => false));
    await running(isReady, isReady ? undefined : 'ReadinessProbe', service);
  }

  async #post(
    pod: ForeignPod,
    record: PodRecord | undefined,
    { container, image }: Pick<Wish, 'container' | 'image'>,
    state: PodState,
  ): Promise<void> {
    const report: PodReport = {
      ...{ container, image, state, startedAtMs: record?.startedAtMs, hostIp: this.#options.hostIp },
      ...{ ip: record?.address, size: record },
    };
    await this.#statuses.post(pod, report, this.#stop.signal);
  }

  async #delete(id: string): Promise<void> {
    if (this.#options.sandboxes.stateOf(id) !== undefined) await this.#options.sandboxes.delete(id);
  }

  #addressOf(uid: string): string | undefined {
    const { range, records } = this.#options;
    if (range === undefined) return undefined;
    const others = records.all().filter(({ record }) => record.uid !== uid);
    const taken = new Set(others.flatMap(({ record }) => record.address ?? []));
    const address = chooseAddress(range, uid, taken);
    if (address === undefined) throw new AppError('exhausted', 'no address of pods is free on this host');
    return address;
  }

  #limit(limitMs = CALL_MS): AbortSignal {
    return AbortSignal.any([AbortSignal.timeout(limitMs), this.#stop.signal]);
  }
}

/** Whether it should have a sandbox. */
function isWanted(pod: ForeignPod | undefined): pod is ForeignPod {
  return pod !== undefined && pod.endsWithinS === undefined && !['Succeeded', 'Failed'].includes(pod.phase);
}
