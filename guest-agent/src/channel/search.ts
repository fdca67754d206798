// Looks for the channels of this guest until it is clear which of them its host uses.
import { logError } from '../lib/log.ts';

/** The driver announces a port some milliseconds after its device. After this many tries, polling slows down. */
const EAGER_TRIES = 400;
const EAGER_MS = 5;
const PATIENT_MS = 250;

/** Each serves a channel if it exists, and returns whether it does. */
export type Channels = {
  /** Calls `onHost` when a host connects. */
  readonly serveVsock: (onHost: () => void) => boolean;
  /** Calls `onLost` when the device was removed or failed. */
  readonly servePort: (onLost: () => void) => boolean;
};

/** Serves each channel as soon as it appears. `onReady` is called for the first one. */
export function searchChannels({ serveVsock, servePort }: Channels, onReady: () => void): void {
  let isReady = false;
  let hasVsockHost = false;
  const serve = (attempt: () => boolean): boolean => {
    const isServed = attempt();
    if (isServed && !isReady) onReady();
    isReady ||= isServed;
    return isServed;
  };
  const onHost = (): void => {
    hasVsockHost = true;
  };
  // A guest may have the vsock driver while the host uses the port. Where a guest has vsock, its driver was loaded
  // before the agent started. Polling therefore stops once a port serves, or a host has connected by vsock; otherwise
  // every copy of the guest would keep polling.
  persist(() => isReady || serve(() => serveVsock(onHost)), EAGER_TRIES);
  const findPort = (isWanted: () => boolean): void =>
    persist(
      () => !isWanted() || serve(() => servePort(() => setTimeout(findPort, PATIENT_MS, () => true))),
      Number.POSITIVE_INFINITY,
    );
  findPort(() => !hasVsockHost);
}

/** Calls `attempt` until it returns true, at first at short intervals. Stops after `maxTries` false results. */
function persist(attempt: () => boolean, maxTries: number): void {
  let tries = 0;
  const next = (): void => {
    tries += 1;
    try {
      if (attempt() || tries >= maxTries) return;
    } catch (error) {
      if (tries % EAGER_TRIES === 1) logError('channel', error);
    }
    setTimeout(next, tries < EAGER_TRIES ? EAGER_MS : PATIENT_MS);
  };
  next();
}
