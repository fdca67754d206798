// The fields of Kubernetes objects that the fleet reads. Users who can write objects choose their values, so that an
// object that does not fit is not an object of ours.
import { z } from 'zod';

const MAX_NAME_CHARS = 253;
const text = z.string().max(1024);
const name = z.string().min(1).max(MAX_NAME_CHARS);
const texts = z.record(z.string(), z.string()).default({});

const condition = z.object({
  type: text,
  status: text,
  reason: text.optional(),
  message: z.string().optional(),
});

const metadata = z.object({
  name,
  uid: name,
  resourceVersion: text.optional(),
  labels: texts,
  annotations: texts,
  finalizers: z.array(text).default([]),
  creationTimestamp: text.optional(),
  deletionTimestamp: text.optional(),
});

const container = z.object({ name, resources: z.object({ requests: texts }).prefault({}) });

const pod = z.object({
  metadata: metadata.extend({ namespace: name }),
  spec: z.object({
    nodeName: name.optional(),
    runtimeClassName: text.optional(),
    containers: z.array(container).default([]),
  }),
  status: z
    .object({ phase: text.optional(), reason: text.optional(), conditions: z.array(condition).default([]) })
    .prefault({}),
});

const node = z.object({
  metadata,
  spec: z.object({ unschedulable: z.boolean().default(false) }).prefault({}),
  status: z.object({ conditions: z.array(condition).default([]) }).prefault({}),
});

const lease = z.object({ spec: z.object({ renewTime: text.optional() }).prefault({}) });

const list = z.object({ items: z.array(z.unknown()) });

export type Pod = z.output<typeof pod>;
export type Node = z.output<typeof node>;

export function readPod(object: unknown): Pod | undefined {
  return pod.safeParse(object).data;
}

export function readNode(object: unknown): Node | undefined {
  return node.safeParse(object).data;
}

/** Of the wall clock that wrote it; undefined for what is not a Lease that was renewed. */
export function readRenewedAtMs(object: unknown): number | undefined {
  const atMs = Date.parse(lease.safeParse(object).data?.spec.renewTime ?? '');
  return Number.isNaN(atMs) ? undefined : atMs;
}

/** When the API server made it, by its clock, in whole seconds; undefined when it does not say so. */
export function readCreatedAtMs({ metadata }: Pick<Pod | Node, 'metadata'>): number | undefined {
  const atMs = Date.parse(metadata.creationTimestamp ?? '');
  return Number.isNaN(atMs) ? undefined : atMs;
}

/** Of a list. */
export function readItems(object: unknown): readonly unknown[] {
  return list.safeParse(object).data?.items ?? [];
}

/** `100m` → 0.1, `1Gi` → 2^30. Undefined for what is not a quantity. */
export function readQuantity(text: string): number | undefined {
  const [, digits = '', unit = ''] = /^(\d+(?:\.\d+)?)(m|k|[KMGT]i?|)$/.exec(text) ?? [];
  const factor = UNITS[unit];
  return digits === '' || factor === undefined ? undefined : Number(digits) * factor;
}

const UNITS: Readonly<Record<string, number>> = {
  ...{ '': 1, m: 0.001, k: 1e3, M: 1e6, G: 1e9, T: 1e12 },
  ...{ Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 },
};

export function podPath(namespace: string, name?: string): string {
  const pods = `/api/v1/namespaces/${encodeURIComponent(namespace)}/pods`;
  return name === undefined ? pods : `${pods}/${encodeURIComponent(name)}`;
}

export const PODS = '/api/v1/pods';
export const NODES = '/api/v1/nodes';
export const LEASES = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases';
