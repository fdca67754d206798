// Pods that no gateway made and that want to run here: they have our runtime class. Their sandbox has an id of the
// fleet's, which its host writes, with a seal, into the pod; so gateways find it.
import { createHash } from 'node:crypto';
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import { base32hexnopad } from '@scure/base';
import { z } from 'zod';
import { isId } from '../../lib/ids.ts';
import { readPod } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import { PLACE_LABEL, type PlacePod, readPlacePod, SEAL, SIZE } from './pods.ts';

/** Name of the RuntimeClass. */
export const RUNTIME_CLASS = 'sandboxd';
const ID = 'sandboxd.dev/id';
const ID_BYTES = 8;

/** A whole pod; `spec` is for `readWish`. */
export type ForeignPod = {
  /** Of its sandbox. */
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: unknown;
  readonly node: string;
  readonly phase: string;
  /** Being deleted; its grace period. */
  readonly endsWithinS: number | undefined;
};

const hasClass = z.object({ spec: z.object({ runtimeClassName: z.literal(RUNTIME_CLASS) }) });
const whole = z.object({
  metadata: z.object({ deletionGracePeriodSeconds: z.number().optional() }),
  spec: z.unknown(),
});
const DEFAULT_GRACE_S = 30;

/** Undefined for a pod without our runtime class, and for one that a gateway of this fleet made. */
export function readForeignPod(object: unknown, seal: FleetSeal): ForeignPod | undefined {
  if (!hasClass.safeParse(object).success || readPlacePod(object, seal) !== undefined) return undefined;
  const pod = readPod(object);
  const rest = whole.safeParse(object).data;
  if (pod === undefined || rest === undefined) return undefined;
  const { namespace, name, uid, labels, annotations, deletionTimestamp } = pod.metadata;
  const { deletionGracePeriodSeconds: graceS = DEFAULT_GRACE_S } = rest.metadata;
  return {
    ...{ id: toSandboxId(uid, seal), namespace, name, uid, labels, annotations, spec: rest.spec },
    node: pod.spec.nodeName ?? '',
    phase: pod.status.phase ?? 'Pending',
    endsWithinS: deletionTimestamp === undefined ? undefined : graceS,
  };
}

/** One pod has one sandbox, whatever is lost. */
function toSandboxId(uid: string, seal: FleetSeal): string {
  const digest = createHash('sha256').update(seal.make('foreign', uid)).digest();
  return `sbx_${base32hexnopad.encode(digest.subarray(0, ID_BYTES)).toLowerCase()}`;
}

/** Without it gateways, which watch pods with it, do not know the sandbox. */
export function hasPlaceLabel({ labels }: Pick<ForeignPod, 'labels'>): boolean {
  return labels[PLACE_LABEL] !== undefined;
}

/** What a host writes into a pod that has a sandbox. */
export function toForeignAnnotations(
  { id, namespace, name, uid }: Pick<ForeignPod, 'id' | 'namespace' | 'name' | 'uid'>,
  { vcpus, memoryMib }: { readonly vcpus: number; readonly memoryMib: number },
  seal: FleetSeal,
): Record<string, string> {
  const size = `${vcpus}x${memoryMib}`;
  return { [ID]: id, [SIZE]: size, [SEAL]: seal.make('foreign', namespace, name, uid, id, size) };
}

/** A place of either kind, for gateways. Undefined for a pod that no gateway made and no host runs. */
export function readAnyPlace(object: unknown, seal: FleetSeal): PlacePod | undefined {
  return readPlacePod(object, seal) ?? readForeignPlace(object, seal);
}

function readForeignPlace(object: unknown, seal: FleetSeal): PlacePod | undefined {
  const pod = readPod(object);
  if (pod === undefined) return undefined;
  const { name, namespace, uid, annotations, deletionTimestamp } = pod.metadata;
  const { [ID]: id = '', [SIZE]: size = '', [SEAL]: proof = '' } = annotations;
  if (!isId('sbx', id) || !seal.isOf(proof, 'foreign', namespace, name, uid, id, size)) return undefined;
  const [vcpus = 0, memoryMib = 0] = size.split('x').map(Number);
  if (!(vcpus >= 1 && vcpus <= MAX_VCPUS && memoryMib >= 1 && memoryMib <= MAX_MEMORY_MIB)) return undefined;
  return {
    ...{ id, namespace, uid, vcpus, memoryMib, isCounted: true, isRestored: false },
    host: pod.spec.nodeName,
    version: pod.metadata.resourceVersion,
    phase: pod.status.phase ?? 'Pending',
    reason: pod.status.reason,
    isDeleting: deletionTimestamp !== undefined,
  };
}

/** The tenant of a namespace of this fleet; `isOurs` is false for any other one. */
export function readTenant(base: string, namespace: string): { isOurs: boolean; tenant?: string } {
  if (namespace === base) return { isOurs: true };
  const prefix = `${base}-`;
  if (!namespace.startsWith(prefix)) return { isOurs: false };
  return { isOurs: true, tenant: namespace.slice(prefix.length) };
}
