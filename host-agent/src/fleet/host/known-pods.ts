// The pods of others that are bound to this host, as the API server has them.
import type { Logger } from 'pino';
import type { KubeClient } from '../kube/client.ts';
import { PODS, readPod } from '../kube/objects.ts';
import { Watch } from '../kube/watch.ts';
import { type KnownPod, readKnownPod, readTenant } from '../kubernetes/foreign-pods.ts';
import type { FleetSeal } from '../seal.ts';

export type KnownPodsOptions = {
  readonly client: KubeClient;
  readonly seal: FleetSeal;
  readonly node: string;
  /** As gateways have it. */
  readonly namespace: string;
  readonly log: Logger;
  /** More than its status is another, or it is gone. */
  readonly onChange: (id: string) => void;
  readonly onList: () => void;
};

export class KnownPods {
  readonly #options: KnownPodsOptions;
  readonly #watch: Watch<KnownPod>;
  #known = new Map<string, KnownPod>();
  /** By uid: what is ours by its uid stays ours, whatever its author writes into it. */
  #ids = new Map<string, string>();
  /** By id, until they are forgotten: a sandbox whose pod is gone ends with the share of its namespace. */
  readonly #namespaces = new Map<string, string>();
  #isListed = false;

  constructor(options: KnownPodsOptions) {
    const { client, seal, node, namespace, log, onChange, onList } = options;
    this.#options = options;
    // Those that gateways made are among them: the others need not have any label.
    this.#watch = new Watch({
      ...{ client, log, path: PODS, query: { fieldSelector: `spec.nodeName=${node}` } },
      read: (object) => readKnownPod(object, seal, namespace, this.#before(object)),
      onList: (pods) => {
        this.#known = new Map(pods.map((pod) => [pod.id, pod]));
        this.#ids = new Map(pods.map(({ uid, id }) => [uid, id]));
        for (const { id, namespace } of pods) this.#namespaces.set(id, namespace);
        this.#isListed = true;
        onList();
      },
      onChange: (change, object) => {
        const before = this.#before(object);
        const pod = change === 'put' ? readKnownPod(object, seal, namespace, before) : undefined;
        if (pod !== undefined) {
          this.#known.set(pod.id, pod);
          this.#ids.set(pod.uid, pod.id);
          this.#namespaces.set(pod.id, pod.namespace);
          if (before === undefined || !isSame(before, pod)) onChange(pod.id);
        } else if (before !== undefined) {
          this.#known.delete(before.id);
          this.#ids.delete(before.uid);
          onChange(before.id);
        }
      },
    });
  }

  start(): void {
    this.#watch.start();
  }

  async close(): Promise<void> {
    await this.#watch.close();
  }

  /** Without the list a missing pod means nothing. */
  get isListed(): boolean {
    return this.#isListed;
  }

  ids(): Iterable<string> {
    return this.#known.keys();
  }

  find(id: string): KnownPod | undefined {
    return this.#known.get(id);
  }

  /** What this host wrote into the status of a pod: our own watch may be behind. */
  setPhase({ id, uid }: Pick<KnownPod, 'id' | 'uid'>, phase: string): void {
    const now = this.#known.get(id);
    if (now?.uid === uid) this.#known.set(id, { ...now, phase });
  }

  /** Whose turn work for it is: namespaces outside the fleet share one. */
  groupOf(id: string): string {
    const namespace = this.#namespaces.get(id);
    if (namespace === undefined) return '';
    return readTenant(this.#options.namespace, namespace).isOurs ? namespace : '';
  }

  /** There is no more work for it. */
  forget(id: string): void {
    if (!this.#known.has(id)) this.#namespaces.delete(id);
  }

  #before(object: unknown): KnownPod | undefined {
    const { uid = '' } = readPod(object)?.metadata ?? {};
    return this.#known.get(this.#ids.get(uid) ?? '');
  }
}

function isSame(one: KnownPod, other: KnownPod): boolean {
  return one.digest === other.digest && one.phase === other.phase && one.endsWithinS === other.endsWithinS;
}

/** Whether it should have a sandbox. */
export function isWanted(pod: KnownPod | undefined): pod is KnownPod {
  return pod !== undefined && pod.endsWithinS === undefined && !['Succeeded', 'Failed'].includes(pod.phase);
}
