// The supervised service of one sandbox, as rooms above see it.
import type { ServiceSpec } from '@sandboxd/api';
import type { Guest } from '../guest/guest.ts';
import type { OutputEvents, OutputSubscription } from '../guest/service.ts';
import type { ServiceOutputRequest, ServiceStatus } from '../guest/service-types.ts';

/** Every call: AppError guest_unreachable. Commands answer when they are done, or after 1 s with the state then. */
export interface SandboxService {
  status(signal?: AbortSignal): Promise<ServiceStatus>;
  /** Stores the spec and runs it, in place of what runs. AppError invalid_argument. */
  configure(spec: ServiceSpec, signal?: AbortSignal): Promise<ServiceStatus>;
  /** AppError conflict when nothing is configured; so does restart. */
  start(signal?: AbortSignal): Promise<ServiceStatus>;
  /** `graceMs` in place of the spec's. */
  stop(graceMs?: number, signal?: AbortSignal): Promise<ServiceStatus>;
  restart(signal?: AbortSignal): Promise<ServiceStatus>;
  /** What it wrote and writes, by `events`. */
  output(
    request: ServiceOutputRequest,
    events: OutputEvents,
  ): Pick<OutputSubscription, 'consumed' | 'cancel'>;
}

/** `baseEnv` is what a spec's environment is added to. */
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
