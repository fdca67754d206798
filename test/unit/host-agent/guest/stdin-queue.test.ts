// The queue of input that waits for credit.
import fc from 'fast-check';
import t from 'tap';
import { StdinQueue } from '../../../../host-agent/src/guest/stdin-queue.ts';

t.test('what goes in comes out, however it is cut', async (t) => {
  const step = fc.oneof(
    fc.record({ push: fc.uint8Array({ minLength: 1, maxLength: 40 }) }),
    fc.record({
      push: fc.integer({ min: 4000, max: 9000 }).map((length) => new Uint8Array(length).fill(length)),
    }),
    fc.record({ take: fc.integer({ min: 1, max: 5000 }) }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const queue = new StdinQueue();
      const pushed: Uint8Array[] = [];
      const taken: { readonly bytes: Uint8Array; readonly hex: string }[] = [];
      const take = (maxBytes: number): boolean => {
        const bytes = queue.take(maxBytes);
        if (bytes === undefined) return false;
        t.ok(bytes.length >= 1 && bytes.length <= maxBytes);
        taken.push({ bytes, hex: Buffer.from(bytes).toString('hex') });
        return true;
      };
      for (const step of steps) {
        if ('push' in step) {
          queue.push(step.push);
          pushed.push(step.push);
        } else take(step.take);
      }
      while (take(1000));
      t.equal(queue.sizeBytes, 0);
      t.ok(Buffer.concat(taken.map(({ bytes }) => bytes)).equals(Buffer.concat(pushed)));
      t.ok(
        taken.every(({ bytes, hex }) => Buffer.from(bytes).toString('hex') === hex),
        'what was taken is not written to again',
      );
    }),
    { numRuns: 100 },
  );
});

t.test('single bytes share memory', async (t) => {
  const queue = new StdinQueue();
  for (let n = 0; n < 100_000; n++) queue.push(Uint8Array.of(n));
  t.equal(queue.sizeBytes, 100_000);
  t.ok(queue.chunkCount <= 25, `${queue.chunkCount} pieces`);
  queue.clear();
  t.equal(queue.sizeBytes, 0);
  t.equal(queue.take(10), undefined);
});

t.test('a piece of a large chunk does not keep the chunk', async (t) => {
  const queue = new StdinQueue();
  queue.push(Buffer.alloc(1 << 20).subarray(0, 5000));
  t.equal(queue.take(5000)?.buffer.byteLength, 5000);
  const whole = Buffer.alloc(65_536);
  queue.push(whole);
  t.equal(queue.take(65_536)?.buffer, whole.buffer, 'a whole one is not copied');
});
