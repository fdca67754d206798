// Ports of the sandboxes of all hosts: a request goes to the listener of the host that has the sandbox, which decides
// about it as if it had come there.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import { PARKED_HEADER, PLACE_HEADER } from '../../http/index.ts';
import {
  type AccessRequest,
  Gateway,
  type GatewayOptions,
  type Grant,
  isGrpc,
  noPort,
  type PortStream,
  toRelayedHeaders,
} from '../../ingress/index.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import type { Doors, FleetMap, Host } from '../catalogue.ts';
import { CLIENT_HEADER, QUESTION_HEADER, writeClientHeader } from '../client-header.ts';
import type { FleetSeal } from '../seal.ts';
import { type HostConnections, toHostError } from './host-connections.ts';
import type { ParkedPorts } from './parked-ports.ts';
import { findPlace } from './places.ts';

/** What clients may not say to a host. */
const RESERVED = [PLACE_HEADER, PARKED_HEADER, CLIENT_HEADER, QUESTION_HEADER];

export type HostPortsOptions = Pick<GatewayOptions, 'addresses' | 'rateLimits' | 'refuse'> & {
  readonly map: FleetMap;
  readonly connections: HostConnections;
  readonly seal: FleetSeal;
  readonly log: Logger;
  /** Which listener of hosts it is. */
  readonly door: keyof Doors;
  /** Absent: requests for what no host has are refused. */
  readonly parked?: Pick<ParkedPorts, 'restore'>;
  /** What the host gets as Host; absent: what the client sent. */
  readonly toHost?: (host: string, headers: IncomingHttpHeaders) => string;
};

/** Pages and programs see what the host answers; of itself the gateway says that there is no such sandbox or host. */
export function openHostPorts(options: HostPortsOptions): Gateway {
  const { addresses, rateLimits, refuse, log, seal, toHost = (host) => host } = options;
  return new Gateway({
    ...{ addresses, rateLimits, log, logsAccess: false, onEnd: () => undefined },
    ...(refuse && { refuse }),
    access: { admit: (asked) => admit(asked, options) },
    relay: {
      toHeaders: (headers, { host, address }) => ({
        ...toRelayedHeaders(headers, toHost(host, headers), RESERVED),
        [CLIENT_HEADER]: writeClientHeader(address, seal),
      }),
      explain,
    },
  });
}

async function admit(asked: AccessRequest, options: HostPortsOptions): Promise<Grant> {
  const { sought, request } = asked;
  const { connections, door } = options;
  // A name is one of its tenant only, and the map has none.
  if (sought === undefined || !('id' in sought)) throw noPort();
  const host = await findHost(sought.id, asked, options);
  const url = host.doors[door];
  if (url === undefined) throw new AppError('unsupported', WITHOUT[door](host));
  const protocol = isGrpc(request as IncomingMessage) ? 'h2' : 'http/1.1';
  const connectPort = async (): Promise<PortStream> => {
    const socket = await connections.connect({ ...host, url }, protocol);
    return Object.assign(socket, { reset: () => void socket.destroy() });
  };
  // Kept connections are of the host, for requests to all its sandboxes.
  const sandbox = { id: host.name, access: () => undefined, hostHeader: () => 'sent' as const, connectPort };
  return { by: 'host', sandbox, port: 0, isValid: () => true };
}

/** Resolves when a host has it. */
async function findHost(id: string, asked: AccessRequest, options: HostPortsOptions): Promise<Host> {
  const { map, parked } = options;
  try {
    return (await findPlace(map, id)).host;
  } catch (error) {
    const isUnknown = isAppError(error) && error.code === 'not_found';
    const isHidden = map.isCurrent && map.find(id) === undefined;
    const isTaken = (isUnknown || isHidden) && (await parked?.restore(id, asked)) === true;
    if (isTaken) return (await findPlace(map, id)).host;
    throw isUnknown ? noPort() : error;
  }
}

const WITHOUT: Readonly<Record<keyof Doors, (host: Host) => string>> = {
  ingress: ({ name }) => `the host ${name} of the sandbox serves no URLs of ports; it needs --ingress-listen`,
  e2b: ({ name }) => `the host ${name} of the sandbox serves no clients of E2B; it needs --e2b-listen`,
};

/** Failures of the connection itself have named the host. */
function explain(failure: unknown, { sandbox }: Grant): unknown {
  if (!isAppError(failure) || failure.code !== 'port_failed') return failure;
  return toHostError({ name: sandbox.id, isReady: true }, new Error('it closed the connection'));
}
