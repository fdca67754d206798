// What the API server lets a node do with its own certificate, and a host with a bootstrap token: the rules of the
// authorization mode Node and of the admission plug-in NodeRestriction. test/http/fleet-contract.test.ts compares them
// with a real one.
import { type KubeObject, Refused } from './objects.ts';

export const BOOTSTRAP_USER = 'system:bootstrap:';
const NODE_USER = 'system:node:';

export type NodeRequest = {
  readonly user: string;
  readonly method: string;
  readonly resource: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly isStatus: boolean;
  /** Of a list or watch. */
  readonly fieldSelector: string | null;
  readonly body: Record<string, unknown>;
  readonly found: KubeObject | undefined;
  readonly pods: () => readonly KubeObject[];
};

/** Throws Refused. Users that are neither may do all. */
export function assertAllowed(request: NodeRequest): void {
  const { user, method, resource } = request;
  const isAllowed = user.startsWith(NODE_USER)
    ? mayNode(user.slice(NODE_USER.length), request)
    : !user.startsWith(BOOTSTRAP_USER) ||
      (resource === 'certificatesigningrequests' && ['GET', 'POST'].includes(method));
  if (!isAllowed)
    throw new Refused(
      403,
      'Forbidden',
      `${resource} is forbidden: User "${user}" cannot ${method} ${request.name ?? ''}`,
    );
}

function mayNode(
  node: string,
  { method, resource, namespace, name, isStatus, fieldSelector, body, found, pods }: NodeRequest,
): boolean {
  const metadata = (body.metadata ?? {}) as { name?: string; labels?: Record<string, string> };
  switch (resource) {
    case 'certificatesigningrequests':
      return ['GET', 'POST'].includes(method);
    case 'nodes':
      if (method === 'POST') return metadata.name === node && !hasReserved(metadata.labels);
      if (method === 'PATCH')
        return name === node && isOnlyCordon(body.spec) && !hasReserved(metadata.labels);
      return method === 'GET' && (name === node || fieldSelector === `metadata.name=${node}`);
    case 'secrets':
    case 'configmaps': {
      // The role sandboxd-keys of deploy/kubernetes.
      if (resource === 'configmaps' && method === 'GET' && name === undefined)
        return namespace === 'sandboxd';
      const key = resource === 'secrets' ? 'secretKeyRef' : 'configMapKeyRef';
      const names = (pod: KubeObject): boolean =>
        pod.spec?.nodeName === node &&
        pod.metadata.namespace === namespace &&
        pod.spec.containers.some((each: { env?: { valueFrom?: Record<string, { name: string }> }[] }) =>
          each.env?.some(({ valueFrom }) => valueFrom?.[key]?.name === name),
        );
      return method === 'GET' && name !== undefined && pods().some(names);
    }
    case 'leases':
      return namespace === 'kube-node-lease' && (name ?? metadata.name) === node;
    case 'pods': {
      if (method === 'GET' && name === undefined)
        return fieldSelector?.split(',').includes(`spec.nodeName=${node}`) === true;
      const isOwn = found === undefined || found.spec?.nodeName === node;
      if (method === 'PATCH') return isStatus && isOwn && metadata.labels === undefined;
      return ['GET', 'DELETE'].includes(method) && isOwn;
    }
  }
  return false;
}

/** Taints are not a node's own to change; whether it is cordoned is. */
function isOnlyCordon(spec: unknown): boolean {
  return Object.keys(spec ?? {}).every((name) => name === 'unschedulable');
}

function hasReserved(labels: Record<string, string> = {}): boolean {
  const own = ['kubernetes.io/hostname', 'kubernetes.io/os', 'kubernetes.io/arch'];
  return Object.keys(labels).some(
    (label) => /(?:^|[.])(?:kubernetes|k8s)\.io\//.test(label) && !own.includes(label),
  );
}
