// Step of the start: this host as a node of a fleet.
import { randomUUID } from 'node:crypto';
import { cpus } from 'node:os';
import { type Config, formatListen, type ListenAddress } from '../config/index.ts';
import {
  FleetSeal,
  KubeClient,
  type LocalSandboxes,
  NodeAgent,
  type PlaceRecord,
  readKubeconfig,
} from '../fleet/index.ts';
import { ANY_PLACE, type Placement } from '../http/index.ts';
import { AppError } from '../lib/errors.ts';
import { readHostCapacity } from '../sandboxes/admission.ts';
import type { LifecycleEvents } from '../sandboxes/lifecycle-events.ts';
import type { SandboxManager } from '../sandboxes/manager.ts';
import type { Store } from '../store/store.ts';
import type { AppContext } from './context.ts';

const MIB = 2 ** 20;
/** Key of this installation’s id in its table. */
const INSTANCE = 'instance';

export type FleetDeps = {
  readonly store: Store;
  readonly events: LifecycleEvents;
  readonly sandboxes: SandboxManager;
  readonly limits: Config['limits'];
};

export type OpenedFleet = {
  readonly placement: Placement;
  /** With the address of the REST API, which is served by then. */
  join(listen: ListenAddress): Promise<void>;
  stop(): Promise<void>;
};

/** AppError invalid_argument for a kubeconfig or secret that cannot be used. */
export function openFleet({ config, log }: AppContext, deps: FleetDeps): OpenedFleet {
  const { fleet, admission, dataDir, tls } = config;
  if (fleet === undefined)
    return { placement: ANY_PLACE, join: async () => undefined, stop: async () => undefined };
  const client = new KubeClient(readKubeconfig(fleet.kubeconfigPath));
  const seal = FleetSeal.read(fleet.secretPath);
  const readCapacity = async () => {
    const { memoryTotalBytes } = await readHostCapacity(dataDir);
    const usableBytes =
      Math.max(0, memoryTotalBytes - admission.memoryReserveBytes) * admission.memoryOvercommit;
    return { cpus: cpus().length, memoryMib: usableBytes / MIB, sandboxes: deps.limits.sandboxes };
  };
  let agent: NodeAgent | undefined;
  const placement: Placement = {
    isFleet: true,
    admit: async (request) => {
      if (agent !== undefined) return await agent.admit(request);
      throw new AppError('exhausted', 'this host joins its fleet just now', { retryAfterS: 1 });
    },
  };
  const join = async (listen: ListenAddress): Promise<void> => {
    const scheme = tls === undefined ? 'http' : 'https';
    agent = new NodeAgent({
      ...{ client, seal, readCapacity, name: fleet.name, namespace: fleet.namespace, log },
      instance: await readInstance(deps.store),
      url: new URL(fleet.url ?? `${scheme}://${formatListen(listen)}`),
      records: deps.store.table<PlaceRecord>('fleet_places'),
      sandboxes: toLocal(deps),
    });
    agent.start();
  };
  const stop = async (): Promise<void> => {
    await agent?.stop();
    client.close();
  };
  return { placement, join, stop };
}

export function toLocal({ sandboxes, events }: Pick<FleetDeps, 'sandboxes' | 'events'>): LocalSandboxes {
  return {
    stateOf: (id) => {
      const found = sandboxes.find(id);
      return found && { state: found.state, reason: found.info.reason?.message };
    },
    delete: async (id) => {
      if (sandboxes.find(id) !== undefined) await sandboxes.delete(id);
    },
    takeOver: async (id) => {
      const { sandbox, wasRunning } = await sandboxes.moves.takeOver(id, () => true);
      if (wasRunning) await sandboxes.sleep.resume(sandbox);
    },
    departureOf: (id) => sandboxes.moves.departures?.offered(id),
    setDraining: async (isDraining) => {
      if (isDraining) await sandboxes.moves.drain.begin();
      else if (sandboxes.moves.drain.isOn) await sandboxes.moves.drain.cancel();
    },
    subscribe: (listener) => {
      sandboxes.moves.departures?.subscribe(listener);
      return events.subscribe((event) => {
        if ('sandbox' in event) listener(event.sandbox);
      });
    },
  };
}

/** Two hosts cannot be one node, also not those that were copied before their first start. */
async function readInstance(store: Store): Promise<string> {
  const table = store.table<{ readonly id: string }>('fleet_host');
  const known = table.get(INSTANCE);
  if (known !== undefined) return known.id;
  const id = randomUUID();
  await table.put(INSTANCE, { id });
  return id;
}
