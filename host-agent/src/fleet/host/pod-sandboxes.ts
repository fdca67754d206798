// What pods that others made need of this host: sandboxes with the rights of a key, and a table of the registry.
import type { ServiceStatus } from '../../guest/service.ts';
import type { Readiness } from '../kubernetes/pod-wish.ts';
import type { LocalSandboxes } from './local-sandboxes.ts';
import type { PodOutcome } from './pod-outcome.ts';

/** Of a pod that has, had or is about to have a sandbox here; by the id of that. */
export type PodRecord = {
  readonly uid: string;
  readonly vcpus: number;
  readonly memoryMib: number;
  /** Of the pod; absent: no range of pods is routed here. */
  readonly address?: string;
  /** Absent: its sandbox was not there yet. */
  readonly startedAtMs?: number;
  /** Its sandbox ends, and the status of the pod says how. */
  readonly outcome?: PodOutcome;
};

export type PodRecords = {
  get(id: string): PodRecord | undefined;
  all(): { readonly id: string; readonly record: PodRecord }[];
  put(id: string, record: PodRecord): Promise<void>;
  remove(id: string): Promise<unknown>;
};

/** `body`: of POST /sandboxes. */
export type PodCreate = {
  readonly id: string;
  readonly tenant: string | undefined;
  readonly body: Readonly<Record<string, unknown>>;
};

export interface PodSandboxes extends Pick<LocalSandboxes, 'stateOf' | 'delete' | 'subscribe'> {
  /** AppError forbidden: this tenant has no key for pods here whose operations include `create`. */
  assertAllowed(tenant: string | undefined): void;
  /** With the rights of the tenant's key for pods. AppError. */
  create(create: PodCreate, signal: AbortSignal): Promise<void>;
  /** Of one that runs; undefined: it has no service. AppError. */
  service(id: string, signal: AbortSignal): Promise<ServiceStatus | undefined>;
  stopService(id: string, graceMs: number, signal: AbortSignal): Promise<void>;
  isReady(id: string, readiness: Readiness, signal: AbortSignal): Promise<boolean>;
}
