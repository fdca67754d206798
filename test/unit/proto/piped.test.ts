// Frames of bytes that stay in a pipe: what they cost, and that they are the frames that were promised.
import fc from 'fast-check';
import t from 'tap';
import { FrameCodec } from '../../../proto/src/messages.ts';
import { creditFor, payloadFor, pipedFrames } from '../../../proto/src/wire/data-frame.ts';
import { FrameDecoder } from '../../../proto/src/wire/frame-decoder.ts';

t.test('credit pays for as many bytes as possible, and no more', async () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 2 ** 21 }), (credit) => {
      const bytes = payloadFor(credit);
      return (bytes === 0 || creditFor(bytes) <= credit) && creditFor(bytes + 1) > credit;
    }),
  );
});

t.test('header, bytes and trailer are frames of the flow', async () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 2 ** 32 - 1 }),
      fc.integer({ min: 1, max: 2 }),
      fc.integer({ min: 1, max: 300_000 }),
      (stream, flow, length) => {
        const frames = pipedFrames(stream, flow, { source: 0, isPipe: true, length });
        const payload = Buffer.alloc(length, 'zero at the end\0');
        const encoded: Uint8Array[] = [];
        for (let at = 0; at < length; at += frames.frameBytes) {
          const isLast = length - at <= frames.frameBytes;
          encoded.push(isLast ? frames.lastHeader : frames.header);
          encoded.push(payload.subarray(at, at + frames.frameBytes), frames.trailer);
        }
        const got: Buffer[] = [];
        const decoder = new FrameDecoder('refuse', (bytes) => {
          const frame = FrameCodec.decode(bytes);
          if (frame.stream === stream && frame.flow === flow) got.push(Buffer.from(frame.data as Buffer));
        });
        decoder.push(Buffer.concat(encoded));
        return decoder.missingBytes === 0 && Buffer.concat(got).equals(payload);
      },
    ),
    { numRuns: 50 },
  );
});
