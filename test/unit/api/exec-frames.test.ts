// The exec frame codec of the REST API.

import {
  EXEC_FRAME,
  type ExecFrame,
  ExecFrameDecoder,
  ExecFrameError,
  encodeExecFrame,
  execFrameHeader,
  MAX_EXEC_PAYLOAD_BYTES,
} from '@sandboxd/api';
import fc from 'fast-check';
import t from 'tap';
import { cpuMsOf } from '../../support/cpu-time.ts';
import { cut } from '../proto/support/cut.ts';

const frames = fc.array(
  fc.record({
    type: fc.integer({ min: 0, max: 255 }),
    payload: fc.oneof(
      fc.uint8Array({ maxLength: 30 }),
      fc.integer({ min: 0, max: MAX_EXEC_PAYLOAD_BYTES }).map((length) => new Uint8Array(length).fill(5)),
    ),
    reserved: fc.uint8Array({ minLength: 3, maxLength: 3 }),
  }),
  { maxLength: 8 },
);

t.test('the bytes on the wire are frozen', (t) => {
  t.equal(encodeExecFrame(EXEC_FRAME.stdout, Buffer.from('hi\n')).toString('hex'), '010000000000000368690a');
  t.equal(encodeExecFrame(EXEC_FRAME.stdinClose, Buffer.alloc(0)).toString('hex'), '0500000000000000');
  t.strictSame(EXEC_FRAME, {
    stdout: 1,
    stderr: 2,
    exit: 3,
    stdin: 4,
    stdinClose: 5,
    resize: 6,
    signal: 7,
    error: 8,
    position: 9,
    started: 10,
  });
  t.equal(execFrameHeader(3, MAX_EXEC_PAYLOAD_BYTES).toString('hex'), '0300000000010000');
  t.throws(() => execFrameHeader(1, MAX_EXEC_PAYLOAD_BYTES + 1), ExecFrameError);
  t.throws(() => encodeExecFrame(1, Buffer.alloc(MAX_EXEC_PAYLOAD_BYTES + 1)), ExecFrameError);
  t.end();
});

t.test('short frames of one type are joined, and everything stays in its order', async (t) => {
  const short = fc.record({ type: fc.constantFrom(4, 4, 4, 7), payload: fc.uint8Array({ maxLength: 6 }) });
  const long = fc.record({
    type: fc.constantFrom(4, 7),
    payload: fc
      .integer({ min: 4000, max: MAX_EXEC_PAYLOAD_BYTES })
      .map((length) => new Uint8Array(length).fill(6)),
  });
  /** Type and bytes, with neighbours of the joined type as one. */
  const flatten = (list: readonly { readonly type: number; readonly payload: Uint8Array }[]): string[] => {
    const flat: string[] = [];
    let run = '';
    for (const { type, payload } of list) {
      const hex = Buffer.from(payload).toString('hex');
      if (type === 4) run += hex;
      else {
        flat.push(run, `${type} ${hex}`);
        run = '';
      }
    }
    return [...flat, run];
  };
  fc.assert(
    fc.property(
      fc.array(fc.oneof({ weight: 8, arbitrary: short }, { weight: 1, arbitrary: long }), { maxLength: 60 }),
      fc.infiniteStream(fc.nat(300)),
      (sent, sizes) => {
        const text = Buffer.concat(sent.map(({ type, payload }) => encodeExecFrame(type, payload)));
        const decoder = new ExecFrameDecoder(4);
        const got: ExecFrame[] = [];
        for (const chunk of cut(text, sizes)) {
          const lent = Buffer.from(chunk);
          got.push(
            ...decoder.push(lent).map(({ type, payload }) => ({ type, payload: Buffer.from(payload) })),
          );
        }
        return (
          decoder.isAtBoundary &&
          got.every(({ payload }) => payload.length <= MAX_EXEC_PAYLOAD_BYTES) &&
          flatten(got).join() === flatten(sent).join()
        );
      },
    ),
  );
  const one = encodeExecFrame(4, Buffer.of(1));
  const many = Buffer.concat(Array.from({ length: 200_000 }, () => one));
  const joined = new ExecFrameDecoder(4).push(many);
  t.strictSame(
    joined.map(({ payload }) => payload.length),
    [
      MAX_EXEC_PAYLOAD_BYTES,
      MAX_EXEC_PAYLOAD_BYTES,
      MAX_EXEC_PAYLOAD_BYTES,
      200_000 - 3 * MAX_EXEC_PAYLOAD_BYTES,
    ],
  );
});

t.test('any split and any packing give the same frames; unknown types and reserved bytes pass', async (t) => {
  fc.assert(
    fc.property(frames, fc.infiniteStream(fc.nat(70_000)), (sent, sizes) => {
      const text = Buffer.concat(
        sent.map(({ type, payload, reserved }) => {
          const frame = encodeExecFrame(type, payload);
          frame.set(reserved, 1);
          return frame;
        }),
      );
      const decoder = new ExecFrameDecoder();
      const got: ExecFrame[] = [];
      for (const chunk of cut(text, sizes)) got.push(...decoder.push(chunk));
      return (
        decoder.isAtBoundary &&
        got.length === sent.length &&
        got.every(
          (frame, index) => frame.type === sent[index]?.type && frame.payload.equals(sent[index].payload),
        )
      );
    }),
  );
  t.pass();
});

t.test('byte by byte: a truncation is seen at every byte, and costs no more than its bytes', (t) => {
  const text = Buffer.concat([encodeExecFrame(4, Buffer.alloc(50, 1)), encodeExecFrame(5, Buffer.alloc(0))]);
  const boundaries = new Set([0, 58, 66]);
  const decoder = new ExecFrameDecoder();
  const got: ExecFrame[] = [];
  for (let at = 0; at < text.length; at += 1) {
    t.equal(decoder.isAtBoundary, boundaries.has(at));
    got.push(...decoder.push(text.subarray(at, at + 1)));
  }
  t.equal(got.length, 2);
  const [small, large] = [MAX_EXEC_PAYLOAD_BYTES / 16, MAX_EXEC_PAYLOAD_BYTES].map((payloadBytes) => {
    const frame = encodeExecFrame(4, Buffer.alloc(payloadBytes, 1));
    return cpuMsOf(() => {
      for (let at = 0; at < frame.length; at += 1) got.push(...decoder.push(frame.subarray(at, at + 1)));
    });
  });
  t.ok(Number(large) < 64 * Number(small), `in single bytes it is linear work: ${small} and ${large} ms`);
  t.equal(got[3]?.payload.length, MAX_EXEC_PAYLOAD_BYTES);
  t.end();
});

t.test('an oversized frame is refused at its header, and so is everything after', (t) => {
  const decoder = new ExecFrameDecoder();
  t.throws(() => decoder.push(Buffer.from('0400000000010001', 'hex')), ExecFrameError);
  t.throws(() => decoder.push(encodeExecFrame(4, Buffer.from('x'))), ExecFrameError);
  t.throws(() => new ExecFrameDecoder().push(Buffer.from('04000000ffffffff', 'hex')), ExecFrameError);
  t.end();
});

t.test('a Uint8Array that is no Buffer will do', (t) => {
  const bytes = Uint8Array.from(encodeExecFrame(1, Buffer.from('abc')));
  t.equal(new ExecFrameDecoder().push(bytes.subarray(0))[0]?.payload.toString(), 'abc');
  t.end();
});
