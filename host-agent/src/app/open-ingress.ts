// Step of the start: the ingress, which serves URLs of ports, and the links to them.
import { type Config, formatListen, type ListenAddress } from '../config/index.ts';
import { CLIENT_HEADER, QUESTION_HEADER } from '../fleet/index.ts';
import type { Authenticator } from '../http/index.ts';
import { Certificate, writeParked } from '../http/index.ts';
import type { PortLinks } from '../http/services.ts';
import {
  Access,
  Addresses,
  Gateway,
  IngressServer,
  ParkedAccess,
  type ParkedPorts,
  type PortHost,
  RateLimits,
  refuseParked,
} from '../ingress/index.ts';
import { type KeyRegistry, LinkRegistry, type Principal } from '../keys/index.ts';
import { isAppError } from '../lib/errors.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { LifecycleEvents } from '../sandboxes/lifecycle-events.ts';
import type { SandboxManager } from '../sandboxes/manager.ts';
import type { Store } from '../store/store.ts';
import type { AppContext } from './context.ts';
import type { OpenedFleet } from './open-fleet.ts';

/** A stop of the daemon waits this long for requests of the ingress. WebSockets and events never end by themselves. */
const DRAIN_MS = 3000;
/** A question to the snapshot store. */
const FIND_MS = 10_000;

export type IngressDeps = {
  readonly store: Store;
  readonly keys: KeyRegistry;
  readonly events: LifecycleEvents;
  readonly metrics: Metrics;
  readonly sandboxes: SandboxManager;
  readonly authenticator: Authenticator;
  readonly clientOf: OpenedFleet['clientOf'];
  readonly isQuestion: OpenedFleet['isQuestion'];
};

export type OpenedIngress = {
  readonly links: PortLinks;
  /** Begins to serve. Resolves with the address. */
  listen(): Promise<ListenAddress>;
  stop(): Promise<void>;
};

/** Undefined when there is none. */
export function openIngress(
  { config, log, helpers }: AppContext,
  deps: IngressDeps,
): OpenedIngress | undefined {
  const { ingress } = config;
  if (ingress === undefined) return undefined;
  const { store, keys, events, metrics, sandboxes, authenticator, clientOf, isQuestion } = deps;
  const links = new LinkRegistry(store, (id) => keys.isStillValid({ kind: 'key', id, key: '' }));
  events.subscribe((event) => {
    if (event.kind !== 'deleted' && event.kind !== 'port-closed') return;
    const port = event.kind === 'port-closed' ? event.port : undefined;
    links
      .deleteAll(event.sandbox, port)
      .catch((err: unknown) => log.warn({ err }, 'cannot remove the links of a port'));
  });
  const addresses = new Addresses(
    toPublic(ingress, 'port' in ingress.listen ? ingress.listen.port : undefined),
  );
  const requests = metrics.counter(
    'sandboxd_ingress_requests_total',
    'Requests of the ingress, by class of status',
    ['status'],
  );
  const gateway = new Gateway({
    addresses,
    access: new ParkedAccess({
      own: new Access(toPortHost(sandboxes), authenticator, links),
      over: (host) => new Access(host, authenticator, links),
      isQuestion,
      find: (id) => findParkedPorts(sandboxes, id),
    }),
    refuse: refuseParked,
    log,
    rateLimits: new RateLimits(ingress.rateLimits),
    logsAccess: ingress.logsAccess,
    clientOf,
    ownHeaders: [CLIENT_HEADER, QUESTION_HEADER],
    onEnd: ({ status }) => requests.inc({ status: `${Math.floor(status / 100)}xx` }),
  });
  metrics.series(
    'gauge',
    'sandboxd_ingress_open',
    'Requests and WebSockets of the ingress that are open',
    [],
    () => [{ value: gateway.open.count }],
  );
  const { maxConnections } = ingress;
  const server = new IngressServer({
    gateway,
    log,
    certificate: ingress.tls && new Certificate(ingress.tls, log),
    maxConnections,
    clientShare: { connections: Math.ceil(maxConnections / 2), peersProgram: helpers.peers },
  });
  return {
    links: {
      create: (link) => links.create(link),
      list: (id, port) => links.list(id, port),
      delete: (id, port, link) => links.delete(id, port, link),
      urlOf: (id, port) => addresses.urlOf(id, port),
      source: () => addresses.source,
    },
    listen: async () => {
      const isOpen = (id: string, port: number): boolean =>
        sandboxes.find(id)?.info.ports?.some((each) => each.port === port) === true;
      await links
        .sweep(isOpen)
        .catch((err: unknown) => log.warn({ err }, 'cannot remove links of closed ports'));
      const address = await server.listen(ingress.listen);
      if ('port' in address) addresses.use(toPublic(ingress, address.port));
      log.info(`ports of sandboxes are served on ${formatListen(address)}`);
      return address;
    },
    stop: () => server.close(DRAIN_MS),
  };
}

type Ingress = NonNullable<Config['ingress']>;

function toPublic({ scheme, domain, port, hasOwnPort }: Ingress, ownPort: number | undefined) {
  return { scheme, domain, port: hasOwnPort ? ownPort : port };
}

/** Names are hosts only of sandboxes without a tenant: those of tenants may be alike. */
export function toPortHost(sandboxes: SandboxManager): PortHost {
  return {
    find: (principal, sought) => {
      const id = 'id' in sought ? sought.id : sandboxes.findNamed(sought.name);
      if (id === undefined) return undefined;
      const get = () => sandboxes.as(principal).get(id);
      try {
        get();
      } catch (error) {
        // Also of one that has just moved: a client without a key must not learn that it exists.
        if (isAppError(error) && ['not_found', 'exhausted'].includes(error.code)) return undefined;
        throw error;
      }
      return {
        id,
        access: (port) => get().info.ports?.find((each) => each.port === port)?.access,
        hostHeader: (port) => get().info.ports?.find((each) => each.port === port)?.host ?? 'sent',
        connectPort: async (port, { signal }) =>
          await (await get().awake(signal)).connectPort(port, { signal }),
      };
    },
  };
}

/** Ports of a sandbox that the snapshot store offers, and no host has. */
export async function findParkedPorts(
  sandboxes: Pick<SandboxManager, 'moves' | 'find' | 'as'>,
  id: string,
): Promise<ParkedPorts | undefined> {
  const { moves } = sandboxes;
  const offer =
    sandboxes.find(id) === undefined ? await moves.offers?.find(id, AbortSignal.timeout(FIND_MS)) : undefined;
  if (offer === undefined) return undefined;
  const { info, owner, place } = offer;
  const access = (port: number) => info.ports?.find((each) => each.port === port)?.access;
  const isVisible = (principal: Principal) => sandboxes.as(principal).isVisible(owner);
  return { isVisible, access, place: writeParked(place) };
}
