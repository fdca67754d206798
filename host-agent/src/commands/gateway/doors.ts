// What the gateway serves besides the REST interface, each at an address of its own: URLs of ports, and clients of E2B.
import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { Logger } from 'pino';
import {
  formatListen,
  isLoopback,
  type ListenAddress,
  parseHostName,
  parseListen,
} from '../../config/index.ts';
import { E2bDoor, type E2bDoorOptions, openHostPorts, ParkedPorts } from '../../fleet/index.ts';
import { Certificate } from '../../http/index.ts';
import { Addresses, IngressServer, type IngressServerOptions, RateLimits } from '../../ingress/index.ts';
import { HELPERS } from '../installation.ts';

// Listeners of the gateway: their addresses and certificates, from flags.

export const DEFAULT_CONNECTIONS = 4096;
export const path = (help: string) => ({ type: 'string', placeholder: 'path', help }) as const;
export const address = (help: string) =>
  ({ type: 'string', placeholder: 'host:port|unix:/path', help }) as const;

type Listener = {
  readonly listen: ListenAddress;
  /** Undefined without TLS. */
  readonly certificate: Certificate | undefined;
};

/** UsageError for an address that other machines reach without TLS. */
export function readListener(
  input: Input,
  log: Logger,
  { flag, text, prefix }: { readonly flag: string; readonly text: string; readonly prefix: '' | 'ingress-' },
): Listener {
  const listen = parseListen(text);
  if (listen === undefined)
    throw new UsageError(`--${flag} ${JSON.stringify(text)} is neither host:port nor unix:/path`);
  const [cert, key] = [`${prefix}tls-cert`, `${prefix}tls-key`];
  const [certPath, keyPath] = [input.text(cert), input.text(key)];
  if ((certPath === undefined) !== (keyPath === undefined))
    throw new UsageError(`--${cert} and --${key} go together`);
  const certificate = certPath && keyPath ? new Certificate({ certPath, keyPath }, log) : undefined;
  if ('path' in listen || certificate !== undefined || isLoopback(listen.host))
    return { listen, certificate };
  throw new UsageError(
    `${formatListen(listen)} can be reached from other machines; give --${cert} and --${key}, or listen on 127.0.0.1`,
  );
}

/** E2B's Python client keeps idle connections for 300 s. A server that closes earlier races with its next request. */
const E2B_KEEP_ALIVE_MS = 640_000;
/** WebSockets and events never end by themselves. */
const DRAIN_MS = 3000;

const domain = (of: string) =>
  ({
    type: 'string',
    placeholder: 'name',
    help: `domain of ${of}, as the hosts have it (localhost)`,
  }) as const;

export const DOOR_FLAGS = {
  'ingress-listen': address('address of the ingress, which serves URLs of ports of sandboxes; default: none'),
  'ingress-domain': domain('these URLs'),
  'ingress-tls-cert': path('TLS certificate chain of the ingress, for *.<domain> (PEM)'),
  'ingress-tls-key': path('private key of that certificate (PEM)'),
  'e2b-listen': address('address for clients of E2B, with the certificate of the REST API; default: none'),
  'e2b-domain': domain('host names of sandboxes for them'),
} as const;

export type Door = {
  /** Resolves with what it serves, and where. */
  listen(): Promise<string>;
  close(): Promise<void>;
  /** Sources of the pages of guests, for a Content-Security-Policy; absent: it serves none. */
  readonly frames?: string;
};

type DoorDeps = Omit<E2bDoorOptions, 'addresses' | 'log'>;

/** UsageError. */
export function openDoors(input: Input, log: Logger, deps: DoorDeps): readonly Door[] {
  return [openIngress(input, log, deps), openE2b(input, log, deps)].filter((door) => door !== undefined);
}

function openIngress(input: Input, log: Logger, deps: DoorDeps): Door | undefined {
  const text = input.text('ingress-listen');
  if (text === undefined) return undefined;
  const listener = readListener(input, log, { flag: 'ingress-listen', text, prefix: 'ingress-' });
  const addresses = readAddresses(input, 'ingress-domain', listener);
  const gateway = openHostPorts({
    ...{ map: deps.map, connections: deps.connections, seal: deps.seal },
    ...{ log, door: 'ingress', addresses, parked: new ParkedPorts(deps) },
    rateLimits: new RateLimits({ clientPerS: 0, sandboxPerS: 0 }),
  });
  return {
    ...toDoor('ports of sandboxes are served', listener, { gateway, log }),
    frames: addresses.sources,
  };
}

function openE2b(input: Input, log: Logger, deps: DoorDeps): Door | undefined {
  const text = input.text('e2b-listen');
  if (text === undefined) return undefined;
  const listener = readListener(input, log, { flag: 'e2b-listen', text, prefix: '' });
  const aliases = deps.allowedHosts.map(({ at }) => at.host);
  const gateway = new E2bDoor({
    ...{ ...deps, log },
    addresses: readAddresses(input, 'e2b-domain', listener, aliases),
  });
  return toDoor('clients of E2B are served', listener, {
    ...{ gateway, log, keepAliveMs: E2B_KEEP_ALIVE_MS, protocols: ['http/1.1'] },
  });
}

function toDoor(
  serves: string,
  { listen, certificate }: Listener,
  options: Omit<IngressServerOptions, 'certificate'>,
): Door {
  const server = new IngressServer({
    ...{ ...options, certificate },
    maxConnections: DEFAULT_CONNECTIONS,
    // To a host, the gateway is one client, which may have half of the connections of each of its listeners.
    clientShare: { connections: DEFAULT_CONNECTIONS / 4, peersProgram: HELPERS.peers },
  });
  return {
    listen: async () => `${serves} on ${formatListen(await server.listen(listen))}`,
    close: () => server.close(DRAIN_MS),
  };
}

function readAddresses(
  input: Input,
  flag: string,
  { certificate }: Listener,
  aliases: readonly string[] = [],
): Addresses {
  const text = input.text(flag) ?? 'localhost';
  const name = parseHostName(text);
  if (name === undefined) throw new UsageError(`--${flag} ${JSON.stringify(text)} is not a host name`);
  const { host, port } = name.at;
  const scheme = certificate === undefined ? 'http' : 'https';
  return new Addresses({ scheme, domain: host, aliases, ...(port !== undefined && { port }) });
}
