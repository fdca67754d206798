// A scheduler for the stand-in API server: binds each pod to the fitting node with the fewest of them.
import type { KubeObject, Objects } from './objects.ts';

export class Scheduler {
  readonly #objects: Objects;
  /** Stopped: pods stay pending. */
  isStopped = false;

  constructor(objects: Objects) {
    this.#objects = objects;
    objects.watch('pods', 0, ({ type, object }) => {
      if (type === 'ADDED') setImmediate(() => this.#bind(object));
    });
  }

  #bind({ metadata }: KubeObject): void {
    const pod = this.#objects.find('pods', metadata.namespace ?? '', metadata.name);
    if (this.isStopped || pod === undefined || pod.spec.nodeName !== undefined) return;
    const terms =
      pod.spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
    const affinity = pod.spec.affinity?.nodeAffinity;
    const preferred: Preferred[] = affinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
    const fields: { operator: string; values: string[] }[] = terms?.[0]?.matchFields ?? [];
    const bound = Map.groupBy(
      this.#objects.list('pods').filter(({ status }) => status?.phase !== 'Failed'),
      ({ spec }) => spec.nodeName,
    );
    const nodes = this.#objects
      .list('nodes')
      .filter(({ status, spec }) => isReady(status) && spec?.unschedulable !== true)
      .filter(({ metadata: { name } }) =>
        fields.every(({ operator, values }) => values.includes(name) === (operator === 'In')),
      )
      .map((node) => ({
        ...{ name: node.metadata.name, node },
        pods: bound.get(node.metadata.name) ?? [],
      }))
      .filter(({ pods, node }) => fits(node, [...pods, pod]))
      .sort((a, b) => score(b.node, preferred) - score(a.node, preferred) || a.pods.length - b.pods.length);
    const [best] = nodes;
    const scheduled = {
      type: 'PodScheduled',
      ...(best
        ? { status: 'True' }
        : { status: 'False', reason: 'Unschedulable', message: '0 nodes are available' }),
    };
    this.#objects.change('pods', pod, {
      ...(best && { spec: { nodeName: best.name } }),
      status: { phase: 'Pending', conditions: [scheduled] },
    });
  }
}

type Preferred = { weight: number; preference: { matchExpressions: { key: string }[] } };

function score({ metadata: { labels = {} } }: KubeObject, preferred: readonly Preferred[]): number {
  return preferred
    .filter(({ preference }) => preference.matchExpressions.every(({ key }) => labels[key] !== undefined))
    .reduce((sum, { weight }) => sum + weight, 0);
}

// biome-ignore lint/suspicious/noExplicitAny: the status of a node.
function isReady(status: any): boolean {
  return status?.conditions?.some(
    (each: { type: string; status: string }) => each.type === 'Ready' && each.status === 'True',
  );
}

function fits({ status }: KubeObject, pods: readonly KubeObject[]): boolean {
  const sum = (read: (pod: KubeObject) => number): number => pods.map(read).reduce((a, b) => a + b, 0);
  const requests = (pod: KubeObject) => pod.spec.containers[0].resources.requests;
  return (
    pods.length <= Number(status.allocatable.pods) &&
    sum((pod) => Number.parseInt(requests(pod).memory, 10)) <=
      Number.parseInt(status.allocatable.memory, 10) &&
    sum((pod) => Number.parseInt(requests(pod).cpu, 10)) <= Number(status.allocatable.cpu) * 1000
  );
}
