// Step of the start: pods that others made become sandboxes of this host, each with the rights of a key.
import { request } from 'node:http';
import { checkBody, createSandboxRequest } from '@sandboxd/api';
import type { LocalSandboxes, PodCreate, PodSandboxes, Readiness } from '../fleet/index.ts';
import type { GuestPorts } from '../guest/port-stream.ts';
import { toCreateOptions } from '../http/index.ts';
import { assertOperation, type KeyRegistry, OPERATOR, type Principal, stateOf } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import type { SandboxManager } from '../sandboxes/manager.ts';
import type { RunningVm } from '../sandboxes/running-vm.ts';

/** Table of the registry: pods of others that run here. */
export const PODS_TABLE = 'fleet_pods';

export type PodDeps = {
  readonly sandboxes: SandboxManager;
  readonly keys: Pick<KeyRegistry, 'isClosed' | 'isAwaiting' | 'list' | 'holder'>;
  /** As those of the REST interface. */
  readonly limits: Parameters<typeof createSandboxRequest>[0];
  readonly hasImages: boolean;
};

/** `key`: name of the key of pods without a tenant, and prefix of those of tenants. */
export function toPodSandboxes(key: string, deps: PodDeps, local: LocalSandboxes): PodSandboxes {
  const { sandboxes } = deps;
  const schema = createSandboxRequest(deps.limits);
  // To ask is no use: it must not keep a sandbox from being idle.
  const runningOf = (id: string): RunningVm => {
    const running = sandboxes.find(id)?.running;
    if (running === undefined) throw new AppError('paused', `sandbox ${id} does not run`);
    return running;
  };
  return {
    stateOf: local.stateOf,
    delete: local.delete,
    subscribe: local.subscribe,
    assertAllowed: (tenant) => void findPrincipal(key, tenant, deps.keys),
    create: async ({ id, tenant, body }, signal) => {
      const principal = findPrincipal(key, tenant, deps.keys);
      const checked = checkBody(schema, body, true);
      if (!checked.isValid) throw new AppError('invalid_argument', checked.problem);
      if (checked.value.image !== undefined && !deps.hasImages)
        throw new AppError('unsupported', 'this host has no images');
      const { vcpus, memory_mib: memoryMib } = checked.value;
      const options = { ...toCreateOptions(checked.value), vcpus, memoryMib, id };
      await sandboxes.as(principal).create(options, signal);
    },
    service: async (id, signal) => {
      const status = await runningOf(id).guest.service.control('status', undefined, signal);
      return status.state === 'idle' ? undefined : status;
    },
    stopService: async (id, graceMs, signal) => {
      await runningOf(id).guest.service.control('stop', graceMs, signal);
    },
    isReady: (id, readiness, signal) => isReady(runningOf(id).guest, readiness, signal),
  };
}

/**
 * AppError forbidden: the operator has given this tenant no key for pods, or one that may not create sandboxes;
 * `upstream` while the keys of the fleet are not known.
 */
function findPrincipal(base: string, tenant: PodCreate['tenant'], keys: PodDeps['keys']): Principal {
  const name = tenant === undefined ? base : `${base}-${tenant}`;
  if (!keys.isClosed && tenant === undefined) return OPERATOR;
  const all = keys
    .list()
    .filter((each) => each.name === name && each.tenant === tenant && stateOf(each) === 'valid');
  // This host's own one, where the fleet has one, too.
  const found = all.find(({ isShared }) => isShared !== true) ?? all[0];
  const holder = found && keys.holder(found.id);
  if (holder !== undefined) {
    assertOperation(holder, 'create');
    return holder;
  }
  if (keys.isAwaiting) throw new AppError('upstream', 'the keys of the fleet are not known here yet');
  const of = tenant === undefined ? 'without a tenant' : `of the tenant ${tenant}`;
  throw new AppError(
    'forbidden',
    `this host has no valid key ${name} ${of}, whose rights a pod here would have`,
  );
}

/** What `guest` answers is a guest's: it may be anything. */
export async function isReady(
  { ports }: { readonly ports: Pick<GuestPorts, 'connect'> },
  { port, path }: Pick<Readiness, 'port' | 'path'>,
  signal: AbortSignal,
): Promise<boolean> {
  const connection = await ports.connect(port, { signal });
  connection.on('error', () => undefined);
  try {
    if (path === undefined) return true;
    const status = await new Promise<number>((resolve, reject) => {
      const asked = request(
        { path, signal, headers: { host: `localhost:${port}` }, createConnection: () => connection },
        (response) => {
          response.on('error', () => undefined);
          resolve(response.statusCode ?? 0);
        },
      );
      asked.on('error', reject);
      // Also when it switches protocols, without an error.
      asked.on('close', () => reject(new Error('no answer')));
      asked.end();
    });
    return status >= 200 && status < 400;
  } finally {
    connection.destroy();
  }
}
