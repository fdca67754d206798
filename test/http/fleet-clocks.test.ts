// Hosts and gateways whose wall clocks are wrong, or jump.
import '../support/fleet/chaos/clocks.ts';
import t from 'tap';
import { withClock } from '../support/fleet/chaos/clocks.ts';
import { type Fleet, startFleet } from '../support/fleet/fleet.ts';
import { PATIENT, startMovingSandbox } from '../support/fleet/moves.ts';
import { Refused } from '../support/fleet/objects.ts';
import { makeHome } from '../support/memory-host/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const HOUR_MS = 3_600_000;

/** Times of the Lease of a host, one for each renewal from now on. */
function renewalsOf(fleet: Fleet, name: string): number[] {
  const times: number[] = [];
  fleet.api.objects.watch('leases', fleet.api.objects.version, ({ object }) => {
    const atMs = Date.parse(object.spec.renewTime);
    if (object.metadata.name === name && atMs !== times.at(-1)) times.push(atMs);
  });
  return times;
}

t.test('the engine hears from a host whose clock is set back, also over a restart', async (t) => {
  const fleet = await startFleet(t);
  const clock = { offsetMs: 0 };
  const home = await makeHome(t);
  const start = () => withClock(clock, () => fleet.host('h0', { home }));
  const host = await start();
  const times = renewalsOf(fleet, 'h0');
  await until(() => times.length >= 2, 'renewals');
  clock.offsetMs = -HOUR_MS;
  await until(() => times.length >= 5, 'renewals with a clock that is behind');
  await host.crash();
  const count = times.length;
  await start();
  await until(() => times.length >= count + 3, 'renewals after a restart');
  t.same(
    times,
    times.toSorted((a, b) => a - b),
    'each is later than the one before',
  );
  clock.offsetMs = HOUR_MS;
  await until(() => (times.at(-1) ?? 0) > Date.now() + HOUR_MS / 2, 'a clock that is ahead');
});

t.test('what no host takes as changes is offered whole, though the clock was set back', async (t) => {
  const clock = { offsetMs: 0 };
  const moving = await withClock(clock, () => startMovingSandbox(t, { ...PATIENT, wholeMs: 500 }));
  const { s3, a, b, cordon, arrives } = moving;
  s3.checksClocks = false;
  let isRefusing = true;
  let offers = 0;
  // No host has it before the second offer.
  s3.fault = (method, key) => {
    if (method === 'PUT' && /sandboxes\/sbx/.test(key)) {
      offers += 1;
      clock.offsetMs = -HOUR_MS;
      if (offers > 1) isRefusing = false;
    }
    const isClaimed = method === 'PUT' && /claims\/sbx/.test(key);
    return isClaimed && isRefusing ? { status: 403, code: 'AccessDenied' } : undefined;
  };
  cordon('h0');
  await until(() => offers >= 2, 'another offer');
  await arrives(b, a);
});

t.test('a Node whose first status was lost is ready at the next renewal', async (t) => {
  const fleet = await startFleet(t);
  const { objects } = fleet.api;
  await fleet.host('h0');
  await fleet.ready(1);
  const change = objects.change.bind(objects);
  let isLost = false;
  objects.change = (resource, object, patch) => {
    if (resource === 'nodes' && patch.status !== undefined && !isLost) {
      isLost = true;
      throw new Refused(500, 'InternalError', 'of the test');
    }
    return change(resource, object, patch);
  };
  objects.delete('nodes', '', 'h0', 0);
  await until(() => isLost, 'a status that is lost');
  await fleet.ready(1);
});
