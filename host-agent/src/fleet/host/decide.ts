// What a host does about one place: a table of what the engine has (a pod), what this host was promised (a record) and
// what runs (a sandbox).
import type { PlacePod } from '../kubernetes/pods.ts';

/** A place that a create of this host used. */
export type PlaceRecord = {
  readonly namespace: string;
  readonly uid: string;
  /** Of the host's Node at that time. Pods disappear with their Node, though the sandboxes run. */
  readonly nodeUid: string;
  /** Its sandbox came from another host, and its pod has not been seen running: no client deleted it. */
  readonly isArrival?: boolean;
  /** Its pod is gone, though no client deleted it: the Node of this host asks for another. */
  readonly isUnlisted?: boolean;
};

export type Facts = {
  readonly pod: PlacePod | undefined;
  readonly record: PlaceRecord | undefined;
  /** Undefined: there is none. */
  readonly sandbox: 'running' | 'failed' | undefined;
  /** A create is using the place. */
  readonly isBusy: boolean;
  /** This host has claimed the sandbox, or may have, and has not got it whole yet. */
  readonly isArriving?: boolean;
  /** This host is drained: what is evicted leaves as the others do. */
  readonly isDraining?: boolean;
  /** It waits for another host: the name of the move. */
  readonly leaves?: string | undefined;
  /** It runs, and has sent a copy ahead: the name of the move. */
  readonly copied?: string | undefined;
  /** How long this host has known the pod. */
  readonly knownMs: number;
  readonly nodeUid: string;
  /** How long this host has known that Node. */
  readonly nodeKnownMs: number;
};

export type Action =
  | 'nothing'
  /** The place outlived its Node: it is one of the Node that there is now. */
  | 'renew-record'
  /** Look again later: a create may come. */
  | 'wait'
  /** Its sandbox waits in the snapshot store for this host. */
  | 'take-over'
  /** It runs elsewhere, and this host fetches what it has sent ahead. */
  | 'prefetch'
  /** This host may own the sandbox, whose place is gone. */
  | 'finish-arrival'
  | 'mark-running'
  /** From now on the place says whether it goes on. */
  | 'settle-record'
  | 'mark-leaving'
  | 'mark-failed'
  /** The pod was used, and this host has no sandbox of it. */
  | 'mark-lost'
  | 'remove-pod'
  | 'end-sandbox'
  /** Its pod does not count any more for what the sandbox has. */
  | 'end-shrunk'
  | 'drop-record'
  /** The sandbox goes on without a place, until the fleet has made one again. */
  | 'unlist'
  /** The fleet has made one again. */
  | 'adopt-place';

/** A gateway that died before its create leaves a place that nothing uses. */
export const UNUSED_MS = 60_000;
/** A pod that is there for this long after its Node was made again is not removed with the former one any more. */
export const OUTLIVED_MS = 60_000;

export function decide(facts: Facts): Action {
  const { pod, record, sandbox, isBusy, leaves, knownMs, nodeUid, nodeKnownMs } = facts;
  if (isBusy) return 'wait';
  if (facts.isArriving === true && sandbox === undefined)
    return pod !== undefined && !pod.isDeleting && (record === undefined || pod.uid === record.uid)
      ? 'take-over'
      : 'finish-arrival';
  if (record?.isUnlisted === true) return decideUnlisted(pod, sandbox);
  const isNodes = record?.nodeUid === nodeUid && record.isArrival !== true;
  if (record !== undefined && (pod === undefined || pod.uid !== record.uid)) {
    if (sandbox === undefined) return 'drop-record';
    return isNodes ? 'end-sandbox' : 'unlist';
  }
  if (pod === undefined) return 'nothing';
  if (record === undefined) return decideUnused(pod, knownMs);
  if (sandbox === undefined) return 'remove-pod';
  const isKept = !isNodes || (pod.isEvicted === true && facts.isDraining === true);
  if (pod.isDeleting) return isKept ? 'unlist' : 'end-sandbox';
  if (pod.isShrunk === true) return 'end-shrunk';
  if (pod.leaves !== leaves || pod.copied !== facts.copied) return 'mark-leaving';
  if (sandbox === 'failed' && pod.phase !== 'Failed') return 'mark-failed';
  if (sandbox === 'running' && pod.phase !== 'Running') return 'mark-running';
  if (record.isArrival === true && pod.phase === 'Running') return 'settle-record';
  if (record.nodeUid === nodeUid) return 'nothing';
  return nodeKnownMs < OUTLIVED_MS ? 'wait' : 'renew-record';
}

function decideUnlisted(pod: PlacePod | undefined, sandbox: Facts['sandbox']): Action {
  if (sandbox === undefined) return 'drop-record';
  if (pod === undefined || pod.phase === 'Failed') return 'nothing';
  return pod.isDeleting ? 'remove-pod' : 'adopt-place';
}

function decideUnused({ isDeleting, phase, move, isAhead }: PlacePod, knownMs: number): Action {
  if (isDeleting) return 'remove-pod';
  if (isAhead === true && phase === 'Pending') return 'prefetch';
  if (move !== undefined && phase === 'Pending') return 'take-over';
  if (phase === 'Running') return 'mark-lost';
  if (phase !== 'Pending') return 'nothing';
  return knownMs < UNUSED_MS ? 'wait' : 'remove-pod';
}
