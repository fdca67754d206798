// Step of the start: the front for clients of E2B.
import { type Config, formatListen, type ListenAddress } from '../config/index.ts';
import {
  Builder,
  E2bFront,
  forgetDeleted,
  OperatorNames,
  PortAccess,
  Rest,
  refuseAs,
  SandboxRecords,
  SharedTemplates,
  TemplateRecords,
  TOKEN_HEADERS,
} from '../e2b/index.ts';
import type { Engines } from '../engines/choice.ts';
import { CLIENT_HEADER } from '../fleet/index.ts';
import type { Authenticator, Certificate, HttpApp } from '../http/index.ts';
import { Cors, NO_AUDIT } from '../http/index.ts';
import { Addresses, Gateway, IngressServer, RateLimits } from '../ingress/index.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { LifecycleEvents } from '../sandboxes/lifecycle-events.ts';
import type { SandboxManager } from '../sandboxes/manager.ts';
import { readSnapshotFacts } from '../sandboxes/stored/snapshot-facts.ts';
import { openSnapshotStore } from '../snapshot-store/index.ts';
import type { AppContext } from './context.ts';
import type { OpenedFleet } from './open-fleet.ts';
import { toPortHost } from './open-ingress.ts';
import type { OpenedStore } from './open-store.ts';

/** E2B's Python client keeps idle connections for 300 s. A server that closes earlier races with its next request. */
const KEEP_ALIVE_MS = 640_000;
const DRAIN_MS = 3000;
const SANDBOX_REQUESTS_PER_S = 1000;

export type E2bDeps = Pick<OpenedStore, 'store' | 'keys' | 'audit'> & {
  readonly engines: Engines;
  readonly events: LifecycleEvents;
  readonly metrics: Metrics;
  readonly sandboxes: SandboxManager;
  readonly authenticator: Authenticator;
  readonly clientOf: OpenedFleet['clientOf'];
  readonly isQuestion: OpenedFleet['isQuestion'];
  readonly placement: OpenedFleet['placement'];
  readonly certificate: Certificate | undefined;
  /** The REST interface. */
  readonly app: HttpApp;
  readonly maxConnections: number;
  readonly stopping: AbortSignal;
};

export type OpenedE2b = {
  /** Resolves with the address. */
  listen(): Promise<ListenAddress>;
  stop(): Promise<void>;
};

/** Undefined when there is none. */
export async function openE2b(context: AppContext, deps: E2bDeps): Promise<OpenedE2b | undefined> {
  const { config, log, helpers } = context;
  const { e2b } = config;
  if (e2b === undefined) return undefined;
  const { store, keys, audit = NO_AUDIT, events, sandboxes, authenticator, maxConnections } = deps;
  const records = await SandboxRecords.open(store, keys);
  const aliases = config.allowedHosts.map(({ at }) => at.host);
  const addresses = new Addresses({ ...toPublic(e2b), aliases });
  const ports = new Gateway({
    addresses,
    access: new PortAccess(toPortHost(sandboxes), records),
    log,
    rateLimits: new RateLimits({ clientPerS: 0, sandboxPerS: SANDBOX_REQUESTS_PER_S }),
    logsAccess: false,
    onEnd: () => undefined,
    refuse: refuseAs(addresses),
    clientOf: deps.clientOf,
    ownHeaders: [...TOKEN_HEADERS, CLIENT_HEADER],
  });
  const templates = new TemplateRecords(store, (principal) => sandboxes.as(principal).isVisible);
  const catalogue = {
    records: templates,
    shared: openShared(context, deps, templates),
    names: new OperatorNames(store),
    ownerOfSnapshot: (id: string) => sandboxes.snapshots.findOwner(id),
  };
  forgetDeleted(events, { records, templates: catalogue.records, log });
  const builder = new Builder({
    store,
    dataDir: config.dataDir,
    catalogue,
    isValid: (principal) => records.isValid(principal),
    isDraining: () => sandboxes.moves.drain.isOn,
    placement: deps.placement,
    log,
  });
  const rest = new Rest(deps.app);
  const front = new E2bFront({
    rest,
    sandboxes,
    authenticator,
    audit,
    records,
    catalogue,
    builder,
    addresses,
    ports,
    clientOf: deps.clientOf,
    isQuestion: deps.isQuestion,
    domain: () => addresses.publicHost,
    allowedHosts: config.allowedHosts,
    cors: new Cors(config.corsOrigins),
    log,
    ending: deps.stopping,
  });
  const server = new IngressServer({
    gateway: front,
    log,
    certificate: deps.certificate,
    maxConnections,
    clientShare: { connections: Math.ceil(maxConnections / 2), peersProgram: helpers.peers },
    keepAliveMs: KEEP_ALIVE_MS,
    protocols: ['http/1.1'],
  });
  return {
    listen: async () => {
      await records.sweep((id) => sandboxes.find(id) !== undefined);
      await builder.start(rest);
      catalogue.shared?.start({
        removeSnapshots: (ids) => builder.deleteSnapshots(ids),
        removeSuperseded: (id) => builder.removeSuperseded(id),
      });
      const address = await server.listen(e2b.listen);
      if ('port' in address) addresses.use({ ...toPublic(e2b, address.port), aliases });
      log.info(`clients of E2B are served on ${formatListen(address)}`);
      return address;
    },
    stop: async () => {
      await builder.stop();
      await catalogue.shared?.stop();
      await server.close(DRAIN_MS);
    },
  };
}

/** Undefined without a snapshot store. */
function openShared(
  { config, log, resources }: AppContext,
  { sandboxes, engines, events }: Pick<E2bDeps, 'sandboxes' | 'engines' | 'events'>,
  records: TemplateRecords,
): SharedTemplates | undefined {
  if (config.snapshotStore === undefined) return undefined;
  const { store } = openSnapshotStore(config.snapshotStore);
  resources.defer(() => store.close());
  return new SharedTemplates({
    ...{ records, events, log, store: store.templates },
    factsOf: (id) => readSnapshotFacts({ snapshots: sandboxes.snapshots, engines }, id),
    isDeleted: (id, signal) => store.isDeleted(id, signal),
  });
}

type E2b = NonNullable<Config['e2b']>;

function toPublic({ scheme, domain, port, hasOwnPort }: E2b, ownPort?: number) {
  return { scheme, domain, port: hasOwnPort ? ownPort : port };
}
