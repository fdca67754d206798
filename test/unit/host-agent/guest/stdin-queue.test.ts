// The queue of stdin that waits for credit.
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
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const queue = new StdinQueue();
      const pushed: Uint8Array[] = [];
      const taken: { readonly bytes: Uint8Array; readonly hex: string }[] = [];
      const take = (maxBytes: number): boolean => {
        const bytes = queue.take(maxBytes);
        if (bytes === undefined) return false;
        if (bytes.length < 1 || bytes.length > maxBytes) throw new Error(`${bytes.length} bytes`);
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
      if (queue.sizeBytes !== 0) throw new Error(`${queue.sizeBytes} bytes are left`);
      // Memory of taken chunks is not reused.
      return (
        Buffer.concat(taken.map(({ bytes }) => bytes)).equals(Buffer.concat(pushed)) &&
        taken.every(({ bytes, hex }) => Buffer.from(bytes).toString('hex') === hex)
      );
    }),
    { numRuns: 100 },
  );
  t.pass();
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

t.test('small pieces are copied together, large ones are kept as they are', async (t) => {
  const queue = new StdinQueue();
  const isKept = (bytes: Uint8Array): boolean => {
    queue.push(bytes);
    const { chunkCount } = queue;
    t.equal(chunkCount, 1);
    const taken = queue.take(bytes.length);
    t.equal(taken?.length, bytes.length);
    t.same([queue.sizeBytes, queue.chunkCount, queue.take(1)], [0, 0, undefined]);
    return taken?.buffer === bytes.buffer;
  };
  t.notOk(isKept(Buffer.alloc(4095)));
  queue.clear();
  t.ok(isKept(Buffer.alloc(4096)));
  t.ok(isKept(Buffer.alloc(16_384).subarray(0, 4096)), 'a quarter of its memory');
  t.notOk(isKept(Buffer.alloc(16_388).subarray(0, 4096)));
});

t.test('what is queued is known piece by piece, and forgotten whole', async (t) => {
  const queue = new StdinQueue();
  const small = Buffer.alloc(1024, 1);
  for (const [count, chunks] of [
    [3, 1],
    [1, 1],
    [1, 2],
  ] as const) {
    for (let n = 0; n < count; n++) queue.push(small);
    t.equal(queue.chunkCount, chunks);
  }
  queue.push(Buffer.alloc(5000, 2));
  queue.push(Buffer.of(3));
  t.same([queue.chunkCount, queue.sizeBytes], [4, 5 * 1024 + 5001]);
  t.equal(queue.take(10_000)?.length, 4096);
  t.equal(queue.take(24)?.length, 24);
  t.equal(queue.take(10_000)?.length, 1000);
  queue.clear();
  t.same([queue.chunkCount, queue.sizeBytes, queue.take(1)], [0, 0, undefined]);
  queue.push(Buffer.of(4, 5));
  t.same([...(queue.take(1) ?? [])], [4]);
  queue.clear();
  queue.push(Buffer.of(6));
  t.same([...(queue.take(9) ?? [])], [6]);
});
