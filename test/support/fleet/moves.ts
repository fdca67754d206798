// A fleet whose hosts have a snapshot store in common, so that sandboxes move between them.
import type { Test } from 'tap';
import type { S3Server } from '../s3/server.ts';
import { startS3 } from '../s3/server.ts';
import { makeStoreSettings, openTestStore } from '../s3/store.ts';
import { until } from '../until.ts';
import { type Fleet, startFleet } from './fleet.ts';

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
