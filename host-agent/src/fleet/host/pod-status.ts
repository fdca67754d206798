// The status of a pod that others made, as a kubelet would write it: from its record and from what its guest says.
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { ServiceStatus } from '../../guest/service.ts';
import { ignoreGone, type KubeClient } from '../kube/client.ts';
import { podPath } from '../kube/objects.ts';
import { type KnownPod, toForeignAnnotations } from '../kubernetes/foreign-pods.ts';
import type { FleetSeal } from '../seal.ts';
import type { PodOutcome } from './pod-outcome.ts';

const MAX_MESSAGE_CHARS = 1000;
const MAX_POSTED = 10_000;

export type PodState =
  /** `reason`: why it is not there yet. */
  | { readonly kind: 'waiting'; readonly reason: string; readonly message: string }
  | {
      readonly kind: 'running';
      readonly isReady: boolean;
      /** Why it is not ready. */
      readonly reason?: string;
      /** Undefined: it has none, or its guest does not answer. */
      readonly service: ServiceStatus | undefined;
    }
  | { readonly kind: 'over'; readonly outcome: PodOutcome };

export type PodReport = {
  readonly container: string;
  readonly image: string;
  readonly startedAtMs: number | undefined;
  /** Absent: it has none. */
  readonly ip?: string | undefined;
  readonly hostIp?: string | undefined;
  /** Absent: no sandbox was made. */
  readonly size?: { readonly vcpus: number; readonly memoryMib: number } | undefined;
  readonly state: PodState;
};

/** 9999-12-31: the API server takes years of four digits. Guests choose some of the times. */
const MAX_TIME_MS = 253_402_300_799_000;
const MAX_INT32 = 2 ** 31 - 1;

/** RFC 3339 in seconds, as the API server writes times. */
function toTime(atMs: number): string {
  const clampedMs = Math.min(Math.max(0, Number.isFinite(atMs) ? atMs : 0), MAX_TIME_MS);
  return new Date(clampedMs).toISOString().replace(/\.\d+/, '');
}

/** As the API server takes numbers. */
function toInt32(value: number): number {
  return Number.isFinite(value) ? Math.trunc(Math.min(Math.max(-MAX_INT32, value), MAX_INT32)) : 0;
}

export function toStatus(pod: Pick<KnownPod, 'id'>, report: PodReport) {
  const { container, image, startedAtMs, ip, hostIp, state } = report;
  const isReady = state.kind === 'running' && state.isReady;
  const phase = { waiting: () => 'Pending', running: () => 'Running', over: outcomeOf }[state.kind](state);
  const { reason = '', message = '' } = 'outcome' in state ? state.outcome : {};
  const service = state.kind === 'running' ? state.service : undefined;
  const isStarted = state.kind === 'running';
  const why = state.kind === 'running' ? (state.reason ?? '') : 'reason' in state ? state.reason : reason;
  const condition = (type: string, isTrue: boolean) => ({
    type,
    status: isTrue ? 'True' : 'False',
    reason: isTrue ? '' : why || 'NotReady',
  });
  return {
    ...{ phase, reason, message: message.slice(0, MAX_MESSAGE_CHARS) },
    conditions: [
      condition('Initialized', true),
      condition('PodReadyToStartContainers', isStarted),
      condition('ContainersReady', isReady),
      condition('Ready', isReady),
    ],
    ...(startedAtMs !== undefined && { startTime: toTime(startedAtMs) }),
    ...(ip !== undefined && { podIP: ip, podIPs: [{ ip }] }),
    ...(hostIp !== undefined && { hostIP: hostIp, hostIPs: [{ ip: hostIp }] }),
    containerStatuses: [
      {
        ...{ name: container, image, imageID: '', ready: isReady, started: isStarted },
        restartCount: toInt32(service?.restarts ?? 0),
        ...(report.size !== undefined && { containerID: `sandboxd://${pod.id}` }),
        state: toContainerState(pod, state, startedAtMs),
        ...(service?.lastExit !== undefined && {
          lastState: {
            terminated: {
              exitCode: toInt32(service.lastExit.exitCode),
              reason: service.lastExit.oomKilled ? 'OOMKilled' : 'Error',
              ...(service.lastExitUnixMs !== undefined && { finishedAt: toTime(service.lastExitUnixMs) }),
              containerID: `sandboxd://${pod.id}`,
            },
          },
        }),
      },
    ],
  };
}

function outcomeOf(state: PodState): string {
  return 'outcome' in state ? state.outcome.phase : '';
}

function toContainerState({ id }: Pick<KnownPod, 'id'>, state: PodState, startedAtMs: number | undefined) {
  if (state.kind === 'waiting')
    return {
      waiting: { reason: state.reason, message: state.message.slice(0, MAX_MESSAGE_CHARS) },
    };
  if (state.kind === 'running') {
    const { service } = state;
    if (service?.state === 'backing_off')
      return {
        waiting: { reason: 'CrashLoopBackOff', message: 'the service ended, and starts again later' },
      };
    return { running: { startedAt: toTime(service?.startedUnixMs ?? startedAtMs ?? 0) } };
  }
  const { exitCode = 128, reason, message, phase, finishedAtMs } = state.outcome;
  return {
    terminated: {
      exitCode: toInt32(exitCode),
      reason: reason || (phase === 'Succeeded' ? 'Completed' : 'Error'),
      message: message.slice(0, MAX_MESSAGE_CHARS),
      ...(startedAtMs !== undefined && { startedAt: toTime(startedAtMs), containerID: `sandboxd://${id}` }),
      finishedAt: toTime(finishedAtMs),
    },
  };
}

/** Writes statuses, each only when it is another one. */
export class PodStatuses {
  readonly #client: KubeClient;
  readonly #seal: FleetSeal;
  /** By the id of the sandbox. */
  readonly #posted = new Map<string, { readonly body: object; readonly since: Map<string, Since> }>();

  constructor(client: KubeClient, seal: FleetSeal) {
    this.#client = client;
    this.#seal = seal;
  }

  async post(pod: KnownPod, report: PodReport, signal: AbortSignal): Promise<void> {
    const { id, uid, namespace, name } = pod;
    const status = toStatus(pod, report);
    const wanted = report.size === undefined ? {} : toForeignAnnotations(pod, report.size, this.#seal);
    // An author may remove them.
    const isAnnotated = Object.entries(wanted).every(([key, value]) => pod.annotations[key] === value);
    const posted = this.#posted.get(id);
    // Before a restart of this daemon.
    const isThere =
      posted === undefined ? hasStatus(pod.status, status) : isDeepStrictEqual(posted.body, status);
    if (isAnnotated && isThere) return;
    const known = posted?.since ?? readSince(pod.status);
    const since = new Map<string, Since>();
    const now = toTime(Date.now());
    const conditions = status.conditions.map((condition) => {
      const before = known.get(condition.type);
      const at = before?.status === condition.status ? before.at : now;
      since.set(condition.type, { status: condition.status, at });
      return { ...condition, lastTransitionTime: at };
    });
    const body = {
      // The uid is a precondition: it is not a later pod of that name.
      metadata: { uid, ...(!isAnnotated && { annotations: wanted }) },
      status: { ...status, conditions },
    };
    const path = `${podPath(namespace, name)}/status`;
    await this.#client.request({ method: 'PATCH', path, patch: 'strategic', body, signal }).catch(ignoreGone);
    if (this.#posted.size >= MAX_POSTED) this.#posted.clear();
    this.#posted.set(id, { body: status, since });
  }

  /** It has ended here: the API server removes it. */
  async remove({ id, uid, namespace, name }: KnownPod, signal: AbortSignal): Promise<void> {
    const body = { gracePeriodSeconds: 0, preconditions: { uid } };
    await this.#client
      .request({ method: 'DELETE', path: podPath(namespace, name), body, signal })
      .catch(ignoreGone);
    this.#posted.delete(id);
  }

  forget(id: string): void {
    this.#posted.delete(id);
  }
}

type Since = { readonly status: string; readonly at: string };

const conditions = z.object({
  conditions: z.array(z.object({ type: z.string(), status: z.string(), lastTransitionTime: z.string() })),
});

/** Of a status that the API server has. */
function readSince(status: unknown): Map<string, Since> {
  const found = conditions.safeParse(status).data?.conditions ?? [];
  return new Map(found.map(({ type, status, lastTransitionTime: at }) => [type, { status, at }]));
}

/** Whether what the API server has is that, except for conditions of others and the times of ours. */
function hasStatus(found: unknown, wanted: ReturnType<typeof toStatus>): boolean {
  const { conditions: kept, ...rest } = (toPlain(found) ?? {}) as Record<string, unknown>;
  const all = Array.isArray(kept) ? kept.map((each) => ({ ...each, lastTransitionTime: undefined })) : [];
  const { conditions: asked, ...others } = wanted;
  const isThere = asked.every((each) =>
    all.some((other) => isDeepStrictEqual(toPlain(other), toPlain(each))),
  );
  return (
    isThere && Object.entries(others).every(([key, value]) => isDeepStrictEqual(rest[key], toPlain(value)))
  );
}

/** Without what is empty, which the API server leaves out or adds. */
function toPlain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toPlain);
  if (typeof value !== 'object' || value === null) return value === '' || value === null ? undefined : value;
  const fields = Object.entries(value).map(([key, each]) => [key, toPlain(each)] as const);
  const kept = fields.filter(([, each]) => each !== undefined && !isEmpty(each));
  return Object.fromEntries(kept);
}

function isEmpty(value: unknown): boolean {
  return typeof value === 'object' && value !== null && Object.keys(value).length === 0;
}
