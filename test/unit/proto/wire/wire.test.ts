// The encoding of frames, parts and varints, for any chunking.

import {
  FrameCodec,
  type FrameInput,
  MAX_DATA_BYTES,
  MAX_FRAME_BYTES,
  MAX_MESSAGE_BYTES,
  MAX_PARTS_BYTES,
  PART_BYTES,
  ProtocolViolation,
} from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { dataFrame, readCreditFrame, readDataFrame, WHOLE } from '../../../../proto/src/wire/data-frame.ts';
import { FrameDecoder, type Padding } from '../../../../proto/src/wire/frame-decoder.ts';
import { encodeFrame } from '../../../../proto/src/wire/frame-encoder.ts';
import { ownBytes } from '../../../../proto/src/wire/own-bytes.ts';
import { PartJoiner } from '../../../../proto/src/wire/part-joiner.ts';
import { varintLength, writeVarint } from '../../../../proto/src/wire/varint.ts';
import { cut } from '../support/cut.ts';

const streamId = fc.oneof(fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 0xffff_fff0 }));
const bytes = (maxLength: number): fc.Arbitrary<Uint8Array> =>
  fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: Math.min(maxLength, 100) }),
    fc.integer({ min: 1, max: maxLength }).map((length) => new Uint8Array(length).fill(length & 3)),
  );
const anyFrame: fc.Arbitrary<FrameInput> = fc.oneof(
  fc.record({ stream: streamId, flow: fc.integer({ min: 0, max: 2 }), data: bytes(MAX_DATA_BYTES) }),
  fc.record({ stream: streamId, flow: fc.integer({ min: 0, max: 2 }), end: fc.constant({}) }),
  fc.record({ stream: streamId, credit: fc.integer({ min: 1, max: 0xffff_ffff }) }),
  fc.record({ stream: streamId, cancel: fc.constant({}) }),
  fc.record({ stream: streamId, resize: fc.record({ cols: fc.nat(500), rows: fc.nat(500) }) }),
  fc.record({ stream: fc.constant(0), ping: fc.record({ payload: fc.uint8Array({ maxLength: 50 }) }) }),
  fc.record({ stream: streamId, request: fc.constant({ stats: {} }) }),
);
/** A frame after a round trip, without `whole`. */
const plain = (encoded: Uint8Array): string => {
  const { whole: _, ...frame } = FrameCodec.decode(encoded);
  return JSON.stringify(frame);
};
const decodeAll = (chunks: readonly Buffer[], padding: Padding = 'skip'): Buffer[] => {
  const frames: Buffer[] = [];
  const decoder = new FrameDecoder(padding, (encoded) => frames.push(Buffer.from(encoded)));
  for (const chunk of chunks) decoder.push(chunk);
  return frames;
};
const wire = (frame: FrameInput): Buffer => Buffer.concat(encodeFrame(frame));

t.test('varints are those of protobuf, at every edge', (t) => {
  const edges = [
    0, 1, 0x7f, 0x80, 0x3fff, 0x4000, 0x1f_ffff, 0x20_0000, 0xfff_ffff, 0x1000_0000, 0x7fff_ffff,
  ];
  for (const value of [...edges, 0x8000_0000, 0xffff_ffff]) {
    const target = Buffer.alloc(8, 0xee);
    const end = writeVarint(target, 1, value);
    t.equal(end - 1, varintLength(value), `${value} has the length that was promised`);
    const decoded = FrameCodec.decode(Buffer.concat([Buffer.of(0x08), target.subarray(1, end)]));
    t.equal(decoded.stream, value);
    t.equal(target[end], 0xee, 'nothing is written behind it');
  }
  t.end();
});

t.test('a data frame written by hand is what the generated code writes', async () => {
  fc.assert(
    fc.property(streamId, fc.integer({ min: 0, max: 2 }), bytes(MAX_DATA_BYTES), (stream, flow, data) => {
      const whole = data.at(-1) === 0;
      const encoded = FrameCodec.encode({ stream, flow, data, whole }).finish();
      const expected = Buffer.concat([Buffer.alloc(varintLength(encoded.length)), encoded]);
      writeVarint(expected, 0, encoded.length);
      return Buffer.concat(dataFrame(stream, flow, data)).equals(expected);
    }),
  );
});

t.test('what is read by hand is what the generated code reads', async (t) => {
  const id = fc.integer({ min: 1, max: 2 ** 32 - 1 });
  fc.assert(
    fc.property(
      id,
      fc.nat({ max: 2 }),
      fc.uint8Array({ minLength: 1, maxLength: 300 }),
      (stream, flow, bytes) => {
        const encoded = FrameCodec.encode({ stream, flow, data: bytes, whole: bytes.at(-1) === 0 }).finish();
        const got = readDataFrame(Buffer.from(encoded));
        return got?.stream === stream && got.flow === flow && got.data.equals(bytes);
      },
    ),
  );
  fc.assert(
    fc.property(id, id, (stream, credit) => {
      const got = readCreditFrame(Buffer.from(FrameCodec.encode({ stream, credit }).finish()));
      return got?.stream === stream && got.credit === credit;
    }),
  );
  // Bytes close to a frame: anything that decodes as a frame is that frame.
  const near = fc
    .tuple(
      id,
      fc.nat({ max: 300 }),
      fc.array(fc.tuple(fc.nat({ max: 40 }), fc.nat({ max: 255 })), { maxLength: 3 }),
    )
    .map(([stream, size, edits]) => {
      const frame =
        size === 0 ? { stream, credit: 70_000 } : { stream, flow: 1, data: Buffer.alloc(size, 0x28) };
      const bytes = Buffer.from(FrameCodec.encode(frame).finish());
      for (const [at, value] of edits) if (at < bytes.length) bytes[at] = value;
      return bytes;
    });
  let taken = 0;
  fc.assert(
    fc.property(near, (bytes) => {
      const data = readDataFrame(bytes);
      const credit = readCreditFrame(bytes);
      if (data === undefined && credit === undefined) return true;
      taken += 1;
      const frame = FrameCodec.decode(bytes);
      if (data !== undefined)
        return (
          frame.stream === data.stream % 2 ** 32 &&
          frame.flow === data.flow % 2 ** 32 &&
          data.data.equals((frame.data ?? Buffer.alloc(0)) as Buffer)
        );
      return (
        frame.stream === (credit?.stream ?? 0) % 2 ** 32 && frame.credit === (credit?.credit ?? 0) % 2 ** 32
      );
    }),
    { numRuns: 2000 },
  );
  t.ok(taken > 500, 'of the changed frames many are still ones');
});

t.test('frames come back whole from any split and any packing, with padding between them', async () => {
  fc.assert(
    fc.property(
      fc.array(anyFrame, { maxLength: 8 }),
      fc.infiniteStream(fc.nat(70_000)),
      fc.nat(9),
      (frames, sizes, zeros) => {
        const text = Buffer.concat(frames.flatMap((frame) => [wire(frame), Buffer.alloc(zeros)]));
        const got = decodeAll(cut(text, sizes));
        const expected = frames.map((frame) => plain(FrameCodec.encode(frame).finish()));
        return (
          got.map(plain).join() === expected.join() &&
          got.every((frame) => frame.at(-1) !== 0 && frame.length <= MAX_FRAME_BYTES)
        );
      },
    ),
    { numRuns: 60 },
  );
});

t.test('byte by byte is a split like any other', (t) => {
  const text = Buffer.concat([
    wire({ stream: 300, credit: 5 }),
    wire({ stream: 1, data: Buffer.alloc(200, 7) }),
  ]);
  const frames: Buffer[] = [];
  const decoder = new FrameDecoder('refuse', (encoded) => frames.push(encoded));
  for (let at = 0; at < text.length; at += 1) decoder.push(text.subarray(at, at + 1));
  t.equal(frames.length, 2);
  t.end();
});

t.test('an idle connection has no buffer for frames that span chunks', (t) => {
  const idleBytes = () => process.memoryUsage().arrayBuffers;
  const before = idleBytes();
  const frame = wire({ stream: 1, credit: 1 });
  const frames: string[] = [];
  const decoders = Array.from(
    { length: 200 },
    () => new FrameDecoder('refuse', (encoded) => frames.push(encoded.toString('hex')), true),
  );
  for (const decoder of decoders) decoder.push(frame);
  t.ok(idleBytes() - before < 100 * MAX_FRAME_BYTES, `${idleBytes() - before} bytes of 200 decoders`);
  for (const part of [frame.subarray(0, 2), frame.subarray(2)]) decoders[0]?.push(part);
  t.same(frames, new Array(201).fill(frames[0]), 'and one that has a frame in parts gets it');
  t.end();
});

t.test('lengths over the limit are violations, before anything is allocated', (t) => {
  const prefix = (length: number): Buffer => {
    const out = Buffer.alloc(varintLength(length));
    writeVarint(out, 0, length);
    return out;
  };
  t.doesNotThrow(() => decodeAll([prefix(MAX_FRAME_BYTES)]));
  t.throws(() => decodeAll([prefix(MAX_FRAME_BYTES + 1)]), ProtocolViolation);
  t.throws(() => decodeAll([prefix(0xfff_ffff)]), ProtocolViolation);
  t.throws(
    () => decodeAll([Buffer.of(0x80, 0x80, 0x80, 0x80)]),
    ProtocolViolation,
    'a fifth byte is never read',
  );
  t.strictSame(decodeAll([Buffer.of(0x80, 0x80, 0x00)]), [], 'a long zero is still padding');
  t.throws(() => decodeAll([Buffer.of(0)], 'refuse'), ProtocolViolation, 'only the host pads');
  t.throws(
    () => decodeAll([Buffer.of(2, 8, 0)], 'refuse'),
    ProtocolViolation,
    'a truncated frame is refused where padding is not permitted',
  );
  t.end();
});

t.test(
  'reset forgets a frame under way, and the rest of the chunk when called for one of its frames',
  (t) => {
    const frames: Buffer[] = [];
    const decoder = new FrameDecoder('skip', (encoded) => {
      frames.push(encoded);
      if (frames.length === 1) decoder.reset();
    });
    const frame = wire({ stream: 1, credit: 1 });
    decoder.push(frame.subarray(0, 3));
    decoder.reset();
    decoder.push(Buffer.concat([frame, frame]));
    t.equal(frames.length, 1);
    decoder.push(frame);
    t.equal(frames.length, 2);
    t.end();
  },
);

t.test(
  'a frame that was cut anywhere and filled up by padding is never delivered, and the next one is',
  async (t) => {
    const inputs: FrameInput[] = [
      { stream: 129, data: Buffer.from([1, 2, 0, 0]) },
      { stream: 1, data: Buffer.alloc(MAX_DATA_BYTES, 0) },
      { stream: 1, data: Buffer.alloc(MAX_DATA_BYTES, 9) },
      { stream: 1, request: { exec: { cmd: ['rm', '-r', '/tmp/x/y'], stdin: true, timeoutMs: 12_345_678 } } },
      { stream: 5, cancel: {} },
      { stream: 5, end: {} },
    ];
    const next = wire({ stream: 77, credit: 1 });
    for (const input of inputs) {
      const text = wire(input);
      const step = text.length > 1000 ? 997 : 1;
      for (let keep = 1; keep < text.length; keep += step) {
        const frames = decodeAll([text.subarray(0, keep), Buffer.alloc(MAX_FRAME_BYTES + 4), next]);
        if (frames.length !== 1 || frames[0]?.[1] !== 77) t.fail(`cut after ${keep} of ${text.length} bytes`);
      }
    }
    t.pass('every cut');
  },
);

t.test('messages over one frame travel as parts', async (t) => {
  const lengths = [
    MAX_FRAME_BYTES - 40,
    MAX_FRAME_BYTES,
    PART_BYTES * 2,
    PART_BYTES * 3 + 1,
    MAX_MESSAGE_BYTES - 40,
  ];
  for (const length of lengths) {
    const request = { exec: { cmd: ['x'.repeat(length)] } };
    const frames = decodeAll(encodeFrame({ stream: 9, request }), 'refuse');
    const joiner = new PartJoiner();
    let joined: Buffer | undefined;
    for (const [index, encoded] of frames.entries()) {
      const frame = FrameCodec.decode(encoded);
      if (frame.part) {
        const isLast = index === frames.length - 1;
        t.equal(frame.part.last, isLast);
        t.ok(isLast || frame.part.bytes?.length === PART_BYTES);
        joined = joiner.add(frame.stream, frame.part.bytes!, frame.part.last!);
        t.equal(joined !== undefined, isLast);
      } else joined = encoded;
    }
    t.equal(FrameCodec.decode(joined!).request?.exec?.cmd?.[0]?.length, length);
  }
  const tooLong = { exec: { cmd: ['x'.repeat(MAX_MESSAGE_BYTES)] } };
  t.throws(() => encodeFrame({ stream: 9, request: tooLong }), RangeError);
});

t.test('parts interleave between streams and hold no more than their limits', async (t) => {
  const full = Buffer.alloc(PART_BYTES, 1);
  await t.test('any interleaving', async () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 3 }), fc.boolean()), { maxLength: 60 }),
        (steps) => {
          const joiner = new PartJoiner();
          const counts = new Map<number, number>();
          for (const [stream, isLast] of steps) {
            const before = counts.get(stream) ?? 0;
            const bytes = isLast ? Buffer.of(stream) : full;
            const joined = joiner.add(stream, bytes, isLast);
            if (isLast && joined?.length !== before * PART_BYTES + 1) return false;
            if (!isLast && joined !== undefined) return false;
            counts.set(stream, isLast ? 0 : before + 1);
          }
          return true;
        },
      ),
    );
  });
  const joiner = new PartJoiner();
  t.throws(() => joiner.add(1, Buffer.alloc(0), true), ProtocolViolation, 'empty');
  t.throws(() => joiner.add(1, Buffer.alloc(1), false), ProtocolViolation, 'short and not the last');
  t.throws(() => joiner.add(1, Buffer.alloc(PART_BYTES + 1), true), ProtocolViolation, 'long');
  for (let at = 0; at < MAX_MESSAGE_BYTES; at += PART_BYTES) joiner.add(1, full, false);
  t.throws(() => joiner.add(1, full, true), ProtocolViolation, 'one message over its limit');
  for (let at = 0; at < MAX_PARTS_BYTES - MAX_MESSAGE_BYTES; at += PART_BYTES) joiner.add(2, full, false);
  t.throws(() => joiner.add(3, full, false), ProtocolViolation, 'all messages over their limit');
  joiner.drop(1);
  joiner.drop(1);
  t.doesNotThrow(() => joiner.add(3, full, false), 'dropping frees space');
});

t.test('a small view is copied out of a large chunk, a large one is not', (t) => {
  const chunk = Buffer.alloc(65_536, 3);
  const small = ownBytes(chunk.subarray(10, 11));
  t.equal(small.buffer.byteLength, 1);
  t.strictSame([...small], [3]);
  const large = chunk.subarray(0, 20_000);
  t.equal(ownBytes(large), large);
  t.equal(ownBytes(Buffer.alloc(0)).length, 0);
  t.equal(WHOLE.length, 3);
  t.end();
});
