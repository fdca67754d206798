// What the agent keeps of the service's output: the ring, and the readers of it.
import '../support/addon-dir.ts';
import {
  MAX_SERVICE_RECORD_BYTES,
  SERVICE_HEADER_BYTES,
  type ServiceRecord,
  ServiceRecordDecoder,
  type Stream,
} from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { OutputReader } from '../../../../guest-agent/src/service/reader.ts';
import { OutputRing } from '../../../../guest-agent/src/service/ring.ts';

/** What a stream does to a reader: asks for bytes when told that there are some. */
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
  /** Everything that is there now, in pieces of at most `maxBytes`. */
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

t.test('a ring keeps the newest output, and counts the rest', async (t) => {
  const write = fc.record({ size: fc.integer({ min: 1, max: 400 }), stream: fc.constantFrom(1, 2) });
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 400, max: 3000 }),
      fc.array(write, { maxLength: 300 }),
      async (limit, writes) => {
        const ring = new OutputRing('0'.repeat(16), limit);
        let written = 0;
        writes.forEach(({ size, stream }, seq) => {
          ring.append(stream, Buffer.alloc(size, seq), seq);
          written += size;
        });
        const { firstSeq, nextSeq, droppedRecords, droppedBytes } = ring.counts;
        const kept = writes.slice(firstSeq);
        const keptBytes = kept.reduce((sum, { size }) => sum + size, 0);
        t.equal(nextSeq, writes.length);
        t.equal(droppedRecords, firstSeq);
        t.equal(droppedBytes + keptBytes, written);
        t.ok(keptBytes <= limit);
        const target = Buffer.alloc(1_000_000);
        const { copiedBytes } = ring.copy(ring.first, target, Number.POSITIVE_INFINITY);
        const records = new ServiceRecordDecoder().push(target.subarray(0, copiedBytes));
        t.same(
          records.map((record) =>
            record.kind === 'output'
              ? [record.seq, record.stream, record.data.length, record.data[0]]
              : record,
          ),
          kept.map(({ size, stream }, n) => [
            firstSeq + n,
            stream === 1 ? 'stdout' : 'stderr',
            size,
            (firstSeq + n) & 255,
          ]),
        );
        for (const seq of [0, firstSeq, Math.floor((firstSeq + nextSeq) / 2), nextSeq, nextSeq + 5]) {
          t.equal(ring.find(seq).seq, Math.min(Math.max(seq, firstSeq), nextSeq));
        }
      },
    ),
    { numRuns: 60 },
  );
});

t.test('a reader at any pace gets each record once, or the count of what it missed', async (t) => {
  const action = fc.oneof(
    fc.record({ write: fc.integer({ min: 1, max: 900 }) }),
    fc.record({ read: fc.integer({ min: 1, max: 4 }), maxBytes: fc.integer({ min: 1, max: 2000 }) }),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 200 }), async (actions) => {
      const ring = new OutputRing('a'.repeat(16), 2000);
      const stream = new FakeStream();
      new OutputReader({
        stream: stream as unknown as Stream,
        ring,
        place: ring.first,
        missed: { records: 0, bytes: 0 },
        isFollowing: true,
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
          t.equal(record.seq, expected);
          t.equal(record.data[0], expected & 255);
          expected++;
          bytes += record.data.length;
        } else if (record.kind === 'gap') {
          t.equal(record.seq, expected + record.records);
          expected = record.seq;
          bytes += record.bytes;
        }
      }
      t.same([expected, bytes], [writes, written]);
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
        maxBytes,
      });
      const records = stream.read(new ServiceRecordDecoder(), 300);
      return {
        seqs: records.flatMap((record) => (record.kind === 'output' ? [record.seq] : [])),
        finished: stream.finished,
      };
    };
    t.match(page(2500), { seqs: [0, 1], finished: { serviceOutput: { nextSeq: 2 } } });
    t.match(page(1), { seqs: [0], finished: { serviceOutput: { nextSeq: 1 } } });
    t.match(page(0, 7), { seqs: [7, 8, 9], finished: { serviceOutput: { nextSeq: 10 } } });
    t.match(page(100, 10), { seqs: [], finished: { serviceOutput: { nextSeq: 10 } } });
    const long = Buffer.alloc(SERVICE_HEADER_BYTES);
    long.writeUInt32LE(1, 0);
    long.writeUInt32LE(MAX_SERVICE_RECORD_BYTES + 1, 4);
    t.throws(() => new ServiceRecordDecoder().push(long), { name: 'ProtocolViolation' });
  },
);
