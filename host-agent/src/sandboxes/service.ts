// The supervised service of a sandbox: how a create resolves it, and how other modules control it.
import type { CreatedService, ServiceSpec } from '@sandboxd/api';
import type { Guest } from '../guest/guest.ts';
import type {
  OutputEvents,
  OutputSubscription,
  ServiceOutputRequest,
  ServiceStatus,
} from '../guest/service.ts';
import type { ConcurrencyLimit } from '../lib/concurrency-limit.ts';
import { AppError } from '../lib/errors.ts';

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
  readers: ConcurrencyLimit,
): SandboxService {
  return {
    status: (signal) => guest.service.control('status', undefined, signal),
    configure: (spec, signal) => guest.service.configure(spec, spec.env_exact ? {} : baseEnv, signal),
    start: (signal) => guest.service.control('start', undefined, signal),
    stop: (graceMs, signal) => guest.service.control('stop', graceMs, signal),
    restart: (signal) => guest.service.control('restart', undefined, signal),
    output: (request, events) => {
      const reader = readers.acquire(undefined);
      const leave = (): void => reader[Symbol.dispose]();
      try {
        const output = guest.service.output(request, {
          ...events,
          end: (end) => {
            leave();
            events.end(end);
          },
          failed: (error) => {
            leave();
            events.failed(error);
          },
        });
        return {
          consumed: (bytes) => output.consumed(bytes),
          cancel: () => {
            leave();
            output.cancel();
          },
        };
      } catch (error) {
        leave();
        throw error;
      }
    },
  };
}

/** The stop signal of a request that does not set one. */
const DEFAULT_SIGNAL = 'SIGTERM';

/**
 * Undefined when neither has a command. `overridden` are variables that the environment of the sandbox sets: they
 * replace those of the image. AppError invalid_argument for a service without a command.
 */
export function resolveService(
  request: CreatedService | undefined,
  image: ServiceSpec | undefined,
  overridden: readonly string[] = [],
): ServiceSpec | undefined {
  if (image === undefined) return request?.cmd && { ...request, cmd: request.cmd };
  const env = Object.fromEntries(Object.entries(image.env).filter(([name]) => !overridden.includes(name)));
  if (request === undefined) return image.cmd.length > 0 ? { ...image, env } : undefined;
  const cmd = request.cmd ?? image.cmd;
  if (cmd.length === 0) {
    const message = 'service.cmd is missing, and the image names no command either; send service.cmd';
    throw new AppError('invalid_argument', message);
  }
  const { user = image.user, cwd = image.cwd, stop_signal } = request;
  return {
    ...request,
    cmd,
    env: { ...env, ...request.env },
    env_exact: true,
    stop_signal: stop_signal === DEFAULT_SIGNAL ? image.stop_signal : stop_signal,
    ...(user !== undefined && { user }),
    ...(cwd !== undefined && { cwd }),
  };
}
