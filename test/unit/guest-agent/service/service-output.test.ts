// The service's retained output: the ring and its readers.
import '../support/addon-dir.ts';
import assert from 'node:assert/strict';
import {
  MAX_SERVICE_RECORD_BYTES,
  SERVICE_HEADER_BYTES,
  type ServiceRecord,
  ServiceRecordDecoder,
  type Stream,
} from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { toOutputResult } from '../../../../guest-agent/src/service/calls.ts';
import { OutputReader } from '../../../../guest-agent/src/service/reader.ts';
import { OutputRing, type RingPlace } from '../../../../guest-agent/src/service/ring.ts';

/** A stream's calls to a reader: requests bytes when it is notified. */
class FakeStream {
  handlers: Stream['handlers'] = {};
  finished: unknown;
  source: (maxBytes: number) => Uint8Array | null = () => null;
  setSource(_flow: number, source: (maxBytes: number) => Uint8Array | null): void {
    this.source = source;
  }
  ready(): void {}
  finish(result: unknown): void {
    this.finished = result;
  }
  /** Everything that is available now, in chunks of at most `maxBytes`. */
  read(decoder: ServiceRecordDecoder, maxBytes: number, pieces = Number.POSITIVE_INFINITY): ServiceRecord[] {
    const records: ServiceRecord[] = [];
    for (let n = 0; n < pieces; n++) {
      const bytes = this.source(maxBytes);
      if (bytes === null) break;
      records.push(...decoder.push(Buffer.from(bytes)));
    }
    return records;
  }
}

/** The first record of `sizes` that a ring of `limitBytes` retains: headers get half as much again, and a page. */
function oldestKept(sizes: readonly number[], limitBytes: number): number {
  let outputBytes = 0;
  for (let seq = sizes.length - 1; seq >= 0; seq--) {
    outputBytes += sizes[seq] ?? 0;
    const memoryBytes = outputBytes + (sizes.length - seq) * SERVICE_HEADER_BYTES;
    if (outputBytes > limitBytes || memoryBytes > Math.ceil(limitBytes * 1.5) + 4096) return seq + 1;
  }
  return 0;
}

function decode(ring: OutputRing, place: RingPlace, maxBytes: number): ServiceRecord[] {
  const target = Buffer.alloc(1_000_000);
  const { copiedBytes } = ring.copy(place, target, maxBytes);
  return new ServiceRecordDecoder().push(target.subarray(0, copiedBytes));
}

t.test('a ring keeps as much of the newest output as fits, finds it by number, and counts the rest', (t) => {
  const write = fc.record({ size: fc.integer({ min: 1, max: 400 }), stream: fc.constantFrom(1, 2) });
  const tiny = fc.record({ size: fc.integer({ min: 1, max: 3 }), stream: fc.constant(1) });
  const many = (of: typeof write) => fc.array(of, { maxLength: 300, size: 'max' });
  fc.assert(
    fc.property(
      fc.integer({ min: 400, max: 12_000 }),
      fc.tuple(many(write), many(tiny), many(tiny), many(tiny)).map((parts) => parts.flat()),
      (limit, writes) => {
        const ring = new OutputRing('0'.repeat(16), limit);
        writes.forEach(({ size, stream }, seq) => {
          ring.append(stream, Buffer.alloc(size, seq), seq);
        });
        const sizes = writes.map(({ size }) => size);
        const firstSeq = oldestKept(sizes, limit);
        const droppedBytes = sizes.slice(0, firstSeq).reduce((sum, size) => sum + size, 0);
        assert.deepEqual(ring.counts, {
          firstSeq,
          nextSeq: writes.length,
          droppedRecords: firstSeq,
          droppedBytes,
        });
        assert.deepEqual(
          decode(ring, ring.first, Number.POSITIVE_INFINITY).map((record) =>
            record.kind === 'output'
              ? [record.seq, record.stream, record.data.length, record.data[0]]
              : record,
          ),
          writes
            .slice(firstSeq)
            .map(({ size, stream }, n) => [
              firstSeq + n,
              stream === 1 ? 'stdout' : 'stderr',
              size,
              (firstSeq + n) & 255,
            ]),
        );
        for (let seq = 0; seq < writes.length + 2; seq += 17) {
          const [record] = decode(ring, ring.find(seq), 1);
          const found = record?.kind === 'output' ? record.seq : writes.length;
          assert.equal(found, Math.min(Math.max(seq, firstSeq), writes.length));
        }
      },
    ),
    { numRuns: 40 },
  );
  t.end();
});

t.test('a ring says what is gone, how long a record may be, and tells who listens', async (t) => {
  const ring = new OutputRing('0'.repeat(16), 100);
  t.equal(ring.maxRecordBytes, 100);
  t.equal(new OutputRing('0'.repeat(16), 1e6).maxRecordBytes, MAX_SERVICE_RECORD_BYTES);
  t.same(ring.missedSince(0), { records: 0, bytes: 0 });
  let changes = 0;
  const unwatch = ring.watch(() => changes++);
  for (const size of [10, 30, 40, 100]) ring.append(1, Buffer.alloc(size), 0);
  t.equal(changes, 4);
  t.same(ring.missedSince(0), { records: 3, bytes: 80 });
  t.same(ring.missedSince(1), { records: 2, bytes: 53 }, 'an average');
  t.same(ring.missedSince(7), { records: 0, bytes: 0 });
  const exact = Buffer.alloc(SERVICE_HEADER_BYTES + 100);
  t.equal(ring.copy(ring.first, exact, 100).copiedBytes, exact.length);
  ring.seal();
  t.equal(changes, 5);
  unwatch();
  ring.clear();
  t.equal(changes, 5);
  t.same(ring.counts, { firstSeq: 4, nextSeq: 4, droppedRecords: 4, droppedBytes: 180 });
});

t.test('a reader at any pace gets each record once, or the count of what it missed', async () => {
  const action = fc.oneof(
    fc.record({ write: fc.integer({ min: 1, max: 900 }) }),
    fc.record({ read: fc.integer({ min: 1, max: 4 }), maxBytes: fc.integer({ min: 1, max: 2000 }) }),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 200, size: 'max' }), (actions) => {
      const ring = new OutputRing('a'.repeat(16), 2000);
      const stream = new FakeStream();
      new OutputReader({
        stream: stream as unknown as Stream,
        ring,
        place: ring.first,
        missed: { records: 0, bytes: 0 },
        isFollowing: true,
        toResult: toOutputResult,
        maxBytes: 0,
      });
      const decoder = new ServiceRecordDecoder();
      const records: ServiceRecord[] = [];
      let written = 0;
      let writes = 0;
      for (const step of actions) {
        if ('write' in step) {
          ring.append(1, Buffer.alloc(step.write, writes), 0);
          written += step.write;
          writes++;
        } else records.push(...stream.read(decoder, step.maxBytes, step.read));
      }
      records.push(...stream.read(decoder, 5000));
      let expected = 0;
      let bytes = 0;
      for (const record of records) {
        if (record.kind === 'output') {
          assert.equal(record.seq, expected);
          assert.equal(record.data[0], expected & 255);
          expected++;
          bytes += record.data.length;
        } else if (record.kind === 'gap') {
          assert.equal(record.seq, expected + record.records);
          expected = record.seq;
          bytes += record.bytes;
        }
      }
      assert.deepEqual([expected, bytes], [writes, written]);
    }),
    { numRuns: 80 },
  );
});

t.test('a reader goes on to the ring of the next spec, and listens to that alone', async (t) => {
  const rings = ['1', '2'].map((id) => new OutputRing(id.repeat(16), 1000));
  const listening: string[] = [];
  for (const ring of rings) {
    const watch = ring.watch.bind(ring);
    ring.watch = (listener) => {
      listening.push(ring.id[0] ?? '');
      const unwatch = watch(listener);
      return () => {
        listening.splice(listening.indexOf(ring.id[0] ?? ''), 1);
        return unwatch();
      };
    };
  }
  const [first, second] = [rings[0]!, rings[1]!];
  first.append(1, Buffer.from('last words'), 0);
  const stream = new FakeStream();
  new OutputReader({
    stream: stream as unknown as Stream,
    ring: first,
    place: first.first,
    missed: { records: 0, bytes: 0 },
    isFollowing: true,
    toResult: toOutputResult,
    maxBytes: 0,
  });
  t.same(listening, ['1']);
  first.next = second;
  first.seal();
  second.append(1, Buffer.from('new'), 0);
  const records = stream.read(new ServiceRecordDecoder(), 5000);
  t.same(
    records.map((record) => (record.kind === 'output' ? String(record.data) : record.kind)),
    ['ring', 'last words', 'ring', 'new'],
  );
  t.same(listening, ['2']);
  stream.handlers.cancel?.();
  t.same(listening, []);
});

t.test(
  'a page ends at its size, with at least one record; a record that is too long is refused',
  async (t) => {
    const ring = new OutputRing('b'.repeat(16), 1_000_000);
    for (let n = 0; n < 10; n++) ring.append(1, Buffer.alloc(1000, n), n);
    const page = (maxBytes: number, seq = 0): { seqs: number[]; finished: unknown } => {
      const stream = new FakeStream();
      new OutputReader({
        stream: stream as unknown as Stream,
        ring,
        place: ring.find(seq),
        missed: ring.missedSince(seq),
        isFollowing: false,
        toResult: toOutputResult,
        maxBytes,
      });
      const records = stream.read(new ServiceRecordDecoder(), 300);
      return {
        seqs: records.flatMap((record) => (record.kind === 'output' ? [record.seq] : [])),
        finished: stream.finished,
      };
    };
    t.match(page(2500), { seqs: [0, 1], finished: { serviceOutput: { nextSeq: 2 } } });
    t.match(page(2000), { seqs: [0, 1], finished: { serviceOutput: { nextSeq: 2 } } });
    t.match(page(1), { seqs: [0], finished: { serviceOutput: { nextSeq: 1 } } });
    t.match(page(0, 7), { seqs: [7, 8, 9], finished: { serviceOutput: { nextSeq: 10 } } });
    t.match(page(100, 10), { seqs: [], finished: { serviceOutput: { nextSeq: 10 } } });
    const long = Buffer.alloc(SERVICE_HEADER_BYTES);
    long.writeUInt32LE(1, 0);
    long.writeUInt32LE(MAX_SERVICE_RECORD_BYTES + 1, 4);
    t.throws(() => new ServiceRecordDecoder().push(long), { name: 'ProtocolViolation' });
  },
);

function read(ring: OutputRing, isFollowing: boolean, maxBytes = 0, seq = 0): FakeStream {
  const stream = new FakeStream();
  new OutputReader({
    stream: stream as unknown as Stream,
    ring,
    place: ring.find(seq),
    missed: ring.missedSince(seq),
    isFollowing,
    toResult: toOutputResult,
    maxBytes,
  });
  return stream;
}

t.test('a page that is full ends, also for who would follow', async (t) => {
  const ring = new OutputRing('c'.repeat(16), 1000);
  ring.append(1, Buffer.alloc(100), 0);
  const stream = read(ring, true, 100);
  stream.read(new ServiceRecordDecoder(), 1000);
  t.match(stream.finished, { serviceOutput: { nextSeq: 1 } });
});

t.test('a reader that starts at dropped records gets their number', async (t) => {
  const ring = new OutputRing('d'.repeat(16), 100);
  for (const size of [20, 30, 60]) ring.append(1, Buffer.alloc(size), 0);
  t.match(read(ring, false).read(new ServiceRecordDecoder(), 1000), [
    { kind: 'ring', id: ring.id },
    { kind: 'gap', seq: 1, records: 1, bytes: 20 },
    { kind: 'output', seq: 1 },
    { kind: 'output', seq: 2 },
  ]);
});

t.test('readers that are in the middle of a record do not disturb each other', async (t) => {
  const rings = [1, 2].map((fill) => {
    const ring = new OutputRing(String(fill).repeat(16), 1000);
    ring.append(1, Buffer.alloc(500, fill), 0);
    return ring;
  });
  const readers = rings.map((ring) => ({ stream: read(ring, true), decoder: new ServiceRecordDecoder() }));
  const records: ServiceRecord[][] = [[], []];
  for (let turn = 0; turn < 100; turn++) {
    readers.forEach(({ stream, decoder }, n) => {
      records[n]?.push(...stream.read(decoder, 30, 1));
    });
  }
  const got = records.map((of) => of.flatMap((record) => (record.kind === 'output' ? [record.data] : [])));
  t.same(got, [[Buffer.alloc(500, 1)], [Buffer.alloc(500, 2)]]);
});

t.test(
  'a page may be larger than what is copied at once, and ends with the record that fills it',
  async (t) => {
    const ring = new OutputRing('e'.repeat(16), 1_000_000);
    for (let n = 0; n < 3; n++) ring.append(1, Buffer.alloc(MAX_SERVICE_RECORD_BYTES, n), n);
    const stream = read(ring, false, 2 * MAX_SERVICE_RECORD_BYTES);
    const records = stream.read(new ServiceRecordDecoder(), 50_000);
    t.same(
      records.map((record) => (record.kind === 'output' ? [record.seq, record.data.length] : record.kind)),
      ['ring', [0, MAX_SERVICE_RECORD_BYTES], [1, MAX_SERVICE_RECORD_BYTES]],
    );
    t.match(stream.finished, { serviceOutput: { nextSeq: 2 } });
  },
);

t.test('a reader that is lost listens to nothing', async (t) => {
  const ring = new OutputRing('f'.repeat(16), 1000);
  const stream = read(ring, true);
  let woken = 0;
  stream.ready = () => {
    woken += 1;
  };
  ring.append(1, Buffer.from('heard'), 0);
  stream.handlers.lost?.({ kind: 'detached' });
  ring.append(1, Buffer.from('not heard'), 0);
  t.equal(woken, 1);
});

t.test('a ring is full when its output is as long as its limit, and no sooner', async (t) => {
  const ring = new OutputRing('9'.repeat(16), 100);
  for (const size of [40, 60]) ring.append(1, Buffer.alloc(size), 0);
  t.equal(ring.counts.firstSeq, 0);
  ring.append(1, Buffer.alloc(1), 0);
  t.equal(ring.counts.firstSeq, 1);
});
