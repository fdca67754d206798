// A ring that grows in memory which it shares with others.
import assert from 'node:assert/strict';
import { ServiceRecordDecoder } from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { OutputRing } from '../../../../guest-agent/src/service/ring.ts';

t.test(
  'a ring with shared memory has the newest records whatever memory it is granted, and returns it all',
  (t) => {
    const sizes = fc.array(fc.integer({ min: 1, max: 8192 }), { maxLength: 60, size: 'max' });
    fc.assert(
      fc.property(
        sizes,
        fc.array(fc.boolean(), { maxLength: 20 }),
        fc.boolean(),
        (writes, grants, isSealed) => {
          let bytes = 0;
          const ring = new OutputRing('0'.repeat(16), 100_000, {
            take: (more, isGuaranteed) => {
              if (!isGuaranteed && grants.pop() === false) return false;
              bytes += more;
              return true;
            },
            give: (less) => {
              bytes -= less;
            },
          });
          for (const [seq, size] of writes.entries()) ring.append(1, Buffer.alloc(size, seq), seq);
          if (isSealed) ring.seal();
          const target = Buffer.alloc(1_000_000);
          const { copiedBytes } = ring.copy(ring.first, target, Number.POSITIVE_INFINITY);
          const records = new ServiceRecordDecoder().push(target.subarray(0, copiedBytes));
          assert.deepEqual(
            records.map((record) => (record.kind === 'output' ? String(record.data) : '')),
            writes.map((size, seq) => String(Buffer.alloc(size, seq))).slice(ring.first.seq),
          );
          assert.ok(writes.length === 0 || (bytes >= 16_384 && bytes <= 154_096) || isSealed, `${bytes}`);
          ring.clear();
          assert.equal(bytes, 0);
        },
      ),
    );
    t.end();
  },
);
