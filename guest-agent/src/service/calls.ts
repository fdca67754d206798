// Handlers of the service requests.
import {
  AgentError,
  type ResultInput,
  SERVICE_VERB,
  type ServiceConfigure,
  type ServiceControl,
  type ServiceOutput,
  type ServiceSpec,
  type ServiceStatusInput,
  type Stream,
} from '@sandboxd/proto';
import { readMemory } from '../machine/stats.ts';
import { OutputReader } from './reader.ts';
import type { OutputRing } from './ring.ts';
import type { Supervisor } from './supervisor.ts';

/** A command's response waits at most this long for a settled state. */
const SETTLE_LIMIT_MS = 1000;

export function configureService(service: Supervisor, stream: Stream, { spec }: ServiceConfigure): void {
  if (!spec) throw new AgentError('invalid', 'the spec is missing');
  service.configure(spec as ServiceSpec);
  answerWhenSettled(service, stream);
}

export function controlService(service: Supervisor, stream: Stream, { verb, graceMs }: ServiceControl): void {
  if (verb === SERVICE_VERB.START) service.start();
  else if (verb === SERVICE_VERB.STOP) service.stop(graceMs ?? undefined);
  else if (verb === SERVICE_VERB.RESTART) service.restart();
  else {
    stream.finish({ serviceStatus: toStatus(service) });
    return;
  }
  answerWhenSettled(service, stream);
}

export function streamOutput(service: Supervisor, stream: Stream, request: ServiceOutput): void {
  if (!request.wait && service.state === 'idle') {
    throw new AgentError('conflict', 'no service is configured; configure one first');
  }
  const known = request.ring === '' ? service.ring : service.findRing(request.ring);
  const ring = known ?? service.ring;
  const fromSeq = known === undefined ? 0 : request.fromSeq;
  new OutputReader({
    stream,
    ring,
    place: ring.find(fromSeq),
    missed: ring.missedSince(fromSeq),
    isFollowing: request.follow,
    maxBytes: request.maxBytes,
    toResult: toOutputResult,
  });
}

export function toOutputResult({ id, counts }: OutputRing, nextSeq: number): ResultInput {
  return { serviceOutput: { ring: { id, ...counts }, nextSeq } };
}

function answerWhenSettled(service: Supervisor, stream: Stream): void {
  const answer = (): void => {
    clearTimeout(timer);
    stream.finish({ serviceStatus: toStatus(service) });
  };
  const timer = setTimeout(() => {
    forget();
    answer();
  }, SETTLE_LIMIT_MS);
  const forget = service.whenSettled(answer);
}

export function toStatus(service: Supervisor): ServiceStatusInput {
  const { state, spec, live, lastExit, restarts, ring } = service;
  return {
    state: state === 'restarting' ? 'stopping' : state,
    ...(spec && { spec, ring: toRing(ring), restarts }),
    ...(live && {
      pid: live.run.pid,
      startedUnixMs: live.startedUnixMs,
      uptimeMs: Math.round(live.uptimeMs),
      ...readMemory(live.run.pids()),
    }),
    ...(lastExit && {
      lastExit: lastExit.result,
      lastExitUnixMs: lastExit.unixMs,
      lastExitRequested: lastExit.isRequested,
    }),
  };
}

function toRing({ id, counts }: OutputRing) {
  return { id, ...counts };
}
