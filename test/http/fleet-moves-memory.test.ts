// The memory of a sandbox that arrives is the one that was paused, whatever was fetched before the pause.
import { copyFileSync, globSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import type { FaultPoint } from '../../host-agent/src/lib/faults.ts';
import type { FleetHost } from '../support/fleet/fleet.ts';
import { PATIENT, startMovingSandbox as prepare } from '../support/fleet/moves.ts';
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
  const sizes = [65_536, 5 * 65_536];
  moving.home.host.onSave = async () => {
    moving.home.host.savedMemory = Buffer.alloc(sizes.shift() ?? 0, 'memory');
  };
  moving.cordon('h0');
  await moving.arrives(moving.b);
  t.same(found, [[5 * 65_536, 6 * 4]]);
});
