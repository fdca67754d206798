// Many paused sandboxes that are woken at once: admission, order and the daemon's own memory.
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import t, { type Test } from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { isAppError } from '../../../../host-agent/src/lib/errors.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { scaled } from '../../../support/time-scale.ts';

const SLEEPERS = 100;
const STARTS = 4;
const LIMITS = { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, fork: 64 };

async function start(t: Test, sandboxes: number) {
  const limits = { ...LIMITS, sandboxes };
  const [memoryBytes, diskFreeBytes] = [2 ** 40, 2 ** 44];
  const readCapacity = async () => ({
    ...{ memoryTotalBytes: memoryBytes, memoryAvailableBytes: memoryBytes, diskFreeBytes },
  });
  const daemon = await startMemoryDaemon(t, { readCapacity, maxConcurrentStarts: STARTS, limits });
  const { manager, host } = daemon;
  host.agentFaults = { freezes: true };
  const handle = (id: string) => manager.as(OPERATOR).get(id);
  t.setTimeout(scaled(120_000));
  const ids: string[] = [];
  const makeOne = async () => {
    const { id } = await manager.create({});
    await handle(id).pause(true);
    ids.push(id);
  };
  while (ids.length < SLEEPERS) await Promise.all(Array.from({ length: 20 }, makeOne));
  return { ...daemon, ids, handle };
}

t.test(`${SLEEPERS} sleepers woken at once: as many as fit, a few at a time`, async (t) => {
  const fits = 60;
  const { host, ids, handle, manager } = await start(t, fits);
  const before = host.counts.restores;
  let [now, most] = [0, 0];
  host.onRestore = async () => {
    most = Math.max(most, ++now);
    await sleep(5);
    now--;
  };
  const startedAt = performance.now();
  const times: number[] = [];
  const wake = async (id: string) => {
    await handle(id).awake();
    times.push(performance.now() - startedAt);
  };
  const results = await Promise.allSettled(ids.flatMap((id) => [wake(id), wake(id)]));
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []));
  t.equal(refused.length, 2 * (SLEEPERS - fits));
  t.ok(refused.every((error) => isAppError(error) && error.code === 'exhausted'));
  t.equal(host.counts.restores - before, fits, 'one resume for all that wait for it');
  t.ok(most <= STARTS, `${most} at a time`);
  const states = manager.list().map(({ state }) => state);
  t.equal(states.filter((state) => state === 'running').length, fits);
  t.equal(states.filter((state) => state === 'paused').length, SLEEPERS - fits, 'the others stay paused');
  times.sort((a, b) => a - b);
  const at = (share: number) => Math.round(times[Math.floor(share * (times.length - 1))] ?? 0);
  t.comment(`p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, of 5 ms each`);
});

t.test('a sleeper takes less than 1 MiB of the daemon', async (t) => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const readMib = () => {
    gc();
    const { heapUsed, external } = process.memoryUsage();
    return (heapUsed + external) / 2 ** 20;
  };
  const before = readMib();
  const { ids } = await start(t, SLEEPERS);
  const each = (readMib() - before) / ids.length;
  t.comment(`${each.toFixed(3)} MiB each`);
  t.ok(each < 1);
});
