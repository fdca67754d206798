// What an image runs by itself, as a service: entrypoint and cmd with the image's environment, user, directory and stop signal.

import { DEFAULT_LOG_BUFFER_BYTES, DEFAULT_STOP_GRACE_S, type ServiceSpec, SIGNALS } from '@sandboxd/api';
import type { ImageConfig } from './fetch/config.ts';

const DEFAULT_SIGNAL = 'SIGTERM';
/** From 1 on. */
const ORDINARY = SIGNALS.slice(0, SIGNALS.indexOf('SIGRTMIN'));
/** From 34 on. */
const REAL_TIME = SIGNALS.slice(ORDINARY.length);
const SIGRTMIN = 34;
const OTHER_NAMES: Readonly<Record<string, string>> = {
  SIGIOT: 'SIGABRT',
  SIGCLD: 'SIGCHLD',
  SIGPOLL: 'SIGIO',
  SIGUNUSED: 'SIGSYS',
};

/** `cmd` is empty for an image that says nothing of what to run. */
export function toServiceSpec(config: ImageConfig): ServiceSpec {
  const { env, user, workdir, stopSignal } = config;
  return {
    cmd: toCommand(config),
    env,
    env_exact: true,
    log_buffer_bytes: DEFAULT_LOG_BUFFER_BYTES,
    restart: { policy: 'never', max_retries: 0 },
    stop_grace_s: DEFAULT_STOP_GRACE_S,
    stop_signal: toSignal(stopSignal) ?? DEFAULT_SIGNAL,
    ...(user !== '' && { user: toUser(user) }),
    ...(workdir !== '' && { cwd: workdir.startsWith('/') ? workdir : `/${workdir}` }),
  };
}

/** As Docker and podman have it, where an entrypoint of one empty text is how one is taken away. */
function toCommand({ entrypoint, cmd }: ImageConfig): string[] {
  const isNone = entrypoint.length === 1 && entrypoint[0] === '';
  const all = isNone ? [...cmd] : [...entrypoint, ...cmd];
  return all[0] === '' ? [] : all;
}

/** Either part may be missing: the user is root then, and the group the user's. */
function toUser(text: string): string {
  const [user, group] = text.split(':');
  return `${user || '0'}${group ? `:${group}` : ''}`;
}

/** By name in any case, with or without SIG, or by number. Undefined for one that Linux does not have. */
export function toSignal(text: string): ServiceSpec['stop_signal'] | undefined {
  const upper = text.toUpperCase();
  const name = upper.startsWith('SIG') ? upper : `SIG${upper}`;
  const fromLast = /^SIGRTMAX(?:-(\d+))?$/.exec(name);
  if (fromLast !== null) return REAL_TIME[REAL_TIME.length - 1 - Number(fromLast[1] ?? 0)];
  const number = /^\d+$/.test(text) ? Number(text) : 0;
  if (number > 0) return ORDINARY[number - 1] ?? REAL_TIME[number - SIGRTMIN];
  return SIGNALS.find((each) => each === (OTHER_NAMES[name] ?? name));
}
