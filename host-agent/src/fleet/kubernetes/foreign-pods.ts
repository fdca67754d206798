// Pods that no gateway made and that want to run here: they have our runtime class. Their sandbox has an id of the
// fleet's, which its host writes, with a seal, into the pod; so gateways find it.
import { createHash } from 'node:crypto';
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import { base32hexnopad } from '@scure/base';
import { z } from 'zod';
import { isId } from '../../lib/ids.ts';
import { type Pod, readPod } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import { type Asked, readContainer, readFieldPath, readWish, type Wish } from './pod-wish.ts';
import { PLACE_LABEL, type PlacePod, RUNTIME_CLASS, readPlacePod, SEAL, SIZE } from './pods.ts';

const ID = 'sandboxd.dev/id';
/** Value of their label. */
export const FOREIGN = 'pod';
const ID_BYTES = 8;

/** Of its spec and labels as JSON: an object of the API server may be many times larger. */
const MAX_ASKED_CHARS = 128 * 1024;
const MAX_STATUS_CHARS = 8 * 1024;
/** Longer ones are not ours. */
const MAX_WRITTEN_CHARS = 256;
const OWN_PREFIX = 'sandboxd.dev/';

export type ForeignPod = {
  /** Of its sandbox. */
  readonly id: string;
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
  /** None of a pod that is too large. */
  readonly labels: Readonly<Record<string, string>>;
  /** Ours, and those that its environment names. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly container: Pick<Wish, 'container' | 'image'>;
  readonly asked: Asked;
  readonly node: string;
  readonly phase: string;
  /** As the API server has it; undefined when it is too large. */
  readonly status: unknown;
  /** Being deleted; its grace period. */
  readonly endsWithinS: number | undefined;
};

/** What is kept of each: authors can bind many to a host, each with much text. Creates read theirs again. */
export type KnownPod = Pick<ForeignPod, 'id' | 'namespace' | 'name' | 'uid' | 'container'> &
  Pick<ForeignPod, 'phase' | 'status' | 'endsWithinS'> & {
    /** Of all that its author chooses. */
    readonly digest: string;
    readonly isLabelled: boolean;
    /** Those that a host has written. */
    readonly annotations: Readonly<Record<string, string>>;
    readonly asked: { readonly wish: KnownWish } | { readonly refusal: string };
  };

export type KnownWish = Pick<Wish, 'vcpus' | 'memoryMib' | 'restartPolicy' | 'readiness'>;

const whole = z.object({
  metadata: z.object({ deletionGracePeriodSeconds: z.number().optional() }),
  spec: z.unknown(),
  status: z.unknown().optional(),
});
const DEFAULT_GRACE_S = 30;

/** Undefined for a pod without our runtime class, which no pod of a gateway has. */
export function readForeignPod(object: unknown, seal: FleetSeal): ForeignPod | undefined {
  const found = open(object);
  if (found === undefined) return undefined;
  const { pod, rest } = found;
  return { ...readState(found, seal), ...readAsked(pod, rest.spec), node: pod.spec.nodeName ?? '' };
}

/**
 * As `readForeignPod`. `known`: what this pod was before. `base`: the namespace of the fleet; of pods in others nothing
 * is read.
 */
export function readKnownPod(
  object: unknown,
  seal: FleetSeal,
  base: string,
  known?: KnownPod,
): KnownPod | undefined {
  const found = open(object);
  if (found === undefined) return undefined;
  const { pod, rest } = found;
  const { uid, namespace, labels, annotations } = pod.metadata;
  const state = readState(found, seal);
  if (!readTenant(base, namespace).isOurs)
    return {
      ...{ ...state, status: undefined, digest: '', isLabelled: false, annotations: {} },
      ...{ asked: { refusal: '' }, container: readContainer({ spec: rest.spec }) },
    };
  const digest = createHash('sha256')
    .update(JSON.stringify([rest.spec, labels]))
    .update(JSON.stringify(annotations))
    .digest('base64');
  if (known?.uid === uid && known.digest === digest) return { ...known, ...state };
  const { asked, container } = readAsked(pod, rest.spec);
  const written = [ID, SIZE, SEAL].flatMap((key) => {
    const value = annotations[key];
    return value !== undefined && value.length <= MAX_WRITTEN_CHARS ? [[key, value] as const] : [];
  });
  return {
    ...{ ...state, container, digest, isLabelled: hasPlaceLabel({ labels }) },
    annotations: Object.fromEntries(written),
    asked: 'wish' in asked ? { wish: toKnownWish(asked.wish) } : asked,
  };
}

function toKnownWish({ vcpus, memoryMib, restartPolicy, readiness }: Wish): KnownWish {
  return { vcpus, memoryMib, restartPolicy, readiness };
}

type Opened = { readonly pod: Pod; readonly rest: z.output<typeof whole> };

function open(object: unknown): Opened | undefined {
  const pod = readPod(object);
  const rest = whole.safeParse(object).data;
  if (pod === undefined || rest === undefined || pod.spec.runtimeClassName !== RUNTIME_CLASS)
    return undefined;
  return { pod, rest };
}

function readState({ pod, rest }: Opened, seal: FleetSeal) {
  const { namespace, name, uid, deletionTimestamp } = pod.metadata;
  const { deletionGracePeriodSeconds: graceS = DEFAULT_GRACE_S } = rest.metadata;
  return {
    ...{ id: toSandboxId(uid, seal), namespace, name, uid },
    phase: pod.status.phase ?? 'Pending',
    status: JSON.stringify(rest.status ?? null).length <= MAX_STATUS_CHARS ? rest.status : undefined,
    endsWithinS: deletionTimestamp === undefined ? undefined : graceS,
  };
}

function readAsked(
  { metadata: { name, labels, annotations } }: Pod,
  spec: unknown,
): Pick<ForeignPod, 'labels' | 'annotations' | 'container' | 'asked'> {
  const isLarge = JSON.stringify([spec, labels]).length > MAX_ASKED_CHARS;
  const asked = isLarge
    ? { refusal: `spec and labels have more than ${MAX_ASKED_CHARS} characters` }
    : readWish({ name, labels, annotations, spec });
  const variables = 'wish' in asked ? asked.wish.variables : [];
  const named = new Set(
    variables.map(({ valueFrom }) => readFieldPath(valueFrom?.fieldRef?.fieldPath ?? '')?.key),
  );
  const kept = Object.entries(annotations).filter(([key]) => key.startsWith(OWN_PREFIX) || named.has(key));
  return {
    ...{ asked, container: readContainer({ spec }), annotations: Object.fromEntries(kept) },
    labels: isLarge ? {} : labels,
  };
}

/** One pod has one sandbox, whatever is lost. */
function toSandboxId(uid: string, seal: FleetSeal): string {
  const digest = createHash('sha256').update(seal.make('foreign', uid)).digest();
  return `sbx_${base32hexnopad.encode(digest.subarray(0, ID_BYTES)).toLowerCase()}`;
}

/**
 * Gateways watch pods with that label, so that without it they do not know the sandbox. Pods of gateways have another
 * value, by which a disruption budget refuses their eviction until they have moved.
 */
export function hasPlaceLabel({ labels }: Pick<ForeignPod, 'labels'>): boolean {
  return Object.hasOwn(labels, PLACE_LABEL) && labels[PLACE_LABEL] === FOREIGN;
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
