// How a pod that others made ends: by its service, or because its host ends it.
import type { ServiceStatus } from '../../guest/service.ts';
import type { RestartPolicy } from '../kubernetes/pod-wish.ts';

const STOPPED = ['stopped', 'failed'];

export type PodOutcome = {
  readonly phase: 'Succeeded' | 'Failed';
  readonly reason: string;
  readonly message: string;
  /** Of its container; absent: none ran. */
  readonly exitCode?: number;
  readonly finishedAtMs: number;
};

export function isStopped({ state }: ServiceStatus): boolean {
  return STOPPED.includes(state);
}

export function failed(reason: string, message: string): PodOutcome {
  return { phase: 'Failed', reason, message, finishedAtMs: Date.now() };
}

/** Undefined while it may run again: by its policy, or because a client stopped it. */
export function toOutcome(service: ServiceStatus, policy: RestartPolicy): PodOutcome | undefined {
  const { lastExit, isLastExitRequested, lastExitUnixMs = Date.now() } = service;
  if (policy === 'Always' || !isStopped(service)) return undefined;
  if (lastExit === undefined || isLastExitRequested === true) return undefined;
  const { exitCode, oomKilled, error = '' } = lastExit;
  const isDone = exitCode === 0;
  return {
    phase: isDone ? 'Succeeded' : 'Failed',
    reason: isDone ? '' : oomKilled ? 'OOMKilled' : 'Error',
    ...{ message: error, exitCode, finishedAtMs: lastExitUnixMs },
  };
}
