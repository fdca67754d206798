// The doors of a fleet besides its REST interface: the ingress of a host, and that of a gateway.
import type { IncomingMessage } from 'node:http';
import { connect } from 'node:net';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import { findParkedPorts, toPortHost } from '../../../host-agent/src/app/open-ingress.ts';
import {
  CLIENT_HEADER,
  E2bDoor,
  type E2bDoorOptions,
  type FleetSeal,
  type HostPortsOptions,
  isQuestion,
  openHostPorts,
  ParkedPorts,
  type ParkedPortsDeps,
  QUESTION_HEADER,
  readClientHeader,
} from '../../../host-agent/src/fleet/index.ts';
import { type Authenticator, Certificate } from '../../../host-agent/src/http/index.ts';
import type { PortLinks } from '../../../host-agent/src/http/services.ts';
import {
  Access,
  Addresses,
  Gateway,
  IngressServer,
  ParkedAccess,
  type PortHost,
  RateLimits,
  refuseParked,
} from '../../../host-agent/src/ingress/index.ts';
import { LinkRegistry } from '../../../host-agent/src/keys/index.ts';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import type { Issued } from '../../http/certificates.ts';
import { keyless } from '../../unit/host-agent/http/callers.ts';
import type { MemoryDaemon } from '../memory-host/daemon.ts';

/** Of all URLs of the fleet. */
export const DOMAIN = 'box.example';
export const NO_LIMITS = { clientPerS: 0, sandboxPerS: 0 };
const log: Logger = pino({ level: process.env.FLEET_LOG ?? 'silent' });

/** Ports of the sandboxes of a daemon; all lead to one port of this machine, after the sandbox is awake. */
export function portHostTo(to: number, { manager }: MemoryDaemon): PortHost {
  const host = toPortHost(manager);
  return {
    find: (principal, sought) => {
      const found = host.find(principal, sought);
      if (found === undefined) return undefined;
      const connectPort: typeof found.connectPort = async (port, options) => {
        (await found.connectPort(port, options)).reset();
        return await new Promise((resolve, reject) => {
          const socket = connect({ port: to, host: '127.0.0.1', allowHalfOpen: true });
          socket.once('error', () =>
            reject(new AppError('port_not_listening', `nothing is on port ${port}`)),
          );
          socket.once('connect', () =>
            resolve(Object.assign(socket, { reset: () => void socket.resetAndDestroy() })),
          );
        });
      };
      return { ...found, connectPort };
    },
  };
}

/** What a host of the fleet adds to the options of its ingress. */
export function trusting(seal: FleetSeal) {
  return {
    clientOf: ({ headers }: IncomingMessage) => readClientHeader(headers[CLIENT_HEADER], seal),
    isQuestion: (request: IncomingMessage) => isQuestion(request, seal),
  };
}

export type IngressOptions = {
  readonly daemon: MemoryDaemon;
  readonly seal: FleetSeal;
  readonly authenticator: Authenticator | undefined;
  /** Port of this machine in place of those of guests. */
  readonly to: number;
  readonly issued: Issued | undefined;
};

export async function serveHostIngress(
  t: Test,
  { daemon, seal, authenticator = keyless(), to, issued }: IngressOptions,
): Promise<{ readonly url: URL; readonly portLinks: PortLinks; readonly server: IngressServer }> {
  const addresses = new Addresses({ scheme: 'http', domain: DOMAIN, port: 8080 });
  const links = new LinkRegistry(daemon.store, () => true);
  const gateway = new Gateway({
    addresses,
    access: new ParkedAccess({
      own: new Access(portHostTo(to, daemon), authenticator, links),
      over: (host) => new Access(host, authenticator, links),
      ...trusting(seal),
      find: (id) => findParkedPorts(daemon.manager, id),
    }),
    refuse: refuseParked,
    ...{ log, rateLimits: new RateLimits(NO_LIMITS), logsAccess: false, onEnd: () => undefined },
    ...trusting(seal),
    ownHeaders: [CLIENT_HEADER, QUESTION_HEADER],
    checkMs: 50,
  });
  const server = new IngressServer({
    gateway,
    log,
    certificate: issued && new Certificate(issued, log, 100),
  });
  const url = await listen(t, server, issued === undefined ? 'http' : 'https');
  const portLinks = {
    create: (link: Parameters<PortLinks['create']>[0]) => links.create(link),
    list: (id: string, port: number) => links.list(id, port),
    delete: (id: string, port: number, link: string) => links.delete(id, port, link),
    urlOf: (id: string, port: number) => addresses.urlOf(id, port),
    source: () => addresses.source,
  };
  return { url, portLinks, server };
}

/** That of a gateway. Resolves with its port. */
export async function serveIngress(
  t: Test,
  deps: Pick<HostPortsOptions, 'map' | 'connections' | 'seal'> & Partial<Pick<ParkedPortsDeps, 'catalogue'>>,
): Promise<number> {
  const { catalogue } = deps;
  const gateway = openHostPorts({
    ...{ ...deps, log, door: 'ingress' },
    ...(catalogue && { parked: new ParkedPorts({ ...deps, catalogue }) }),
    addresses: new Addresses({ scheme: 'http', domain: DOMAIN }),
    rateLimits: new RateLimits(NO_LIMITS),
  });
  const server = new IngressServer({ gateway, log, certificate: undefined });
  return Number((await listen(t, server, 'http')).port);
}

/** The front for clients of E2B of a gateway. Resolves with its address. */
export async function serveE2bDoor(
  t: Test,
  deps: Omit<E2bDoorOptions, 'addresses' | 'allowedHosts' | 'log'>,
) {
  const addresses = new Addresses({ scheme: 'http', domain: DOMAIN, aliases: ['gate.example'] });
  const allowedHosts = [{ scheme: 'http' as const, at: { host: 'gate.example', port: undefined } }];
  const gateway = new E2bDoor({ ...deps, addresses, allowedHosts, log });
  const server = new IngressServer({ gateway, log, certificate: undefined, protocols: ['http/1.1'] });
  return await listen(t, server, 'http');
}

async function listen(t: Test, server: IngressServer, scheme: string): Promise<URL> {
  t.teardown(() => server.close());
  const address = await server.listen({ host: '127.0.0.1', port: 0 });
  return new URL(`${scheme}://127.0.0.1:${'port' in address ? address.port : 0}`);
}
