// The byte queue, against a plain buffer.
import fc from 'fast-check';
import t from 'tap';
import { HeldBytes } from '../../../../guest-agent/src/lib/held-bytes.ts';

t.test('what was pushed comes out in order, whatever the pieces', (t) => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.integer({ min: 1, max: 100_000 }), fc.integer({ min: 0, max: 120_000 }))),
      (steps) => {
        const held = new HeldBytes();
        const expected: Buffer[] = [];
        const got: Buffer[] = [];
        const take = (bytes: number): void => {
          const first = held.first();
          if (first === undefined) return;
          const piece = first.subarray(0, bytes);
          got.push(Buffer.from(piece));
          held.drop(piece.length);
        };
        let size = 0;
        for (const [n, [pushed, taken]] of steps.entries()) {
          const bytes = Buffer.alloc(pushed, `${n} ${pushed} `);
          expected.push(Buffer.from(bytes));
          held.push(bytes);
          bytes.fill(0); // the buffer was borrowed
          if (taken > 0) take(taken);
          size = Buffer.concat(expected).length - Buffer.concat(got).length;
          t.equal(held.sizeBytes, size);
        }
        while (held.sizeBytes > 0) take(50_000);
        t.ok(Buffer.concat(got).equals(Buffer.concat(expected)));
        t.equal(held.first(), undefined);
      },
    ),
    { numRuns: 30 },
  );
  t.end();
});

t.test('clearing says how much was forgotten', (t) => {
  const held = new HeldBytes();
  held.push(Buffer.alloc(200_000));
  held.drop(10);
  t.equal(held.clear(), 199_990);
  t.equal(held.sizeBytes, 0);
  held.push(Buffer.from('again'));
  t.equal(held.first()?.toString(), 'again');
  t.end();
});
