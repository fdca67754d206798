// Bytes leave the queue in order, and memory is reused only after its release.
import fc from 'fast-check';
import t from 'tap';
import { BlockPool, ByteQueue, type Chunk } from '../../../proto/src/byte-queue.ts';

const pool = new BlockPool(256 * 1024, 64);

type Held = { readonly piece: Chunk; readonly copy: Buffer };

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ push: fc.integer({ min: 0, max: 300_000 }) }) },
  { weight: 2, arbitrary: fc.record({ drop: fc.integer({ min: 0, max: 400_000 }) }) },
  { weight: 4, arbitrary: fc.record({ take: fc.integer({ min: 1, max: 400_000 }) }) },
  { weight: 3, arbitrary: fc.record({ release: fc.nat() }) },
  { weight: 1, arbitrary: fc.record({ clear: fc.constant(true) }) },
);

t.test('two queues share memory and nothing else', async (t) => {
  let seed = 0;
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat({ max: 1 }), step), { maxLength: 60 }), (steps) => {
      const queues = [new ByteQueue(pool), new ByteQueue(pool)];
      const expected: Buffer[] = [Buffer.alloc(0), Buffer.alloc(0)];
      const held: Held[] = [];
      for (const [which, what] of steps) {
        const queue = queues[which] as ByteQueue;
        const before = expected[which] as Buffer;
        if ('push' in what) {
          seed += 1;
          const bytes = Buffer.alloc(what.push, `${seed} `);
          queue.push(bytes);
          expected[which] = Buffer.concat([before, bytes]);
          // The caller may reuse its memory.
          bytes.fill(0);
        } else if ('take' in what) {
          const chunk = queue.take(what.take);
          if (chunk === undefined) {
            if (before.length > 0) return false;
            continue;
          }
          if (chunk.bytes.length > what.take || chunk.bytes.length === 0) return false;
          if (!chunk.bytes.equals(before.subarray(0, chunk.bytes.length))) return false;
          expected[which] = before.subarray(chunk.bytes.length);
          held.push({ piece: chunk, copy: Buffer.from(chunk.bytes) });
        } else if ('drop' in what) {
          const first = queue.first();
          if (first === undefined ? before.length > 0 : !first.equals(before.subarray(0, first.length)))
            return false;
          const bytes = Math.min(what.drop, first?.length ?? 0);
          queue.drop(bytes);
          expected[which] = before.subarray(bytes);
        } else if ('release' in what) {
          const [done] = held.splice(what.release % Math.max(1, held.length), 1);
          done?.piece.release();
          // A second release does nothing.
          done?.piece.release();
        } else {
          if (queue.clear() !== before.length) return false;
          expected[which] = Buffer.alloc(0);
        }
        if (queue.sizeBytes !== expected[which]?.length) return false;
      }
      const isIntact = held.every(({ piece: chunk, copy }) => chunk.bytes.equals(copy));
      for (const { piece: chunk } of held) chunk.release();
      return isIntact;
    }),
    { numRuns: 300 },
  );
  t.pass('in every order');
});

t.test('a queue that was emptied holds no memory, and the next one gets it', async (t) => {
  const first = new ByteQueue(pool);
  first.push(Buffer.alloc(1000, 'a'));
  const chunk = first.take();
  const memory = chunk?.bytes.buffer;
  t.equal(first.take(), undefined);
  const second = new ByteQueue(pool);
  second.push(Buffer.alloc(10, 'b'));
  const other = second.take();
  t.not(other?.bytes.buffer, memory, 'not while it is looked at');
  chunk?.release();
  const third = new ByteQueue(pool);
  third.push(Buffer.alloc(10, 'c'));
  t.equal(third.take()?.bytes.buffer, memory);
  t.equal(other?.bytes.toString(), 'bbbbbbbbbb');
});

t.test('small pieces that wait for their reader share memory', async (t) => {
  const queue = new ByteQueue(pool);
  const pieces = Array.from({ length: 20 }, (_, index) => {
    queue.push(Buffer.alloc(1000, `${index} `));
    return queue.take() as Chunk;
  });
  t.equal(new Set(pieces.map(({ bytes }) => bytes.buffer)).size, 1);
  const [first, ...rest] = pieces;
  for (const chunk of rest) chunk.release();
  queue.push(Buffer.alloc(10, 'x'));
  t.equal(queue.take()?.bytes.buffer, first?.bytes.buffer, 'also with what comes later');
  t.ok(first?.bytes.equals(Buffer.alloc(1000, '0 ')), 'which leaves them as they are');
});

t.test('single bytes share memory', async (t) => {
  const queue = new ByteQueue(new BlockPool(4096, 1));
  const acquired = t.capture(BlockPool.prototype, 'acquire', BlockPool.prototype.acquire);
  for (let n = 0; n < 100_000; n++) queue.push(Uint8Array.of(n));
  t.equal(queue.sizeBytes, 100_000);
  t.equal(acquired().length, 25);
});
