// A fleet whose hosts have a snapshot store in common, so that sandboxes move between them.
import type { Test } from 'tap';
import { PAGE_BYTES } from '../../../host-agent/src/engines/mapping.ts';
import type { MoveTimes } from '../../../host-agent/src/sandboxes/moves/index.ts';
import { makeHome } from '../memory-host/daemon.ts';
import type { S3Server } from '../s3/server.ts';
import { startS3 } from '../s3/server.ts';
import { makeStoreSettings, openTestStore } from '../s3/store.ts';
import { until } from '../until.ts';
import { ask, type Fleet, type FleetHost, type HostOptions, startFleet } from './fleet.ts';

/** `moveTimes` of a host that chooses none before the pause, as an earlier version. */
export const NOT_AHEAD = { placedMs: 0 };

export async function startMovingFleet(t: Test) {
  const fleet = await startFleet(t);
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const host = (name: string, options: Parameters<Fleet['host']>[1] = {}) =>
    fleet.host(name, { snapshotStore: openTestStore(t, settings).store, ...options });
  const cordon = (name: string, unschedulable = true) =>
    fleet.api.objects.change('nodes', fleet.api.objects.get('nodes', '', name), { spec: { unschedulable } });
  return { fleet, s3, settings, host, cordon };
}

/** No limit ends a wait. */
export const PATIENT: MoveTimes = { placedMs: 600_000, fetchedMs: 600_000, wholeMs: 600_000 };
const MEMORY_PAGES = 40;

/** A sandbox that runs at `h0`, and `h1`, to which it can move. */
export async function startMovingSandbox(
  t: Test,
  moveTimes: MoveTimes = PATIENT,
  other: HostOptions = {},
  own: HostOptions = {},
) {
  const moving = await startMovingFleet(t);
  const { fleet, host } = moving;
  const home = await makeHome(t);
  // As a guest that runs does, it changes its memory between two saves.
  home.host.logsChanges = true;
  home.host.onSave = async (count) => {
    home.host.savedMemory = Buffer.alloc(MEMORY_PAGES * PAGE_BYTES, 'memory');
    home.host.savedMemory.fill(
      count,
      (count % MEMORY_PAGES) * PAGE_BYTES,
      ((count % MEMORY_PAGES) + 1) * PAGE_BYTES,
    );
  };
  const a = await host('h0', { home, moveTimes, ...own });
  await fleet.ready(1);
  const { url } = await fleet.gateway({ sweepMs: 300, unboundMs: 600_000, lostMs: 1000 });
  const { body } = await ask(url, 'POST', '/sandboxes', {});
  const b = await host('h1', other);
  await fleet.ready(2);
  const arrives = async (to: FleetHost, from: FleetHost = a): Promise<void> => {
    await until(() => to.daemon.manager.list()[0]?.state === 'running', 'it runs at the other host');
    await until(() => from.daemon.manager.list().length === 0, 'the first host has forgotten it');
    await until(() => fleet.api.objects.list('pods').length === 1, 'one place');
  };
  return { ...moving, home, a, b, url, id: body.id, arrives };
}

type Refusal = { readonly status: number; readonly code: string };

/** Chunks are not read from the bucket until they are released; `answer`: of those that were asked for before. */
export function holdFetches(s3: S3Server, answer?: Refusal) {
  const gate = Promise.withResolvers<void>();
  let isFetching = false;
  s3.fault = async (method, key) => {
    if (method !== 'GET' || !/chunks\//.test(key)) return undefined;
    isFetching = true;
    await gate.promise;
    return answer;
  };
  return {
    begun: () => until(() => isFetching, 'it is fetched'),
    /** Those that follow are answered at once. */
    release: (): void => {
      s3.fault = () => undefined;
      gate.resolve();
    },
  };
}
