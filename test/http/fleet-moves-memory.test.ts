// The memory of a sandbox that arrives is the one that was paused, whatever was fetched before the pause.
import { copyFileSync, globSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import t, { type Test } from 'tap';
import type { FaultPoint } from '../../host-agent/src/lib/faults.ts';
import type { StoreManifest } from '../../host-agent/src/snapshot-store/index.ts';
import { ask, type FleetHost } from '../support/fleet/fleet.ts';
import { holdFetches, PATIENT, startMovingSandbox as prepare } from '../support/fleet/moves.ts';
import { openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(240_000));

t.test('changes of another base are noticed where they arrive, and all is offered', async (t) => {
  let paused = '';
  const fake: { a?: FleetHost; b?: FleetHost } = {};
  const memoryOf = ({ daemon }: FleetHost, dir: string): string[] =>
    globSync(join(daemon.home.dataDir, dir, 'memory')).filter((path) => statSync(path).isFile());
  // The copy that is kept becomes what is paused: nothing seems to have changed.
  const faults = {
    reach: (point: FaultPoint) => {
      if (point !== 'pause.written' || fake.a === undefined) return;
      const [path = ''] = memoryOf(fake.a, 'sandboxes/*/paused/1');
      paused = readFileSync(path, 'utf8');
      for (const copy of memoryOf(fake.a, 'snapshots/.*')) copyFileSync(path, copy);
    },
  };
  const arrived: string[] = [];
  const ownFaults = {
    reach: (point: FaultPoint) => {
      if (point !== 'arrival.fetched' || fake.b === undefined) return;
      for (const path of memoryOf(fake.b, 'sandboxes/*/paused/1')) arrived.push(readFileSync(path, 'utf8'));
    },
  };
  const moving = await prepare(t, { ...PATIENT, wholeMs: 0 }, { faults: ownFaults }, { faults });
  Object.assign(fake, { a: moving.a, b: moving.b });
  // Its memory is compared with the copy.
  moving.home.host.logsChanges = false;
  const isRead = Promise.withResolvers<void>();
  let offers = 0;
  moving.s3.fault = async (method, key) => {
    if (!/(?:^|\/)sandboxes\/sbx/.test(key)) return undefined;
    if (method === 'GET' && offers > 0) isRead.resolve();
    if (method === 'PUT' && ++offers > 1) await isRead.promise;
    return undefined;
  };
  moving.cordon('h0');
  await moving.arrives(moving.b);
  t.match(paused, /^memory/);
  t.same(arrived, [paused], 'only what is right is taken');
  t.ok(offers > 1);
});

t.test('memory of another size than that of the copy: its checksums are those of all of it', async (t) => {
  const found: [number, number][] = [];
  const fake: { b?: FleetHost } = {};
  const faults = {
    reach: (point: FaultPoint) => {
      if (point !== 'arrival.fetched' || fake.b === undefined) return;
      const [dir = ''] = globSync(join(fake.b.daemon.home.dataDir, 'sandboxes/*/paused/1'));
      found.push([statSync(join(dir, 'memory')).size, statSync(join(dir, 'checksums')).size]);
    },
  };
  const moving = await prepare(t, PATIENT, { faults, local: { takesChanges: false } });
  fake.b = moving.b;
  moving.home.host.logsChanges = false;
  const sizes = [65_536, 5 * 65_536];
  moving.home.host.onSave = async () => {
    moving.home.host.savedMemory = Buffer.alloc(sizes.shift() ?? 0, 'memory');
  };
  moving.cordon('h0');
  await moving.arrives(moving.b);
  t.same(found, [[5 * 65_536, 6 * 4]]);
});

/** Files of pauses at the source as they are written, and the memory that is fetched. */
async function watchPauses(t: Test) {
  const seen = { written: [] as string[], arrived: [] as Buffer[] };
  const fake: { a?: FleetHost; b?: FleetHost } = {};
  const filesOf = (host: FleetHost | undefined, files: string): string[] =>
    host === undefined ? [] : globSync(join(host.daemon.home.dataDir, 'sandboxes/*/paused', files));
  const faults = {
    reach: (point: FaultPoint) => {
      if (point === 'pause.written')
        seen.written.push(
          filesOf(fake.a, '*/*')
            .map((path) => basename(path))
            .sort()
            .join(),
        );
    },
  };
  const ownFaults = {
    reach: (point: FaultPoint) => {
      if (point === 'arrival.fetched')
        seen.arrived.push(...filesOf(fake.b, '1/memory').map((path) => readFileSync(path)));
    },
  };
  const moving = await prepare(t, PATIENT, { faults: ownFaults }, { faults });
  Object.assign(fake, { a: moving.a, b: moving.b });
  return { ...moving, seen };
}

t.test('a pause writes the pages that have changed since the copy, and these alone are sent', async (t) => {
  const { cordon, arrives, b, home, s3, settings, seen } = await watchPauses(t);
  const { store } = openTestStore(t, settings);
  let offered: StoreManifest | undefined;
  s3.fault = async (method, key) => {
    const [, parked] = /claims\/(sbx_[0-9a-v]+\/[0-9a-f]+)$/.exec(key) ?? [];
    if (method === 'PUT' && parked !== undefined) offered = await store.read(parked);
    return undefined;
  };
  cordon('h0');
  await arrives(b);
  t.same(seen.written, ['changes,checksums,memory,state'], 'the memory is that of the copy');
  t.same(seen.arrived, [home.host.savedMemory]);
  const [memory] = offered?.files ?? [];
  t.same(
    memory?.changes?.map(([blocks]) => blocks),
    [2],
  );
});

t.test('one that was paused and resumed while it was fetched ahead is compared with the copy', async (t) => {
  const { cordon, arrives, b, home, s3, url, id, seen } = await watchPauses(t);
  const held = holdFetches(s3);
  cordon('h0');
  await held.begun();
  for (const verb of ['pause', 'resume'])
    t.equal((await ask(url, 'POST', `/sandboxes/${id}/${verb}`, {})).status, 200, verb);
  held.release();
  await arrives(b);
  t.equal(seen.written.length, 2);
  t.notMatch(seen.written.at(-1), /changes/, 'its VMM does not know what changed before');
  t.same(seen.arrived, [home.host.savedMemory]);
});
