// Serves the agent on the channels that exist: the virtio-serial port with its name, and vsock.
import { constants, existsSync } from 'node:fs';
import { AGENT_PORT_NAME, AGENT_VSOCK_PORT, type GuestConnection } from '@sandboxd/proto';
import { logError } from '../lib/log.ts';
import { addon, NOT_NOW } from '../native/addon.ts';
import { POLL, type Poller } from '../native/poller.ts';
import { FdLink } from './fd-link.ts';
import { findSerialPort } from './ports.ts';
import { searchChannels } from './search.ts';

/** VMADDR_CID_HOST. Programs inside the guest connect from another context id. */
const HOST_CID = 2;

type ServeContext = {
  readonly poller: Poller;
  readonly connection: GuestConnection;
  readonly isEmulated: boolean;
};

/** Serves each channel as soon as it appears. `onReady` is called for the first one. */
export function serveChannels(context: ServeContext, onReady: () => void): void {
  searchChannels(
    {
      serveVsock: (onHost) => serveVsock(context, { onHost }),
      servePort: (onLost) =>
        servePort(context, (cause) => {
          logError('channel', cause ?? 'closed');
          onLost();
        }),
    },
    onReady,
  );
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
  readonly port?: number;
  /** Context id of accepted peers; other connections are refused. */
  readonly peerCid?: number;
  /** Called for each connection of a host. */
  readonly onHost?: () => void;
};

/** Listens for hosts; each connection is one link. Returns false while vsock does not exist. */
export function serveVsock(
  context: ServeContext,
  { port = AGENT_VSOCK_PORT, peerCid = HOST_CID, onHost = () => undefined }: VsockOptions,
): boolean {
  // The driver is loaded only where the device exists. Opening a socket without it would make the kernel search for a
  // module.
  if (!existsSync('/dev/vsock')) return false;
  const listener = addon.listenVsock(port);
  context.poller.watch(listener, POLL.in, () => {
    const accept = (): number => addon.acceptVsock(listener, peerCid);
    for (let fd = accept(); fd !== NOT_NOW; fd = accept()) {
      context.connection.attach(new FdLink(fd, context));
      onHost();
    }
  });
  return true;
}
