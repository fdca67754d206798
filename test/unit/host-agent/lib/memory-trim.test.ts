// Garbage is collected when the process is idle, and not while it works.
import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { getHeapSpaceStatistics } from 'node:v8';
import t from 'tap';
import { MemoryTrim, makeCollector } from '../../../../host-agent/src/lib/memory-trim.ts';

const INTERVAL_MS = 100;
/** More than the growth that triggers a collection. */
const GARBAGE_BYTES = 16 * 2 ** 20;

/** Uses about half of the CPU time for this duration. */
async function work(ms: number): Promise<void> {
  const end = performance.now() + ms;
  while (performance.now() < end) {
    const pause = performance.now() + 10;
    while (performance.now() < pause);
    await sleep(10);
  }
}

async function until(isSo: () => boolean): Promise<void> {
  for (let n = 0; n < 100 && !isSo(); n++) await sleep(INTERVAL_MS);
}

t.test('a process that works is let alone, one that rests is trimmed once', async (t) => {
  let collections = 0;
  const trim = new MemoryTrim(() => collections++, INTERVAL_MS);
  t.teardown(() => trim.stop());
  // The first check sees a process that has grown from nothing.
  await until(() => collections === 1);
  const held = new Uint8Array(GARBAGE_BYTES).fill(1);
  await work(5 * INTERVAL_MS);
  t.equal(collections, 1, 'not while it works');
  await until(() => collections === 2);
  t.equal(collections, 2, 'when it rests');
  await sleep(15 * INTERVAL_MS);
  t.equal(collections, 2, 'and not again for what is still in use');
  t.equal(held[0], 1);
});

t.test('a collection frees unreachable objects', async (t) => {
  let buffer: Uint8Array | undefined = new Uint8Array(GARBAGE_BYTES).fill(1);
  const before = process.memoryUsage().arrayBuffers;
  await sleep(1);
  t.equal(buffer[0], 1);
  buffer = undefined;
  makeCollector()();
  const isFree = (): boolean => before - process.memoryUsage().arrayBuffers > GARBAGE_BYTES / 2;
  // Another thread frees it.
  await until(isFree);
  t.ok(isFree());
});

t.test('a collection returns the memory of young objects', async (t) => {
  const youngBytes = () =>
    getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')?.physical_space_size ?? 0;
  const kept: object[] = [];
  for (let n = 0; n < 2_000_000; n++) {
    const one = { n, text: `${n}` };
    if (n % 20 === 0) kept.push(one);
  }
  t.ok(youngBytes() > 4 * 2 ** 20, `${youngBytes()}`);
  makeCollector()();
  t.ok(youngBytes() < 2 ** 20, `${youngBytes()}`);
  t.equal(kept.length, 100_000);
});
