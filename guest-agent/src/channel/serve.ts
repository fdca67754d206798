// Serves the agent on the channels that exist: the virtio-serial port with its name, and vsock.
import { constants, existsSync } from 'node:fs';
import { AGENT_PORT_NAME, AGENT_VSOCK_PORT, type GuestConnection } from '@sandboxd/proto';
import { logError } from '../lib/log.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller } from '../native/poller.ts';
import { FdLink } from './fd-link.ts';
import { findSerialPort } from './ports.ts';

/** The driver announces a port some milliseconds after its device. After this many tries, polling slows down. */
const EAGER_TRIES = 400;
const EAGER_MS = 5;
const PATIENT_MS = 250;
/** VMADDR_CID_HOST. Programs inside the guest connect from another context id. */
const HOST_CID = 2;

type ServeContext = {
  readonly poller: Poller;
  readonly connection: GuestConnection;
  readonly isEmulated: boolean;
};

/** Serves each channel as soon as it appears. `onReady` is called for the first one. */
export function serveChannels(context: ServeContext, onReady: () => void): void {
  let isReady = false;
  const serve = (attempt: () => boolean): boolean => {
    const isServed = attempt();
    if (isServed && !isReady) onReady();
    isReady ||= isServed;
    return isServed;
  };
  // A guest may have the vsock driver while the host uses the port. Where a guest has vsock, its driver was loaded
  // before the agent started. Polling therefore stops once a port serves; otherwise every copy of the guest would keep
  // polling.
  persist(() => isReady || serve(() => serveVsock(context)), EAGER_TRIES);
  const findPort = (): void =>
    persist(
      () =>
        serve(() =>
          servePort(context, (cause) => {
            // The device was removed or failed: search again.
            logError('channel', cause ?? 'closed');
            setTimeout(findPort, PATIENT_MS);
          }),
        ),
      Number.POSITIVE_INFINITY,
    );
  findPort();
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

function servePort(context: ServeContext, onClose: (cause?: Error) => void): boolean {
  const device = findSerialPort(AGENT_PORT_NAME);
  if (device === undefined) return false;
  const fd = addon.open(device, constants.O_RDWR | constants.O_NONBLOCK);
  const link = new FdLink(fd, { ...context, onHostLeft: () => attached.hostLeft() });
  const attached = context.connection.attach(link, onClose);
  return true;
}

export type VsockOptions = {
  readonly port: number;
  /** Context id of accepted peers; other connections are refused. */
  readonly peerCid: number;
};

/** Listens for hosts; each connection is one link. Returns false while vsock does not exist. */
export function serveVsock(
  context: ServeContext,
  { port, peerCid }: VsockOptions = { port: AGENT_VSOCK_PORT, peerCid: HOST_CID },
): boolean {
  // The driver is loaded only where the device exists. Opening a socket without it would make the kernel search for a
  // module.
  if (!existsSync('/dev/vsock')) return false;
  const listener = addon.listenVsock(port);
  context.poller.watch(listener, POLL.in, () => {
    const accept = (): number => addon.acceptVsock(listener, peerCid);
    for (let fd = accept(); fd !== NOT_NOW; fd = accept()) context.connection.attach(new FdLink(fd, context));
  });
  return true;
}
