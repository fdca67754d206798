// The supervised service of one sandbox, as other modules use it.
import type { ServiceSpec } from '@sandboxd/api';
import type { Guest } from '../guest/guest.ts';
import type { OutputEvents, OutputSubscription } from '../guest/service.ts';
import type { ServiceOutputRequest, ServiceStatus } from '../guest/service-types.ts';

/**
 * Every call: AppError guest_unreachable. Commands resolve when they are done, or after 1 s with the state at that
 * time.
 */
export interface SandboxService {
  status(signal?: AbortSignal): Promise<ServiceStatus>;
  /** Stores the spec and runs it; replaces the running service. AppError invalid_argument. */
  configure(spec: ServiceSpec, signal?: AbortSignal): Promise<ServiceStatus>;
  /** AppError conflict when no service is configured; the same for restart. */
  start(signal?: AbortSignal): Promise<ServiceStatus>;
  /** `graceMs` replaces the spec's grace period. */
  stop(graceMs?: number, signal?: AbortSignal): Promise<ServiceStatus>;
  restart(signal?: AbortSignal): Promise<ServiceStatus>;
  /** Output of the service, past and future, passed to `events`. */
  output(
    request: ServiceOutputRequest,
    events: OutputEvents,
  ): Pick<OutputSubscription, 'consumed' | 'cancel'>;
}

/** `baseEnv`: the environment to which the spec's variables are added. */
export function createSandboxService(
  guest: Pick<Guest, 'service'>,
  baseEnv: Readonly<Record<string, string>>,
): SandboxService {
  return {
    status: (signal) => guest.service.control('status', undefined, signal),
    configure: (spec, signal) => guest.service.configure(spec, baseEnv, signal),
    start: (signal) => guest.service.control('start', undefined, signal),
    stop: (graceMs, signal) => guest.service.control('stop', graceMs, signal),
    restart: (signal) => guest.service.control('restart', undefined, signal),
    output: (request, events) => guest.service.output(request, events),
  };
}
