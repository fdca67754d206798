// Sandboxes for pods of others: each create with the rights of a key of its tenant, refused for good or tried again.
import type { Logger } from 'pino';
import { AppError, isAppError, toError } from '../../lib/errors.ts';
import type { Ipv4Range } from '../../lib/ipv4.ts';
import type { KubeClient } from '../kube/client.ts';
import { podPath, readItems } from '../kube/objects.ts';
import {
  FOREIGN,
  type ForeignPod,
  type KnownPod,
  readForeignPod,
  readTenant,
} from '../kubernetes/foreign-pods.ts';
import { PLACE_LABEL } from '../kubernetes/pods.ts';
import type { FleetSeal } from '../seal.ts';
import { isWanted, type KnownPods } from './known-pods.ts';
import { chooseAddress } from './pod-addresses.ts';
import { readEnvironment } from './pod-environment.ts';
import { failed, type PodOutcome } from './pod-outcome.ts';
import type { PodRecords, PodSandboxes } from './pod-sandboxes.ts';
import type { PodState } from './pod-status.ts';
import { Turns } from './turns.ts';

const AT_ONCE = 32;
/** Of a namespace: images of one tenant that take long keep no other one waiting. */
const SHARE = 4;
/** A host without capacity may have some soon; then the pod fails, and its controller makes another one elsewhere. */
const MAX_SHORTAGES = 4;
const UNEXPECTED = 'this host could not make its sandbox; its log says why';

/** Reasons of pods that are refused, by the code of the error. Others are tried again. */
const FINAL_REASONS: Readonly<Record<string, string>> = {
  forbidden: 'Forbidden',
  invalid_argument: 'Unsupported',
  unsupported: 'Unsupported',
  conflict: 'Conflict',
  internal: 'StartError',
};

export type PodCreatesOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly node: string;
  readonly namespace: string;
  readonly records: PodRecords;
  readonly sandboxes: PodSandboxes;
  readonly range: Ipv4Range | undefined;
  readonly isFenced: () => boolean;
  readonly log: Logger;
};

export type PodCreatesDeps = {
  readonly pods: KnownPods;
  readonly post: (pod: KnownPod, state: PodState) => Promise<void>;
  /** One is over, or has failed. */
  readonly onDone: (id: string) => void;
  readonly onFailure: (id: string, error: unknown) => void;
};

export class PodCreates {
  readonly #options: PodCreatesOptions;
  readonly #deps: PodCreatesDeps;
  readonly #turns: Turns;
  readonly #running = new Map<string, AbortController>();
  /** How often they failed: these are tried again by their turns. */
  readonly #retried = new Map<string, { shortages: number }>();
  readonly #stop = new AbortController();

  constructor(options: PodCreatesOptions, deps: PodCreatesDeps) {
    this.#options = options;
    this.#deps = deps;
    this.#turns = new Turns((id) => this.#createFor(id), deps.onFailure, {
      ...{ atOnce: AT_ONCE, share: SHARE, groupOf: (id) => deps.pods.groupOf(id) },
    });
  }

  isRunning(id: string): boolean {
    return this.#running.has(id);
  }

  start(id: string): void {
    if (!this.#retried.has(id)) this.#turns.enqueue(id);
  }

  abort(id: string): void {
    this.#running.get(id)?.abort(new AppError('cancelled', 'the pod was deleted'));
  }

  forget(id: string): void {
    this.#retried.delete(id);
  }

  async stop(): Promise<void> {
    this.#stop.abort(new AppError('cancelled', 'the daemon is stopping'));
    this.#turns.stop();
    await this.#turns.idle();
  }

  async #createFor(id: string): Promise<void> {
    const { records, sandboxes, isFenced } = this.#options;
    const { pods, onDone } = this.#deps;
    const pod = pods.find(id);
    const isMade = records.get(id)?.startedAtMs !== undefined || sandboxes.stateOf(id) !== undefined;
    if (!isWanted(pod) || isMade || this.#running.has(id)) return;
    const creating = new AbortController();
    this.#running.set(id, creating);
    const tries = this.#retried.get(id) ?? { shortages: 0 };
    this.#retried.set(id, tries);
    try {
      if (isFenced()) throw new AppError('exhausted', 'this host cannot reach the API server');
      await this.#create(pod, tries, AbortSignal.any([creating.signal, this.#stop.signal]));
      this.#retried.delete(id);
    } finally {
      this.#running.delete(id);
      onDone(id);
    }
  }

  async #create(pod: KnownPod, tries: { shortages: number }, signal: AbortSignal): Promise<void> {
    const { records, sandboxes, client, namespace, log } = this.#options;
    const { id, uid } = pod;
    const { isOurs, tenant } = readTenant(namespace, pod.namespace);
    if (!isOurs) {
      const message = `pods run here only in the namespace ${namespace}, or ${namespace}-<tenant>`;
      return await this.#refuse(pod, failed('Forbidden', message));
    }
    if ('refusal' in pod.asked) return await this.#refuse(pod, failed('Unsupported', pod.asked.refusal));
    if (!pod.isLabelled) return await this.#refuse(pod, failed('NoPlaceLabel', NO_LABEL));
    try {
      // Before anything is read or made for it.
      sandboxes.assertAllowed(tenant);
      const whole = await this.#read(pod, signal);
      if ('refusal' in whole.asked) throw new AppError('invalid_argument', whole.asked.refusal);
      const { wish } = whole.asked;
      const env = await readEnvironment(whole, wish.variables, client, signal);
      const address = this.#addressOf(uid);
      const { vcpus, memoryMib } = wish;
      const record = { uid, vcpus, memoryMib, ...(address !== undefined && { address }) };
      const body = wish.toBody(env, address);
      await records.put(id, record);
      await sandboxes.create({ id, tenant, body }, signal);
      await records.put(id, { ...record, startedAtMs: Date.now() });
      log.info(
        { sandbox: id, pod: pod.name, namespace: pod.namespace },
        'a pod of the cluster has a sandbox',
      );
    } catch (error) {
      if (signal.aborted) return;
      await this.#fail(pod, tries, error);
    }
  }

  /** As the API server has it now: not all of it is kept. AppError upstream. */
  async #read({ namespace, name, uid }: KnownPod, signal: AbortSignal): Promise<ForeignPod> {
    const { client, seal, node } = this.#options;
    // A node may list its own pods; to get one by its name it would need another right.
    const query = { fieldSelector: `spec.nodeName=${node},metadata.name=${name}` };
    const asked = { method: 'GET', path: podPath(namespace), query, signal } as const;
    const found = await client.request(asked).catch((cause: unknown) => {
      throw new AppError('upstream', 'the pod cannot be read now', { cause });
    });
    const whole = readItems(found).flatMap((object) => readForeignPod(object, seal) ?? []);
    const [pod] = whole.filter((each) => each.uid === uid);
    if (pod === undefined) throw new AppError('upstream', 'the pod cannot be read now');
    return pod;
  }

  /** What is tried again is thrown. */
  async #fail(pod: KnownPod, tries: { shortages: number }, error: unknown): Promise<void> {
    const isShort = isAppError(error) && error.code === 'exhausted';
    if (isShort) tries.shortages += 1;
    const isOver = isShort && tries.shortages >= MAX_SHORTAGES;
    const final = isOver ? 'OutOfCapacity' : isAppError(error) ? FINAL_REASONS[error.code] : undefined;
    // Others may have paths and addresses of this host.
    const isShown = isAppError(error) && error.code !== 'internal';
    const message = isShown ? toError(error).message : UNEXPECTED;
    if (!isShown)
      this.#options.log.error({ err: error, sandbox: pod.id }, 'cannot make the sandbox of a pod');
    if (final !== undefined) return await this.#refuse(pod, failed(final, message));
    const reason = isShort ? 'OutOfCapacity' : 'CreateContainerError';
    await this.#deps.post(pod, { kind: 'waiting', reason, message });
    throw error;
  }

  /** Before there is a sandbox. */
  async #refuse(pod: KnownPod, outcome: PodOutcome): Promise<void> {
    const { records, log } = this.#options;
    await records.remove(pod.id);
    log.warn(
      { pod: pod.name, namespace: pod.namespace, reason: outcome.message },
      'a pod of the cluster is refused',
    );
    await this.#deps.post(pod, { kind: 'over', outcome });
    this.#deps.pods.setPhase(pod, outcome.phase);
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
}

export const NO_LABEL = `the pod has no label ${PLACE_LABEL}: ${FOREIGN}, which its template can give it`;
