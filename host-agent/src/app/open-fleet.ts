// Step of the start: this host as a node of a fleet.
import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';
import { cpus } from 'node:os';
import { type Config, formatListen, type ListenAddress } from '../config/index.ts';
import {
  CLIENT_HEADER,
  type CordonRecord,
  CordonRequests,
  type Doors,
  FleetSeal,
  ForeignPods,
  forgetCordon,
  type IdentityRecord,
  isForBootstrap,
  isQuestion,
  type KeysOfRecord,
  KubeClient,
  type LocalSandboxes,
  NodeAgent,
  NodeIdentity,
  type PlaceRecord,
  type PodRecord,
  readClientHeader,
  readKubeconfig,
  SharedKeys,
  toImageHolding,
  toSnapshotHolding,
} from '../fleet/index.ts';
import { ANY_PLACE, type Placement } from '../http/index.ts';
import type { Images } from '../images/index.ts';
import type { KeyRegistry } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { Sealer } from '../lib/seal.ts';
import { readHostCapacity } from '../sandboxes/admission.ts';
import type { LifecycleEvents } from '../sandboxes/lifecycle-events.ts';
import type { SandboxManager } from '../sandboxes/manager.ts';
import type { Store } from '../store/store.ts';
import type { AppContext } from './context.ts';
import { PODS_TABLE, toPodSandboxes } from './open-pods.ts';

const MIB = 2 ** 20;
/** The rest of what a Node may name is for images. */
const MAX_SNAPSHOT_HOLDINGS = 120;
/** Key of this installation’s id in its table. */
const INSTANCE = 'instance';
/** Of the name of its node, in the same table: for commands that do not know whether the daemon has joined. */
const NODE = 'node';
export const FLEET_HOST_TABLE = 'fleet_host';
export const CORDON_TABLE = 'fleet_cordon';

export type FleetDeps = {
  readonly store: Store;
  readonly sealer: Sealer;
  readonly events: LifecycleEvents;
  readonly sandboxes: SandboxManager;
  readonly images: Pick<Images, 'list'> | undefined;
  readonly limits: Config['limits'];
  readonly keys: KeyRegistry;
};

type HostRecord = { readonly id: string };

type Listeners = { readonly [door in keyof Doors]: ListenAddress | undefined };

export type OpenedFleet = {
  readonly placement: Placement;
  /** The client of a request that a gateway passed on; undefined: it came from no gateway. */
  readonly clientOf: (request: IncomingMessage) => string | undefined;
  /** Whether a gateway asks it by itself. */
  readonly isQuestion: (request: IncomingMessage) => boolean;
  /** With the address of the REST API, which is served by then, and those of other listeners. */
  join(listen: ListenAddress, others: Listeners): Promise<void>;
  stop(): Promise<void>;
};

/** AppError invalid_argument for a kubeconfig or secret that cannot be used. */
export async function openFleet({ config, log }: AppContext, deps: FleetDeps): Promise<OpenedFleet> {
  const { fleet, admission, dataDir, tls } = config;
  const hostRecords = deps.store.table<HostRecord>(FLEET_HOST_TABLE);
  if (fleet === undefined)
    return {
      placement: ANY_PLACE,
      clientOf: () => undefined,
      isQuestion: () => false,
      join: async () => {
        // It was in one before.
        if (hostRecords.get(NODE) === undefined) return;
        await forgetCordon(deps.store.table(CORDON_TABLE));
        await hostRecords.remove(NODE);
      },
      stop: async () => undefined,
    };
  const identity = openIdentity(fleet, deps, log);
  const client = new KubeClient(readKubeconfig(fleet.kubeconfigPath), identity);
  const seal = FleetSeal.read(fleet.secretPath);
  const readCapacity = async () => {
    const { memoryTotalBytes } = await readHostCapacity(dataDir);
    const usableBytes =
      Math.max(0, memoryTotalBytes - admission.memoryReserveBytes) * admission.memoryOvercommit;
    return { cpus: cpus().length, memoryMib: usableBytes / MIB, sandboxes: deps.limits.sandboxes };
  };
  const { namespace } = fleet;
  const sharedKeys = new SharedKeys({
    ...{ client, seal, namespace, keys: deps.keys, log },
    records: deps.store.table<KeysOfRecord>(FLEET_HOST_TABLE),
  });
  await sharedKeys.restore();
  let agent: NodeAgent | undefined;
  let pods: ForeignPods | undefined;
  let cordons: CordonRequests | undefined;
  const openPods = (of: NodeAgent, wanted: NonNullable<typeof fleet.pods>, url: URL): ForeignPods => {
    const opened = new ForeignPods({
      ...{ client, seal, log, node: fleet.name, namespace: fleet.namespace, range: wanted.range },
      records: deps.store.table<PodRecord>(PODS_TABLE),
      sandboxes: toPodSandboxes(wanted.key, { ...deps, hasImages: deps.images !== undefined }, toLocal(deps)),
      hostIp: toIp(url),
      isFenced: () => of.isFenced,
    });
    void of.joined().then(() => opened.start());
    return opened;
  };
  const placement: Placement = {
    needsPlace: true,
    admit: async (request) => {
      if (agent !== undefined) return await agent.admit(request);
      throw new AppError('exhausted', 'this host joins its fleet just now', { retryAfterS: 1 });
    },
    hold: (request) => {
      if (agent !== undefined) return agent.hold(request);
      throw new AppError('exhausted', 'this host joins its fleet just now', { retryAfterS: 1 });
    },
  };
  const join: OpenedFleet['join'] = async (listen, { ingress, e2b }) => {
    const scheme = tls === undefined ? 'http' : 'https';
    const url = new URL(fleet.url ?? `${scheme}://${formatListen(listen)}`);
    await hostRecords.put(NODE, { id: fleet.name });
    agent = new NodeAgent({
      ...{ client, seal, readCapacity, name: fleet.name, namespace: fleet.namespace, log },
      instance: await readInstance(deps.store),
      ...{ url, runsPods: fleet.pods !== undefined },
      doors: {
        ingress: toDoor(ingress, config.ingress?.tls !== undefined, fleet.url),
        e2b: toDoor(e2b, tls !== undefined, fleet.url),
      },
      readHoldings: () => [...readSnapshotHoldings(deps.sandboxes), ...readImageHoldings(deps.images)],
      records: deps.store.table<PlaceRecord>('fleet_places'),
      sandboxes: toLocal(deps),
    });
    if (fleet.pods !== undefined) pods = openPods(agent, fleet.pods, url);
    else if (deps.store.table<PodRecord>(PODS_TABLE).all().length > 0)
      log.error('pods of others run here, and without --pods-key they are not followed');
    // Also before this host has an identity: a request has an answer then.
    cordons = openCordons(agent, deps, log);
    const start = (): void => {
      // First: until they are known, the host takes no client.
      sharedKeys.start();
      agent?.start();
    };
    if (identity === undefined) return start();
    identity.start();
    void identity.found().then(start);
  };
  const stop = async (): Promise<void> => {
    await identity?.close();
    await pods?.stop();
    const answered = cordons?.stop();
    await Promise.all([agent?.stop(), sharedKeys.close()]);
    await answered;
    client.close();
  };
  const clientOf: OpenedFleet['clientOf'] = ({ headers }) => readClientHeader(headers[CLIENT_HEADER], seal);
  const isAsked: OpenedFleet['isQuestion'] = (request) => isQuestion(request, seal);
  return { placement, clientOf, isQuestion: isAsked, join, stop };
}

/** Answers `sandboxd drain`. */
export function openCordons(
  agent: NodeAgent,
  { store, sandboxes }: Pick<FleetDeps, 'store' | 'sandboxes'>,
  log: AppContext['log'],
): CordonRequests {
  const opened = new CordonRequests({
    records: store.table<CordonRecord>(CORDON_TABLE),
    assertPossible: (isCordoned) => isCordoned && sandboxes.moves.drain.assertPossible(),
    setCordoned: (isCordoned) => agent.setCordoned(isCordoned),
    log,
  });
  opened.start();
  return opened;
}

/** The name of the node of a host whose daemon has joined a fleet. */
export function findNodeName(store: Store): string | undefined {
  return store.table<HostRecord>(FLEET_HOST_TABLE).latest(NODE)?.id;
}

/** The status of a pod has addresses only. */
function toIp({ hostname }: URL): string | undefined {
  const host = hostname.replace(/^\[|\]$/g, '');
  return isIP(host) === 0 ? undefined : host;
}

/** Gateways reach it by the name or address by which they reach the REST API, where one is given. */
function toDoor(
  listen: ListenAddress | undefined,
  isTls: boolean,
  apiUrl: string | undefined,
): URL | undefined {
  if (listen === undefined || 'path' in listen) return undefined;
  const url = new URL(`${isTls ? 'https' : 'http'}://${formatListen(listen)}`);
  if (apiUrl !== undefined) url.hostname = new URL(apiUrl).hostname;
  return url;
}

/** Undefined for a kubeconfig with credentials that last. AppError invalid_argument. */
function openIdentity(
  { kubeconfigPath: path, name }: NonNullable<Config['fleet']>,
  { store, sealer }: FleetDeps,
  log: AppContext['log'],
): NodeIdentity | undefined {
  const access = readKubeconfig(path);
  if (!isForBootstrap(access)) return undefined;
  const records = store.table<IdentityRecord>('fleet_identity');
  const fail = (what: string): AppError =>
    new AppError('invalid_argument', `the kubeconfig ${path} cannot be used: ${what}`);
  if (access.server.protocol !== 'https:')
    throw fail('a bootstrap token needs a server that is reached by https');
  if (access.token === undefined && records.get('current') === undefined)
    throw fail('its user has no credentials; give a bootstrap token (kubeadm token create)');
  return new NodeIdentity({ name, records, sealer, log, readAccess: () => readKubeconfig(path) });
}

export function toLocal({ sandboxes, events }: Pick<FleetDeps, 'sandboxes' | 'events'>): LocalSandboxes {
  return {
    stateOf: (id) => {
      const found = sandboxes.find(id);
      return found && { state: found.state, reason: found.info.reason?.message };
    },
    sizeOf: (id) => {
      const { vcpus, memoryMib } = sandboxes.find(id)?.record.options ?? {};
      return vcpus === undefined || memoryMib === undefined ? undefined : { vcpus, memoryMib };
    },
    delete: async (id) => {
      if (sandboxes.find(id) !== undefined) await sandboxes.delete(id);
    },
    takeOver: async (id, conditions) => {
      using _paused = sandboxes.moves.rightOfWay.begin();
      const { sandbox, wasRunning } = await sandboxes.moves.takeOver(id, () => true, conditions);
      // It is this host's, whatever fails, and is resumed again then.
      if (wasRunning) await sandboxes.sleep.resume(sandbox).catch(() => sandboxes.moves.resume(sandbox));
    },
    isArriving: (id) => sandboxes.moves.arrivals?.isArriving(id) === true,
    departureOf: (id) => sandboxes.moves.departures?.offered(id),
    copiedOf: (id) => sandboxes.moves.departures?.ahead.departureOf(id),
    noteArrival: (id, arrival) => sandboxes.moves.departures?.ahead.note(id, arrival),
    takesChanges: true,
    prefetch: async (id, move, conditions) => await sandboxes.moves.prefetches?.begin(id, move, conditions),
    prefetchOf: (id, move) => sandboxes.moves.prefetches?.stateOf(id, move),
    prefetched: () => sandboxes.moves.prefetches?.ids() ?? [],
    forgetPrefetch: async (id) => await sandboxes.moves.prefetches?.forget(id),
    setDraining: async (isDraining) => {
      await (isDraining ? sandboxes.moves.drain.want() : sandboxes.moves.drain.cancel());
    },
    isDraining: () => sandboxes.moves.drain.isWanted,
    subscribe: (listener) => {
      sandboxes.moves.departures?.subscribe(listener);
      return events.subscribe((event) => {
        if ('sandbox' in event) listener(event.sandbox);
      });
    },
  };
}

/** Of those that other hosts could fetch; the newest first. */
export function readSnapshotHoldings({ snapshots }: Pick<SandboxManager, 'snapshots'>): string[] {
  const stored = snapshots.list(() => true).filter(({ storage }) => storage === 'stored');
  return stored
    .sort((a, b) => b.createdAt.getTime() - a.createdAt.getTime())
    .slice(0, MAX_SNAPSHOT_HOLDINGS)
    .map(({ id }) => toSnapshotHolding(id));
}

/** The newest first. */
function readImageHoldings(images: FleetDeps['images']): string[] {
  return (images?.list() ?? [])
    .reverse()
    .flatMap(({ digest, refs }) => [digest, ...refs].map(toImageHolding));
}

/** Two hosts cannot be one node, also not those that were copied before their first start. */
async function readInstance(store: Store): Promise<string> {
  const table = store.table<HostRecord>(FLEET_HOST_TABLE);
  const known = table.get(INSTANCE);
  if (known !== undefined) return known.id;
  const id = randomUUID();
  await table.put(INSTANCE, { id });
  return id;
}
