// Frames of the addon against those of TypeScript for the same bytes.
import '../support/addon-dir.ts';
import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MAX_DATA_BYTES } from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { addon, NOT_NOW } from '../../../../guest-agent/src/native/addon.ts';
import { creditFor, dataFrame, payloadFor } from '../../../../proto/src/wire/data-frame.ts';

const dir = mkdtempSync(join(tmpdir(), 'frames-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const path = join(dir, 'file');

/** Lengths around the limits of frames and varints, and contents that end in zero or not, also at frame boundaries. */
const contents = fc
  .tuple(
    fc.oneof(
      fc.integer({ min: 1, max: 300 }),
      fc
        .tuple(fc.integer({ min: 1, max: 6 }), fc.integer({ min: -20, max: 20 }))
        .map(([frames, more]) => frames * MAX_DATA_BYTES + more),
      fc.integer({ min: 1, max: 400_000 }),
      fc.constantFrom(127, 128, 16_370, 16_383, 16_384, 16_385),
    ),
    fc.integer({ min: 0, max: 255 }),
    fc.boolean(),
  )
  .map(([length, start, isZero]) =>
    isZero ? Buffer.alloc(length) : Buffer.from(Array.from({ length }, (_, at) => (at * 7 + start) & 0xff)),
  );
const streams = fc.oneof(
  fc.integer({ min: 1, max: 2 ** 32 - 1 }),
  fc.constantFrom(1, 127, 128, 16_383, 16_384, 2 ** 31, 2 ** 32 - 1),
);

function framesOf(stream: number, flow: number, bytes: Buffer): Buffer {
  const chunks: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += MAX_DATA_BYTES)
    chunks.push(...dataFrame(stream, flow, bytes.subarray(at, at + MAX_DATA_BYTES)));
  return Buffer.concat(chunks);
}

function readAll(fd: number): Buffer {
  const bytes = Buffer.alloc(2 ** 20);
  const got = addon.read(fd, bytes, 0, bytes.length);
  return bytes.subarray(0, Math.max(0, got));
}

t.test(
  'the same bytes, from a file and from a pipe, over a link with free space and over a full one',
  async (t) => {
    const [ours, theirs] = addon.socketPair();
    t.teardown(() => {
      for (const fd of [ours, theirs]) addon.close(fd);
    });
    fc.assert(
      fc.property(
        streams,
        fc.integer({ min: 0, max: 2 }),
        contents,
        fc.constantFrom('file', 'pipe'),
        fc.boolean(),
        (stream, flow, content, kind, hasCapacity) => {
          const [out, into] = addon.pipe(1, 2 ** 20);
          if (kind === 'pipe') addon.write(into, content, 0, content.length);
          else writeFileSync(path, content);
          addon.close(into);
          const source = kind === 'pipe' ? out : openSync(path, 'r');
          const got: Buffer[] = [];
          let taken = 0;
          for (;;) {
            const result = addon.writeFrom(hasCapacity ? ours : -1, source, stream, flow, 2 ** 20);
            const unwritten = addon.takeUnwritten();
            got.push(Buffer.from(readAll(theirs)), ...(unwritten === undefined ? [] : [unwritten]));
            if (result <= 0) break;
            taken += result;
          }
          addon.close(out);
          if (kind === 'file') closeSync(source);
          return taken === content.length && Buffer.concat(got).equals(framesOf(stream, flow, content));
        },
      ),
      { numRuns: 150 },
    );
  },
);

t.test('a pipe in which nothing is now', (t) => {
  const [out, into] = addon.pipe(0, 0);
  t.equal(addon.writeFrom(-1, out, 1, 1, 10), NOT_NOW);
  t.equal(addon.takeUnwritten(), undefined);
  for (const fd of [out, into]) addon.close(fd);
  t.end();
});

t.test('credit pays for as many bytes as possible, and no more', (t) => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 21 }), (credit) => {
      const bytes = payloadFor(credit);
      return (bytes === 0 || creditFor(bytes) <= credit) && creditFor(bytes + 1) > credit;
    }),
  );
  t.end();
});
