// The service of a sandbox created from an image: the image's service, overridden by the request.
import type { CreatedService, ServiceSpec } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';

/** The stop signal of a request that does not set one. */
const DEFAULT_SIGNAL = 'SIGTERM';

/** Undefined when neither has a command. AppError invalid_argument for a service without a command. */
export function resolveService(
  request: CreatedService | undefined,
  image: ServiceSpec | undefined,
): ServiceSpec | undefined {
  if (image === undefined) return request?.cmd && { ...request, cmd: request.cmd };
  if (request === undefined) return image.cmd.length > 0 ? image : undefined;
  const cmd = request.cmd ?? image.cmd;
  if (cmd.length === 0) {
    const message = 'service.cmd is missing, and the image names no command either; send service.cmd';
    throw new AppError('invalid_argument', message);
  }
  const { user = image.user, cwd = image.cwd, stop_signal } = request;
  return {
    ...request,
    cmd,
    env: { ...image.env, ...request.env },
    env_exact: true,
    stop_signal: stop_signal === DEFAULT_SIGNAL ? image.stop_signal : stop_signal,
    ...(user !== undefined && { user }),
    ...(cwd !== undefined && { cwd }),
  };
}
