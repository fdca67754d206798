// When the agent trims its memory: once its anonymous memory has grown, and not when code returns from the page cache.
import '../support/addon-dir.ts';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { MemoryTrim } from '../../../../guest-agent/src/machine/memory-trim.ts';
import { addon } from '../../../../guest-agent/src/native/addon.ts';

const PAGES_PER_MIB = 256;

/** `memory`: this process's resident memory in MiB, total and file-backed. */
function startTrim(t: Test) {
  const memory = { resident: 50, ofFiles: 20 };
  let count = 0;
  const pages = (mib: number) => mib * PAGES_PER_MIB;
  t.intercept(addon, 'readText', {
    value: () => `${pages(1000)} ${pages(memory.resident)} ${pages(memory.ofFiles)} 1 0 1 0\n`,
  });
  t.intercept(addon, 'trimMemory', {
    value: () => {
      count++;
      memory.resident -= 5;
    },
  });
  return { trim: new MemoryTrim(), memory, trims: () => count };
}

t.test('what a start has left goes at once, and what comes later when it is much', async (t) => {
  const { trim, memory, trims } = startTrim(t);
  trim.check();
  trim.check();
  t.equal(trims(), 1);
  memory.resident += 11;
  trim.check();
  t.equal(trims(), 1);
  memory.resident += 1;
  trim.check();
  t.equal(trims(), 2);
});

t.test('code that comes back is no growth', async (t) => {
  const { trim, memory, trims } = startTrim(t);
  trim.check();
  memory.resident += 40;
  memory.ofFiles += 40;
  trim.check();
  t.equal(trims(), 1);
});

t.test('a copy begins with what its source had', async (t) => {
  const { trim, memory, trims } = startTrim(t);
  trim.resetBaseline();
  trim.check();
  t.equal(trims(), 0);
  memory.resident += 12;
  trim.check();
  t.equal(trims(), 1);
});

t.test('a second after a call', async (t) => {
  const { trim, trims } = startTrim(t);
  mock.timers.enable({ apis: ['setTimeout'] });
  t.teardown(() => mock.timers.reset());
  trim.touch();
  mock.timers.tick(999);
  t.equal(trims(), 0, 'no call waits for it');
  mock.timers.tick(1);
  t.equal(trims(), 1);
});
