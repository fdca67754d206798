// Daemons with own data directories over one bucket.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Owner } from '../../host-agent/src/keys/index.ts';
import { type MemoryDaemonOptions, startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { makeApp } from './support.ts';

const LIMIT_MS = 60_000;

export const fork = { count: 1 };

export type Snapshot = { id: string; storage?: string; storage_error?: string; name?: string };
type List = { snapshots: Snapshot[]; store_error?: string };

export async function prepareHosts(t: Test) {
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const start = async (options: MemoryDaemonOptions = {}) => {
    const { store, collector } = openTestStore(t, settings);
    const daemon = await startMemoryDaemon(t, { snapshotStore: store, ...options });
    const { app } = makeApp({ sandboxes: daemon.manager, logs: daemon.logs });
    const ask = async <T = Snapshot>(method: string, path: string, body?: object) => {
      const response = await app.request(path, {
        method,
        ...(body && { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
      });
      const text = await response.text();
      return {
        status: response.status,
        body: (text ? JSON.parse(text) : undefined) as T & { error?: string },
      };
    };
    const storageOf = async (id: string) => (await ask('GET', `/snapshots/${id}`)).body.storage;
    /** Waits for a state of a snapshot. */
    const reached = async (id: string, state: string | undefined) => {
      const endMs = performance.now() + scaled(LIMIT_MS);
      for (let last: string | undefined; ; await sleep(50)) {
        last = await storageOf(id);
        if (last === state) return;
        if (performance.now() > endMs) throw new Error(`${id} is ${last}, not ${state}`);
      }
    };
    const take = async (owner?: Owner) => {
      const { id } = await daemon.manager.create({});
      const request = { cmd: ['note', 'where', 'there'], env: {}, cwd: '', timeout_s: 0 } as never;
      await new Promise((exit) => daemon.manager.get(id).exec(request, { output: () => undefined, exit }));
      const by = owner && { owner, policy: undefined };
      return await daemon.manager.snapshot(daemon.manager.get(id), undefined, by);
    };
    const list = async () => (await ask<List>('GET', '/snapshots')).body;
    const notesOf = (id: string) => daemon.host.of(id).agent.state.notes;
    return {
      ...daemon,
      store: daemon.store,
      bucketStore: store,
      collector,
      app,
      ask,
      reached,
      storageOf,
      take,
      list,
      notesOf,
    };
  };
  return { s3, settings, start };
}

export async function eventually(isTrue: () => boolean | Promise<boolean>): Promise<void> {
  for (const endMs = performance.now() + scaled(LIMIT_MS); !(await isTrue()); await sleep(100))
    if (performance.now() > endMs) throw new Error(`it did not become true: ${isTrue}`);
}
