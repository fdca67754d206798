// The pods that are bound to this host, and what it says about them to the API server.
import type { Logger } from 'pino';
import { AppError } from '../../lib/errors.ts';
import { ignoreGone, type KubeClient } from '../kube/client.ts';
import { PODS, podPath, readItems, readPod } from '../kube/objects.ts';
import { Watch } from '../kube/watch.ts';
import {
  COPIED,
  FETCHED,
  type Fetched,
  LEAVING,
  PLACE_LABEL,
  type PlacePod,
  readPlacePod,
  readPodName,
  TAKES_CHANGES,
  toPodName,
} from '../kubernetes/pods.ts';
import type { SealedPlace } from '../place-header.ts';
import type { FleetSeal } from '../seal.ts';

/** A gateway's watch may be ahead of ours by this much. */
const POD_WAIT_MS = 5000;

type Known = { readonly pod: PlacePod; readonly sinceMs: number };

export type HostPodsOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly node: string;
  /** A pod came, changed or went; without an id all may have. */
  readonly onChange: (id?: string) => void;
  readonly log: Logger;
};

export class HostPods {
  readonly #options: HostPodsOptions;
  readonly #watch: Watch<PlacePod>;
  /** By id: one, and others while its sandbox moves. */
  #known = new Map<string, readonly Known[]>();
  /** Uids of those that this host asked to be removed, which may happen late: no create may use them any more. */
  readonly #givenUp = new Set<string>();
  readonly #stop = new AbortController();
  readonly #waiting = new Set<() => void>();
  #isListed = false;

  constructor(options: HostPodsOptions) {
    const { client, seal, node, log } = options;
    const onChange: HostPodsOptions['onChange'] = (id) => {
      for (const done of [...this.#waiting]) done();
      options.onChange(id);
    };
    this.#options = options;
    // Pods that others bind here, such as those of daemon sets, have no label of ours and stay as they are.
    const query = { fieldSelector: `spec.nodeName=${node}`, labelSelector: PLACE_LABEL };
    this.#watch = new Watch({
      ...{ client, log, path: PODS, query },
      read: (object) => readPlacePod(object, seal),
      onList: (pods) => {
        this.#known = Map.groupBy(
          pods.map((pod) => this.#toKnown(pod)),
          ({ pod }) => pod.id,
        );
        const listed = new Set(pods.map(({ uid }) => uid));
        for (const uid of this.#givenUp) if (!listed.has(uid)) this.#givenUp.delete(uid);
        this.#isListed = true;
        onChange();
      },
      onChange: (change, object) => {
        const pod = readPlacePod(object, seal);
        const { name = '', uid } = readPod(object)?.metadata ?? {};
        const id = pod?.id ?? readPodName(name)?.id ?? name;
        const known = change === 'put' && pod !== undefined ? [this.#toKnown(pod)] : [];
        const others = (this.#known.get(id) ?? []).filter((each) => each.pod.uid !== uid);
        const all = [...others, ...known];
        if (all.length > 0) this.#known.set(id, all);
        else this.#known.delete(id);
        if (known.length === 0 && uid !== undefined) this.#givenUp.delete(uid);
        onChange(id);
      },
    });
  }

  start(): void {
    this.#watch.start();
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#watch.close();
  }

  /** Whether the pods of this host are known. Without that a missing pod means nothing. */
  get isListed(): boolean {
    return this.#isListed;
  }

  ids(): Iterable<string> {
    return this.#known.keys();
  }

  /** `uid`: of the place that its sandbox uses; else the newest that is not over. */
  find(id: string, uid?: string): PlacePod | undefined {
    return this.#find(id, uid)?.pod;
  }

  /** Of earlier moves of the same sandbox: they are being deleted, and only this host can let them go. */
  findOver(id: string, uid?: string): PlacePod[] {
    const found = this.find(id, uid);
    const others = (this.#known.get(id) ?? []).map(({ pod }) => pod).filter((pod) => pod.uid !== found?.uid);
    return others.filter(({ isDeleting, move }) => isDeleting && move !== undefined);
  }

  /** AppError conflict when it is not bound to this host. */
  async awaitPlace({ id, uid }: SealedPlace, namespace: string): Promise<PlacePod> {
    const untilMs = performance.now() + POD_WAIT_MS;
    for (;;) {
      const pod = this.find(id, uid);
      const isLeft = pod?.uid === uid && pod.namespace === namespace && !pod.isDeleting;
      if (isLeft && !this.#givenUp.has(uid)) return pod;
      const leftMs = untilMs - performance.now();
      if (leftMs <= 0) throw new AppError('conflict', `the place ${id} is not on this host, or no longer`);
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          this.#waiting.delete(done);
          resolve();
        };
        const timer = setTimeout(done, leftMs);
        this.#waiting.add(done);
      });
    }
  }

  knownMs(id: string, uid?: string): number {
    return performance.now() - (this.#find(id, uid)?.sinceMs ?? performance.now());
  }

  /** Whether the API server has it now: our watch may be behind. Rejects when that cannot be known. */
  async isThere(pod: PlacePod): Promise<boolean> {
    const { client, node, seal } = this.#options;
    // A list: nodes may read pods by their selector, and roles of earlier versions let hosts read none by its name.
    const fieldSelector = `spec.nodeName=${node},metadata.name=${toPodName(pod)}`;
    const { signal } = this.#stop;
    const found = await client.request({ method: 'GET', path: PODS, query: { fieldSelector }, signal });
    return readItems(found)
      .flatMap((each) => readPlacePod(each, seal) ?? [])
      .some(({ uid, isDeleting }) => uid === pod.uid && !isDeleting);
  }

  #find(id: string, uid: string | undefined): Known | undefined {
    const all = this.#known.get(id) ?? [];
    return (
      all.find(({ pod }) => pod.uid === uid) ??
      all.findLast(({ pod }) => !pod.isDeleting && pod.phase !== 'Failed') ??
      all.at(-1)
    );
  }

  async setPhase(pod: PlacePod, phase: 'Running' | 'Failed', reason: string, message: string): Promise<void> {
    const now = new Date().toISOString().replace(/\.\d+/, '');
    const isRunning = phase === 'Running';
    const status = {
      phase,
      reason,
      message: message.slice(0, 1000),
      conditions: ['Initialized', 'ContainersReady', 'Ready'].map((type) => ({
        type,
        status: isRunning || type === 'Initialized' ? 'True' : 'False',
        lastTransitionTime: now,
      })),
      ...(isRunning && { startTime: now }),
    };
    const path = `${podPath(pod.namespace, toPodName(pod))}/status`;
    // The uid is a precondition: it is not the pod of a later place.
    const body = { metadata: { uid: pod.uid }, status };
    const { signal } = this.#stop;
    await this.#options.client
      .request({ method: 'PATCH', path, patch: 'strategic', body, signal })
      .catch(ignoreGone);
  }

  /** Names of moves: its sandbox waits for another host, or has sent a copy ahead; undefined: not so. */
  async setLeaving(
    pod: PlacePod,
    { leaves, copied }: { readonly leaves: string | undefined; readonly copied: string | undefined },
  ): Promise<void> {
    const named = (type: string, move: string | undefined) => ({
      ...{ type, status: move === undefined ? 'False' : 'True' },
      reason: move === undefined ? 'Stays' : `D${move}`,
    });
    const changed = [
      ...(pod.leaves === leaves ? [] : [named(LEAVING, leaves)]),
      ...(pod.copied === copied ? [] : [named(COPIED, copied)]),
    ];
    await this.#setConditions(pod, changed);
  }

  /** How far this host is with what the sandbox has sent ahead. */
  async setFetched(pod: PlacePod, state: Fetched, takesChanges: boolean): Promise<void> {
    const reason = `${state.charAt(0).toUpperCase()}${state.slice(1)}`;
    await this.#setConditions(pod, [
      { type: FETCHED, status: state === 'ready' ? 'True' : 'False', reason },
      ...(takesChanges ? [{ type: TAKES_CHANGES, status: 'True', reason: 'Version' }] : []),
    ]);
  }

  async #setConditions(
    pod: PlacePod,
    changed: readonly { readonly type: string; readonly status: string; readonly reason: string }[],
  ): Promise<void> {
    const lastTransitionTime = new Date().toISOString().replace(/\.\d+/, '');
    const conditions = changed.map((each) => ({ ...each, lastTransitionTime }));
    const path = `${podPath(pod.namespace, toPodName(pod))}/status`;
    const body = { metadata: { uid: pod.uid }, status: { conditions } };
    const { signal } = this.#stop;
    await this.#options.client
      .request({ method: 'PATCH', path, patch: 'strategic', body, signal })
      .catch(ignoreGone);
  }

  /** Takes our finalizer away and removes the pod: its sandbox is gone. */
  async remove({
    namespace,
    uid,
    ...named
  }: Pick<PlacePod, 'id' | 'move' | 'namespace' | 'uid'>): Promise<void> {
    const { client } = this.#options;
    const { signal } = this.#stop;
    this.#givenUp.add(uid);
    const path = podPath(namespace, toPodName(named));
    const body = { metadata: { uid, finalizers: null } };
    // Of a pod, a node may change what its status has, which is the metadata, too.
    const status = `${path}/status`;
    await client.request({ method: 'PATCH', path: status, patch: 'merge', body, signal }).catch(ignoreGone);
    const options = { gracePeriodSeconds: 0, preconditions: { uid } };
    await client.request({ method: 'DELETE', path, body: options, signal }).catch(ignoreGone);
  }

  #toKnown(pod: PlacePod): Known {
    const known = this.#known.get(pod.id)?.find((each) => each.pod.uid === pod.uid);
    return { pod, sinceMs: known?.sinceMs ?? performance.now() };
  }
}
