// Converts an image's entrypoint and cmd, with its environment, user, directory and stop signal, into a service.

import { DEFAULT_LOG_BUFFER_BYTES, DEFAULT_STOP_GRACE_S, type ServiceSpec, SIGNALS } from '@sandboxd/api';
import type { ImageConfig } from './fetch/config.ts';

const DEFAULT_SIGNAL = 'SIGTERM';
/** Signals 1 to 31. */
const ORDINARY = SIGNALS.slice(0, SIGNALS.indexOf('SIGRTMIN'));
/** Signals 34 and above. */
const REAL_TIME = SIGNALS.slice(ORDINARY.length);
const SIGRTMIN = 34;
const OTHER_NAMES: Readonly<Record<string, string>> = {
  SIGIOT: 'SIGABRT',
  SIGCLD: 'SIGCHLD',
  SIGPOLL: 'SIGIO',
  SIGUNUSED: 'SIGSYS',
};

/** `cmd` is empty for an image without entrypoint and cmd. */
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

/** As in Docker and podman, an entrypoint with one empty string is not an entrypoint. */
function toCommand({ entrypoint, cmd }: ImageConfig): string[] {
  const isNone = entrypoint.length === 1 && entrypoint[0] === '';
  const all = isNone ? [...cmd] : [...entrypoint, ...cmd];
  return all[0] === '' ? [] : all;
}

/** A missing user is root; a missing group is the user's group. */
function toUser(text: string): string {
  const [user, group] = text.split(':');
  return `${user || '0'}${group ? `:${group}` : ''}`;
}

/**
 * Parses a signal name in any case, with or without SIG, or a number. Undefined for a signal that Linux does not have.
 */
export function toSignal(text: string): ServiceSpec['stop_signal'] | undefined {
  const upper = text.toUpperCase();
  const name = upper.startsWith('SIG') ? upper : `SIG${upper}`;
  const fromLast = /^SIGRTMAX(?:-(\d+))?$/.exec(name);
  if (fromLast !== null) return REAL_TIME[REAL_TIME.length - 1 - Number(fromLast[1] ?? 0)];
  const number = /^\d+$/.test(text) ? Number(text) : 0;
  if (number > 0) return ORDINARY[number - 1] ?? REAL_TIME[number - SIGRTMIN];
  return SIGNALS.find((each) => each === (OTHER_NAMES[name] ?? name));
}
