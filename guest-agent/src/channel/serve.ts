// Puts the agent on the channels that exist: the virtio-serial port of its name, and vsock.
import { constants, existsSync } from 'node:fs';
import { AGENT_PORT_NAME, AGENT_VSOCK_PORT, type GuestConnection } from '@sandboxd/proto';
import { logError } from '../lib/log.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller } from '../native/poller.ts';
import { FdLink } from './fd-link.ts';
import { findSerialPort } from './ports.ts';

/** The driver announces a port some milliseconds after its device; later than this it is not urgent any more. */
const EAGER_TRIES = 400;
const EAGER_MS = 5;
const PATIENT_MS = 250;

/** Serves on every channel as soon as it appears; `onReady` is called with the first. */
export function serveChannels(poller: Poller, connection: GuestConnection, onReady: () => void): void {
  let tries = 0;
  let hasVsock = false;
  const attempt = (): void => {
    tries += 1;
    try {
      const hadVsock = hasVsock;
      hasVsock ||= serveVsock(poller, connection);
      const hasPort = servePort(poller, connection);
      if (!hadVsock && (hasVsock || hasPort)) onReady();
      // A guest may have both the vsock driver and the port that is really used.
      if (hasPort || (hasVsock && tries > EAGER_TRIES)) return;
    } catch (error) {
      if (tries % EAGER_TRIES === 1) logError('channel', error);
    }
    setTimeout(attempt, tries < EAGER_TRIES ? EAGER_MS : PATIENT_MS);
  };
  attempt();
}

function servePort(poller: Poller, connection: GuestConnection): boolean {
  const device = findSerialPort(AGENT_PORT_NAME);
  if (device === undefined) return false;
  const fd = addon.open(device, constants.O_RDWR | constants.O_NONBLOCK);
  const link = new FdLink(fd, { poller, onHostLeft: () => attached.hostLeft() });
  const attached = connection.attach(link, (cause) => {
    // The device went away (or broke): look for it again.
    logError('channel', cause ?? 'closed');
    setTimeout(() => serveChannels(poller, connection, () => {}), PATIENT_MS);
  });
  return true;
}

function serveVsock(poller: Poller, connection: GuestConnection): boolean {
  // The driver is loaded only where the device exists; asking for a socket would make the kernel look for a module.
  if (!existsSync('/dev/vsock')) return false;
  const listener = addon.listenVsock(AGENT_VSOCK_PORT);
  poller.watch(listener, POLL.in, () => {
    for (let fd = addon.acceptVsock(listener); fd !== NOT_NOW; fd = addon.acceptVsock(listener)) {
      connection.attach(new FdLink(fd, { poller }));
    }
  });
  return true;
}
