// The sync mark, which precedes a host's connection.
import { NONCE_BYTES, ProtocolViolation } from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { SyncScanner, syncMark } from '../../../../proto/src/wire/sync-mark.ts';
import { cut } from '../support/cut.ts';

t.test('the sync mark is found in any split, behind any garbage', async () => {
  const nonce = Buffer.alloc(NONCE_BYTES, 0xab);
  const mark = syncMark(nonce);
  const garbage = fc.oneof(
    fc.uint8Array({ maxLength: 200 }),
    fc.integer({ min: 1, max: mark.length - 1 }).map((length) => mark.subarray(0, length)),
    fc.constant(syncMark(Buffer.alloc(NONCE_BYTES, 1))),
  );
  fc.assert(
    fc.property(
      fc.array(garbage),
      fc.uint8Array({ maxLength: 40 }),
      fc.infiniteStream(fc.nat(60)),
      (before, after, sizes) => {
        const scanner = new SyncScanner(nonce, 1 << 20);
        const got: Buffer[] = [];
        let isFound = false;
        for (const chunk of cut(Buffer.concat([...before, mark, after]), sizes)) {
          const rest = isFound ? chunk : scanner.push(chunk);
          if (rest === undefined) continue;
          isFound = true;
          got.push(rest);
        }
        return isFound && Buffer.concat(got).equals(after);
      },
    ),
  );
});

t.test('the search for the mark ends at its limit', (t) => {
  const scanner = new SyncScanner(Buffer.alloc(NONCE_BYTES, 2), 1000);
  t.equal(scanner.push(Buffer.alloc(1000)), undefined);
  t.throws(() => scanner.push(Buffer.alloc(1)), ProtocolViolation);
  t.end();
});
