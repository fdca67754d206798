// Hosts, gateways, the API server and the bucket are started, killed, cut off, drained and lied to, in random order
// under load (FLEET_CHAOS: for how many seconds; FLEET_DISTURB: by what, such as `clock,drain`; SEED repeats a run).
// Afterwards the catalogue is the union of the registries, and nothing is twice, lost or left.
import '../support/network/own-network.ts';
import '../support/fleet/chaos/clocks.ts';
import { randomInt } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { DISTURBANCES } from '../support/fleet/chaos/disturbances.ts';
import { Load } from '../support/fleet/chaos/load.ts';
import { makeRandom } from '../support/fleet/chaos/random.ts';
import { assertNothingLeft, assertSettled } from '../support/fleet/chaos/verdict.ts';
import { prepareNetwork, World } from '../support/fleet/chaos/world.ts';
import { scaled } from '../support/time-scale.ts';

const SECONDS = Number(process.env.FLEET_CHAOS ?? 60);
const SEED = Number(process.env.SEED ?? randomInt(2 ** 31));
const NAMES = process.env.FLEET_DISTURB?.split(',') ?? Object.keys(DISTURBANCES);
const WORKERS = 4;
const LIMIT_MS = scaled(SECONDS * 2000 + 1_200_000);
t.setTimeout(LIMIT_MS);

prepareNetwork();

t.test('parts start, end and fail in random order', async (t) => {
  t.comment(`SEED=${SEED} FLEET_CHAOS=${SECONDS} FLEET_DISTURB=${NAMES.join()}`);
  const random = makeRandom(SEED);
  const world = await World.start(t, random, LIMIT_MS);
  const load = new Load(world);
  const running = load.start(WORKERS);
  let disturbances = 0;
  const endMs = performance.now() + SECONDS * 1000;
  while (performance.now() < endMs) {
    // Together: each one goes on while the next begins.
    for (let left = 4 + random(12); left > 0 && performance.now() < endMs; left--, disturbances++) {
      await DISTURBANCES[NAMES[random(NAMES.length)] ?? '']?.(world, load);
      load.observe();
      await sleep(scaled(100 + random(400)));
    }
    // Else nothing would be made after a while. Not for long enough to settle all.
    await world.heal();
    t.comment(
      `${disturbances} disturbances; ${load.alive.size} sandboxes are there, ${load.gone.size} were deleted`,
    );
    for (let n = 0; n < 10; n++) {
      load.observe();
      await sleep(scaled(random(800)));
    }
  }
  await world.heal();
  await running.stop();
  const gateway = await world.startGateway();
  const { alive, gone, perhaps, moved, answers } = load;
  t.comment(
    `${disturbances} disturbances, ${alive.size} left, ${gone.size} deleted, ${perhaps.size} without pods, ${moved} moved or unplaced`,
  );
  t.comment(
    [...answers]
      .sort()
      .map(([what, count]) => `${what}: ${count}`)
      .join(', '),
  );
  t.comment(`404 about what is there: ${load.unknown.join()}`);
  await assertSettled(world, load);
  await assertNothingLeft(world, gateway);
});
