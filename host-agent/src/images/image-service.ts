// What an image runs by itself, as a service: entrypoint and cmd with the image's environment, user, directory and stop signal.

import { constants } from 'node:os';
import { DEFAULT_LOG_BUFFER_BYTES, DEFAULT_STOP_GRACE_S, type ServiceSpec } from '@sandboxd/api';
import type { ImageConfig } from './fetch/layout.ts';

const DEFAULT_SIGNAL = 'SIGTERM';

/** `cmd` is empty for an image that says nothing of what to run. */
export function toServiceSpec(config: ImageConfig): ServiceSpec {
  const { entrypoint, cmd, env, user, workdir, stopSignal } = config;
  return {
    cmd: [...entrypoint, ...cmd],
    env,
    env_exact: true,
    log_buffer_bytes: DEFAULT_LOG_BUFFER_BYTES,
    restart: { policy: 'never', max_retries: 0 },
    stop_grace_s: DEFAULT_STOP_GRACE_S,
    stop_signal: toSignal(stopSignal),
    ...(user !== '' && { user }),
    ...(workdir !== '' && { cwd: workdir.startsWith('/') ? workdir : `/${workdir}` }),
  };
}

/** By name, with or without SIG, or by number. One that a service cannot be sent is the default. */
function toSignal(text: string): ServiceSpec['stop_signal'] {
  const upper = text.toUpperCase();
  const name = upper.startsWith('SIG') ? upper : `SIG${upper}`;
  const known = Object.entries(constants.signals).find(
    ([each, number]) => each === name || String(number) === text,
  )?.[0];
  return (known ?? DEFAULT_SIGNAL) as ServiceSpec['stop_signal'];
}
