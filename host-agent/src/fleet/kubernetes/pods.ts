// A place as a pod: never run by a container runtime, bound by the scheduler, ended by the host that it is bound to.
import { MAX_MEMORY_MIB, MAX_VCPUS } from '@sandboxd/api';
import { AppError } from '../../lib/errors.ts';
import type { Host, Place, PlaceRequest } from '../catalogue.ts';
import { type Node, type Pod, readCreatedAtMs, readNode, readPod, readQuantity } from '../kube/objects.ts';
import type { FleetSeal } from '../seal.ts';
import { readDoors } from './doors.ts';
import { toPreference } from './holdings.ts';
import { readUnplaced } from './unplaced.ts';

/** Label of nodes and pods, key of the taint. */
export const HOST_LABEL = 'sandboxd.dev/host';
/** Label of nodes that run pods of others: the RuntimeClass selects them. */
export const POD_HOST_LABEL = 'sandboxd.dev/pods';
export const PLACE_LABEL = 'sandboxd.dev/place';
/** Name of the RuntimeClass of pods that others made. */
export const RUNTIME_CLASS = 'sandboxd';
/** Only the host takes it away, so that a pod is there while its sandbox is. */
export const FINALIZER = 'sandboxd.dev/host';
export const SEAL = 'sandboxd.dev/seal';
/** Its sandbox comes from the snapshot store alone: no other place of it has to be there. */
const RESTORED = 'sandboxd.dev/restored';
/** Its sandbox runs at another host: this one fetches what it has sent. Hosts that do not know it see no place. */
const AHEAD = 'sandboxd.dev/ahead';
/** On the place that it leaves: how far the other host is. A hint, so that it has no seal. */
export const ARRIVAL = 'sandboxd.dev/arrival';
export const SIZE = 'sandboxd.dev/size';
const URL_ANNOTATION = 'sandboxd.dev/url';

/** Requests of a vCPU, in thousandths of a CPU. Hosts have no limit of vCPUs in total; ten share a CPU. */
export const CPU_MILLIS = 100;
/** Of a VMM, besides the memory of its guest; as hosts reserve it. */
export const OVERHEAD_MIB = 96;
/** Never 0: the API server would remove the pod before its host ended the sandbox. */
const GRACE_S = 30;
const CONTAINER = 'sandbox';
const MAX_LABEL_CHARS = 63;

/** Condition of a pod whose sandbox waits in the snapshot store for another host; reason: `D` and its move. */
export const LEAVING = 'sandboxd.dev/Leaving';
/** Condition of a pod whose sandbox runs, and has sent a copy ahead; its reason is that of LEAVING. */
export const COPIED = 'sandboxd.dev/Copied';
/** Condition of a pod that is placed ahead: how far its host is. */
export const FETCHED = 'sandboxd.dev/Fetched';
/** Condition of such a pod: its host takes changes of what it has fetched. Those of earlier versions do not say so. */
export const TAKES_CHANGES = 'sandboxd.dev/TakesChanges';
/** Third word of ARRIVAL. */
const CHANGES = 'changes';
const MOVE_CHARS = 8;
/** Annotation: besides the request for which the place was made, another uses it. */
export const JOINED = 'sandboxd.dev/joined';

/** `sbx_4l76gs19v8lc6` → `sbx-4l76gs19v8lc6`; where it arrives, the move follows: `sbx-4l76gs19v8lc6-1f6b02c9`. */
export function toPodName({ id, move }: Pick<Place, 'id' | 'move'>): string {
  return [id.replace('_', '-'), ...(move === undefined ? [] : [move])].join('-');
}

/** What a departure is called in the names of pods. */
export function toMove(departure: string): string {
  return departure.slice(0, MOVE_CHARS);
}

/** Undefined for what is not a name of a place. */
export function readPodName(name: string): Pick<Place, 'id' | 'move'> | undefined {
  const [, suffix = '', move] = /^sbx-([0-9a-v]{13})(?:-([0-9a-f]{8}))?$/.exec(name) ?? [];
  return suffix === '' ? undefined : { id: `sbx_${suffix}`, ...(move !== undefined && { move }) };
}

/** The namespace of a tenant, whose name has a prefix so that no tenant is a namespace of the cluster. */
export function toNamespace(base: string, tenant: string | undefined): string {
  if (tenant === undefined) return base;
  const namespace = `${base}-${tenant}`;
  if (/^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(namespace) && namespace.length <= MAX_LABEL_CHARS)
    return namespace;
  const message = `the tenant ${tenant} cannot have a namespace: its name must be letters, digits and dashes, and short`;
  throw new AppError('forbidden', message);
}

/** What a place is for, besides a create. */
type PodKind = { readonly isRestored?: boolean; readonly isAhead?: boolean };

/** Of the patch of a pod that was placed ahead: now its sandbox is offered, and any host sees a place. */
export function toOpened(pod: PlacePod, seal: FleetSeal) {
  const name = toPodName(pod);
  const proof = seal.make('pod', pod.namespace, name, `${pod.vcpus}x${pod.memoryMib}`);
  return { metadata: { uid: pod.uid, annotations: { [AHEAD]: null, [SEAL]: proof } } };
}

export function toPod(
  {
    id,
    move,
    vcpus,
    memoryMib,
    on,
    not = [],
    prefers,
    isRestored = false,
    isAhead = false,
  }: Pick<Place, 'id' | 'move'> & Omit<PlaceRequest, 'tenant' | 'claims'> & PodKind,
  namespace: string,
  seal: FleetSeal,
) {
  const name = toPodName({ id, move });
  const size = `${vcpus}x${memoryMib}`;
  const kind = { isRestored, isAhead };
  const memory = `${memoryMib + OVERHEAD_MIB}Mi`;
  const fields = [
    ...(on === undefined ? [] : [{ key: 'metadata.name', operator: 'In', values: [on] }]),
    ...not.map((host) => ({ key: 'metadata.name', operator: 'NotIn', values: [host] })),
  ];
  const nodeAffinity = {
    ...(fields.length > 0 && {
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchFields: fields }] },
    }),
    ...(prefers !== undefined && {
      preferredDuringSchedulingIgnoredDuringExecution: toPreference(prefers, HOST_LABEL),
    }),
  };
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      namespace,
      labels: { [PLACE_LABEL]: 'true' },
      annotations: {
        ...{ [SIZE]: size, [SEAL]: seal.make('pod', namespace, name, size, ...toSealed(kind)) },
        ...(isRestored && { [RESTORED]: 'true' }),
        ...(isAhead && { [AHEAD]: 'true' }),
      },
      finalizers: [FINALIZER],
    },
    spec: {
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: GRACE_S,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      nodeSelector: { [HOST_LABEL]: 'true' },
      // A host that is not heard of may run its sandboxes: its pods stay until it is back, or removed.
      tolerations: [
        { key: HOST_LABEL, operator: 'Exists' },
        { key: 'node.kubernetes.io/not-ready', operator: 'Exists', effect: 'NoExecute' },
        { key: 'node.kubernetes.io/unreachable', operator: 'Exists', effect: 'NoExecute' },
      ],
      affinity: { nodeAffinity },
      containers: [
        {
          name: CONTAINER,
          image: 'sandboxd.dev/sandbox',
          resources: {
            requests: { cpu: `${vcpus * CPU_MILLIS}m`, memory },
            limits: { cpu: String(vcpus), memory },
          },
        },
      ],
    },
  };
}

/** Condition of a pod that is evicted. */
const DISRUPTED = 'DisruptionTarget';

/** Reason of an arrival whose host could not take its sandbox. */
export const NOT_TAKEN = 'NotTaken';

/** `over`: it is not fetched ahead any more, or cannot be. */
export type Fetched = 'fetching' | 'ready' | 'over';

/** How far the host is that fetches ahead, and whether it takes changes of what it has fetched. */
export type Arrival = { readonly move: string; readonly state: Fetched; readonly takesChanges: boolean };

export type PlacePod = Place & {
  readonly phase: string;
  /** Of the phase. */
  readonly reason?: string | undefined;
  readonly isDeleting: boolean;
  /** By the clock of the API server. */
  readonly createdAtMs?: number | undefined;
  /** The engine has it removed (`kubectl drain`), and no client. */
  readonly isEvicted?: boolean;
  /** Of the pod, so that one that was bound meanwhile is not removed. */
  readonly version?: string | undefined;
  /** No place of the host that it left has to be there. */
  readonly isRestored: boolean;
  /** Whether the scheduler and quotas count what its seal says. */
  readonly isCounted: boolean;
  /** Its requests were lowered: less counts than what its guest has. */
  readonly isShrunk?: boolean;
  /** Its sandbox waits for another host: the name of the move. */
  readonly leaves?: string | undefined;
  /** Its sandbox runs, and has sent a copy ahead: the name of the move. */
  readonly copied?: string | undefined;
  /** Of a place that is left: how far the other host is. */
  readonly arrival?: Arrival | undefined;
  /** Another request than the first uses it. */
  readonly isJoined?: boolean;
  /** It is for a sandbox that still runs at another host. */
  readonly isAhead?: boolean;
  /** How far its host is with what was sent ahead. */
  readonly fetched?: Fetched | undefined;
  readonly takesChanges?: boolean;
  /** Why the scheduler has found no host; absent: it has not, or not yet. */
  readonly unschedulable?: string | undefined;
};

/** Undefined for a pod that no gateway of this fleet made. */
export function readPlacePod(object: unknown, seal: FleetSeal): PlacePod | undefined {
  const pod = readPod(object);
  if (pod === undefined) return undefined;
  const { name, namespace, uid, annotations } = pod.metadata;
  // What gateways made has no runtime class, and it never changes: a seal may be a copy from a pod that is gone.
  if (pod.spec.runtimeClassName === RUNTIME_CLASS) return undefined;
  const named = readPodName(name);
  const { [SIZE]: size = '', [SEAL]: proof = '' } = annotations;
  const [vcpus = 0, memoryMib = 0] = size.split('x').map(Number);
  const isSealed = (kind: PodKind): boolean =>
    seal.isOf(proof, 'pod', namespace, name, size, ...toSealed(kind));
  const isRestored = annotations[RESTORED] === 'true' && isSealed({ isRestored: true });
  const isAhead = annotations[AHEAD] === 'true' && isSealed({ isAhead: true });
  if (named === undefined || !(isRestored || isAhead || isSealed({}))) return undefined;
  if (!(vcpus >= 1 && vcpus <= MAX_VCPUS && memoryMib >= 1 && memoryMib <= MAX_MEMORY_MIB)) return undefined;
  return {
    ...{ ...named, namespace, uid, vcpus, memoryMib },
    host: pod.spec.nodeName,
    version: pod.metadata.resourceVersion,
    phase: pod.status.phase ?? 'Pending',
    reason: pod.status.reason,
    isDeleting: pod.metadata.deletionTimestamp !== undefined,
    createdAtMs: readCreatedAtMs(pod),
    isEvicted: pod.status.conditions.some(({ type, status }) => type === DISRUPTED && status === 'True'),
    isRestored,
    isCounted: isCounted(pod, vcpus, memoryMib),
    ...(isShrunk(pod, vcpus, memoryMib) && { isShrunk: true }),
    leaves: findMove(pod, LEAVING),
    copied: findMove(pod, COPIED),
    arrival: readArrival(annotations[ARRIVAL]),
    isJoined: annotations[JOINED] !== undefined,
    ...(isAhead && { isAhead, fetched: findFetched(pod), takesChanges: takesChanges(pod) }),
    unschedulable: findUnschedulable(pod),
  };
}

function toSealed({ isRestored, isAhead }: PodKind): readonly string[] {
  return [...(isRestored === true ? ['restored'] : []), ...(isAhead === true ? ['ahead'] : [])];
}

/** The API server writes `1000m` as `1`, and `1024Mi` as `1Gi`. */
function isCounted(pod: Pod, vcpus: number, memoryMib: number): boolean {
  const { millis, bytes } = readRequests(pod);
  return millis === vcpus * CPU_MILLIS && bytes === (memoryMib + OVERHEAD_MIB) * 2 ** 20;
}

/** Whatever another version reserves beside the guest. */
function isShrunk(pod: Pod, vcpus: number, memoryMib: number): boolean {
  const { millis, bytes } = readRequests(pod);
  return millis * 2 < vcpus * CPU_MILLIS || bytes < memoryMib * 2 ** 20;
}

function readRequests({ spec }: Pod): { readonly millis: number; readonly bytes: number } {
  const requests = spec.containers.find(({ name }) => name === CONTAINER)?.resources.requests;
  const millis = Math.round((readQuantity(requests?.cpu ?? '') ?? 0) * 1000);
  return { millis, bytes: readQuantity(requests?.memory ?? '') ?? 0 };
}

function findMove({ status }: Pod, condition: string): string | undefined {
  const found = status.conditions.find(({ type, status }) => type === condition && status === 'True');
  return /^D([0-9a-f]{8})$/.exec(found?.reason ?? '')?.[1];
}

function findFetched({ status }: Pod): Fetched | undefined {
  return readFetched(status.conditions.find(({ type }) => type === FETCHED)?.reason?.toLowerCase());
}

function takesChanges({ status }: Pod): boolean {
  return status.conditions.some(({ type, status }) => type === TAKES_CHANGES && status === 'True');
}

function readFetched(text: string | undefined): Fetched | undefined {
  return text === 'fetching' || text === 'ready' || text === 'over' ? text : undefined;
}

/** As `readArrival` reads it, also in earlier versions. */
export function toArrival({ move, state, takesChanges }: Arrival): string {
  return [move, state, ...(takesChanges ? [CHANGES] : [])].join(' ');
}

function readArrival(text: string | undefined): Arrival | undefined {
  const [move = '', state, form] = text?.split(' ') ?? [];
  const fetched = readFetched(state);
  if (fetched === undefined || !/^[0-9a-f]{8}$/.test(move)) return undefined;
  return { move, state: fetched, takesChanges: form === CHANGES };
}

function findUnschedulable({ status }: Pod): string | undefined {
  const found = status.conditions.find(({ type }) => type === 'PodScheduled');
  return found?.reason === 'Unschedulable' ? (found.message ?? '').slice(0, 300) : undefined;
}

/** What a host says of itself in its Node. */
export function toHostAnnotations(name: string, url: URL, seal: FleetSeal): Record<string, string> {
  return { [URL_ANNOTATION]: url.href, [SEAL]: seal.make('host', name, url.href) };
}

/** Undefined for a node that is not a host of this fleet: clients’ keys go to its address. */
export function readHost(object: unknown, seal: FleetSeal): Host | undefined {
  const node = readNode(object);
  if (node === undefined) return undefined;
  const { name, annotations } = node.metadata;
  const { [URL_ANNOTATION]: address = '', [SEAL]: proof = '' } = annotations;
  if (!seal.isOf(proof, 'host', name, address) || !URL.canParse(address)) return undefined;
  const url = new URL(address);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return undefined;
  const { named: unplaced, hasMore } = readUnplaced(name, annotations, seal);
  return {
    ...{ name, url, doors: readDoors(name, annotations, seal), isReady: isReady(node), unplaced },
    ...(hasMore && { hasMoreUnplaced: true }),
    ...(node.spec.unschedulable && { isCordoned: true }),
  };
}

function isReady({ status }: Node): boolean {
  return status.conditions.some(({ type, status }) => type === 'Ready' && status === 'True');
}
