// A kill at each step of a move: one host has the sandbox, and it runs as before.
import { cpSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { FaultPoint } from '../../host-agent/src/lib/faults.ts';
import type { Table } from '../../host-agent/src/store/store.ts';
import { type MemoryDaemonOptions, makeHome } from '../support/memory-host/daemon.ts';
import { openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import { create, drain, drained, type Hosts, parkedIn, resume } from './moves-hosts.ts';
import { eventually, prepareHosts } from './store-hosts.ts';

t.setTimeout(scaled(300_000));

/** A daemon that is killed at a point: from then on it writes nothing, neither here nor in the bucket. */
function makeDoomed(t: Test, { settings }: Hosts, point: FaultPoint, onDeath?: () => void) {
  let isDead = false;
  const faults = {
    reach: (reached: FaultPoint) => {
      if (reached === point && !isDead) {
        isDead = true;
        onDeath?.();
      }
      if (isDead) throw new Error(`killed at ${point}`);
    },
  };
  const writes = new Set<string | symbol>(['put', 'putAll', 'remove', 'atomically']);
  const doomed = <T extends object>(target: T, isWrite: (name: string | symbol) => boolean): T =>
    new Proxy(target, {
      get: (_, name) => {
        const value: unknown = Reflect.get(target, name);
        if (name === 'parked') return doomed(value as object, () => true);
        if (typeof value !== 'function') return value;
        return (...args: unknown[]) => {
          if (isDead && isWrite(name)) return Promise.reject(new Error('killed'));
          return value.apply(target, args);
        };
      },
    });
  const table = <T>(target: Table<T>) => doomed(target, (name) => writes.has(name));
  const options: MemoryDaemonOptions = {
    faults,
    changeRecords: table,
    changeMoves: ({ departures, arrivals, drain }) => ({
      departures: table(departures),
      arrivals: table(arrivals),
      drain: table(drain),
    }),
    snapshotStore: doomed(openTestStore(t, settings).store, () => true),
  };
  return { options, isDead: () => isDead };
}

/** What is saved and not published. */
const unfinishedIn = (dataDir: string): string[] => {
  const root = join(dataDir, 'snapshots');
  return readdirSync(root).filter((name) => name.startsWith('.'));
};

const LEAVING = [
  ...(['move.saved', 'move.copied', 'move.paused', 'move.recorded'] as const),
  ...(['move.sent', 'move.offered', 'move.published'] as const),
];
for (const point of LEAVING)
  t.test(`the leaving host is killed at ${point}: the sandbox is on one host`, async (t) => {
    const hosts = await prepareHosts(t);
    const home = await makeHome(t);
    const root = join(home.dataDir, 'snapshots');
    const doomed = makeDoomed(t, hosts, point, () => {
      // A killed daemon does not remove it.
      for (const name of unfinishedIn(home.dataDir))
        cpSync(join(root, name), join(root, `${name}-left`), { recursive: true });
    });
    const a = await hosts.start({ home, ...doomed.options });
    const b = await hosts.start();
    const id = await create(a);
    await a.manager.moves.drain.begin();
    await eventually(doomed.isDead);
    await sleep(50);
    await a.crash();
    // While the host is gone, another has it if, and only if, it was offered.
    const early = await resume(b, id);
    t.equal(early.status, point === 'move.published' ? 200 : 404);
    t.equal(unfinishedIn(home.dataDir).length, point === 'move.saved' ? 1 : 0);
    const again = await hosts.start({ home });
    if (early.status === 200) await eventually(() => again.manager.find(id) === undefined);
    else {
      await drained(again);
      t.equal((await resume(b, id)).status, 200);
      await eventually(() => again.manager.find(id) === undefined);
    }
    t.equal(b.notesOf(id).where, 'there');
    t.same(parkedIn(hosts), []);
    t.same(unfinishedIn(home.dataDir), []);
  });

for (const isTaken of [false, true])
  t.test(`a return is cut off, and ${isTaken ? 'another host' : 'none'} asks for the sandbox`, async (t) => {
    const hosts = await prepareHosts(t);
    const home = await makeHome(t);
    const doomed = makeDoomed(t, hosts, 'move.taken-back');
    const a = await hosts.start({ home, ...doomed.options });
    const b = await hosts.start();
    const id = await create(a);
    await drain(a);
    await a.manager.moves.drain.cancel();
    await eventually(doomed.isDead);
    await sleep(50);
    await a.crash();
    if (isTaken) t.equal((await resume(b, id)).status, 404);
    const again = await hosts.start({ home });
    await eventually(() => again.manager.get(id).state === 'running');
    t.equal(again.notesOf(id).where, 'there');
    t.equal((await resume(b, id)).status, 404);
  });

t.test(
  'a host is killed when a sandbox has returned, and before it runs: the next daemon resumes it',
  async (t) => {
    const hosts = await prepareHosts(t);
    const home = await makeHome(t);
    const doomed = makeDoomed(t, hosts, 'move.returned');
    const a = await hosts.start({ home, ...doomed.options });
    const id = await create(a);
    const other = await create(a, { name: 'paused' });
    await a.ask('POST', `/sandboxes/${other}/pause`, {});
    await drain(a);
    await a.manager.moves.drain.cancel();
    await eventually(doomed.isDead);
    await sleep(50);
    await a.crash();
    const again = await hosts.start({ home });
    await eventually(() => again.manager.get(id).state === 'running');
    t.equal(again.notesOf(id).where, 'there');
    t.equal(again.manager.get(other).state, 'paused', 'what was paused stays so');
    t.equal((await again.ask('POST', `/sandboxes/${id}/pause`, {})).status, 200);
    await again.crash();
    const third = await hosts.start({ home });
    await sleep(200);
    t.equal(third.manager.get(id).state, 'paused', 'a pause of a client counts');
  },
);

for (const point of ['arrival.claimed', 'arrival.recorded'] as const)
  t.test(`the new host is killed at ${point}: its next daemon resumes the sandbox by itself`, async (t) => {
    const hosts = await prepareHosts(t);
    const home = await makeHome(t);
    const doomed = makeDoomed(t, hosts, point);
    const a = await hosts.start();
    const b = await hosts.start({ home, ...doomed.options });
    const id = await create(a);
    await drain(a);
    t.not((await resume(b, id)).status, 200);
    await b.crash();
    const again = await hosts.start({ home });
    await eventually(() => again.manager.find(id)?.state === 'running');
    t.equal(again.notesOf(id).where, 'there');
  });

for (const point of ['arrival.fetched', 'arrival.claimed', 'arrival.recorded'] as const)
  t.test(`the host where it arrives is killed at ${point}: the sandbox is on one host`, async (t) => {
    const hosts = await prepareHosts(t);
    const home = await makeHome(t);
    const doomed = makeDoomed(t, hosts, point);
    const [a, c] = [await hosts.start(), await hosts.start()];
    const b = await hosts.start({ home, ...doomed.options });
    const id = await create(a);
    await drain(a);
    t.not((await resume(b, id)).status, 200);
    t.ok(doomed.isDead());
    await b.crash();
    const other = await resume(c, id);
    t.equal(other.status, point === 'arrival.fetched' ? 200 : 404, 'the holder of the claim has the sandbox');
    const again = await hosts.start({ home });
    await eventually(() => a.manager.find(id) === undefined);
    if (other.status === 200) t.equal((await resume(again, id)).status, 404);
    else {
      await eventually(() => again.manager.find(id) !== undefined);
      t.equal((await resume(again, id)).status, 200);
      t.equal(again.notesOf(id).where, 'there');
    }
    await eventually(() => parkedIn(hosts).length === 0);
  });
