// For any bytes of a guest, the host continues or closes that one connection with a ProtocolViolation.

import {
  DEFAULT_WINDOW_BYTES,
  FrameCodec,
  type FrameInput,
  type HostConnectionOptions,
  MAX_DATA_BYTES,
  MAX_MESSAGE_BYTES,
  MAX_PARTS_BYTES,
  PART_BYTES,
  ProtocolViolation,
  type Stream,
  type StreamHandlers,
} from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { cut } from '../support/cut.ts';
import { RawGuest } from '../support/raw-guest.ts';

const call = { stats: {} };
const result = { stats: {} };

/** A connection with three streams; the second has ended. */
async function connected(
  handlers: StreamHandlers = {},
  options: Partial<HostConnectionOptions> = {},
): Promise<{ guest: RawGuest; stream: Stream }> {
  const guest = new RawGuest(options);
  const { channel } = await guest.greet();
  const stream = channel.open(call, handlers);
  channel.open(call, {});
  channel.open(call, {});
  guest.send({ stream: 2, result });
  return { guest, stream };
}

const full = Buffer.alloc(PART_BYTES, 1);
const deepGroup = Buffer.alloc(60_000, (20 << 3) | 3 | 0x80);
const violations: Record<string, (guest: RawGuest) => void> = {
  'a stream that was never opened': (guest) => guest.send({ stream: 9, flow: 1, data: Buffer.of(1) }),
  'credit of a stream that was never opened': (guest) => guest.send({ stream: 9, credit: 1 }),
  'a stream that is over': (guest) => guest.send({ stream: 2, flow: 1, data: Buffer.of(1) }),
  'a second result': (guest) => guest.send({ stream: 2, result }),
  'a request': (guest) => guest.send({ stream: 1, request: call }),
  'a request on a new stream': (guest) => guest.send({ stream: 4, request: call }),
  'a cancel': (guest) => guest.send({ stream: 1, cancel: {} }),
  'a signal': (guest) => guest.send({ stream: 1, signal: { name: 'SIGKILL' } }),
  'a resize': (guest) => guest.send({ stream: 1, resize: { cols: 1, rows: 1 } }),
  'a hello': (guest) => guest.send({ hello: { version: 1, nonce: guest.nonce } }),
  'a second hello reply': (guest) =>
    guest.send({ helloReply: { version: 1, nonce: guest.nonce, window: 65_536 } }),
  'a ping': (guest) => guest.send({ ping: { payload: Buffer.of(1) } }),
  'a pong without its ping': (guest) => guest.send({ pong: { payload: Buffer.of(1) } }),
  'a frame without a body': (guest) => guest.send({ stream: 1 }),
  'a frame without anything but the mark of its end': (guest) => guest.send({ whole: true }),
  'an unknown field in place of a body': (guest) => guest.write(Buffer.of(5, 8, 1, 0xf8, 0x07, 1)),
  padding: (guest) => guest.write(Buffer.alloc(10)),
  'a frame that ends in a zero byte': (guest) => guest.write(Buffer.of(4, 8, 1, 0x22, 0)),
  'bytes of the host’s flow': (guest) => guest.send({ stream: 1, flow: 0, data: Buffer.of(1) }),
  'bytes of a flow that does not exist': (guest) => guest.send({ stream: 1, flow: 3, data: Buffer.of(1) }),
  'bytes behind the end': (guest) =>
    guest.send({ stream: 1, flow: 1, end: {} }, { stream: 1, flow: 1, data: Buffer.of(1) }),
  'a second end': (guest) => guest.send({ stream: 1, flow: 2, end: {} }, { stream: 1, flow: 2, end: {} }),
  'an empty data frame': (guest) => guest.send({ stream: 1, flow: 1, data: Buffer.alloc(0) }),
  'a data frame over the limit': (guest) =>
    guest.send({ stream: 1, flow: 1, data: Buffer.alloc(MAX_DATA_BYTES + 1, 1) }),
  'a long data frame in parts': (guest) =>
    guest.send({ stream: 1, flow: 1, data: Buffer.alloc(MAX_DATA_BYTES * 4, 1) }),
  'more than the credit': (guest) => {
    const frame = { stream: 1, flow: 1, data: Buffer.alloc(MAX_DATA_BYTES, 1) };
    for (let sent = 0; sent <= DEFAULT_WINDOW_BYTES; sent += MAX_DATA_BYTES) guest.send(frame);
  },
  'more small frames than the credit': (guest) => {
    for (let sent = 0; sent <= DEFAULT_WINDOW_BYTES; sent += 65)
      guest.send({ stream: 1, flow: 1, data: Buffer.of(1) });
  },
  'credit for nothing': (guest) => guest.send({ stream: 1, credit: 1 }),
  'no credit': (guest) => guest.send({ stream: 1, credit: 0 }),
  'credit without bounds': (guest) => guest.send({ stream: 1, credit: 0xffff_ffff }),
  'a second start': (guest) =>
    guest.send({ stream: 1, started: { pid: 2 } }, { stream: 1, started: { pid: 2 } }),
  'parts of stream 0': (guest) => guest.send({ stream: 0, part: { bytes: full, last: false } }),
  'parts of a stream that is not open': (guest) =>
    guest.send({ stream: 7, part: { bytes: full, last: false } }),
  'a short part': (guest) => guest.send({ stream: 1, part: { bytes: Buffer.of(1), last: false } }),
  'an empty part': (guest) => guest.send({ stream: 1, part: { last: true } }),
  'a part within a part': (guest) => {
    const bytes = FrameCodec.encode({ stream: 1, part: { bytes: Buffer.of(1), last: true } }).finish();
    guest.send({ stream: 1, part: { bytes, last: true } });
  },
  'a part of another stream’s frame': (guest) => {
    guest.send({ stream: 1, part: { bytes: FrameCodec.encode({ stream: 3, result }).finish(), last: true } });
  },
  'parts without an end': (guest) => {
    for (let sent = 0; sent <= MAX_MESSAGE_BYTES; sent += PART_BYTES) {
      guest.send({ stream: 1, part: { bytes: full, last: false } });
    }
  },
  'a frame over the limit': (guest) => guest.write(Buffer.of(0xff, 0xff, 0x7f)),
  'a frame length without an end': (guest) => guest.write(Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff)),
  'a cut message': (guest) => guest.write(Buffer.of(3, 0x1a, 0x7f, 1)),
  'groups without an end': (guest) => guest.write(Buffer.of(0xe0, 0xd4, 0x03), deepGroup),
};

/** The error text for each prefix; other texts come from the decoder. */
const reasons: readonly (readonly [RegExp, RegExp])[] = [
  [/^a stream that was|^credit of a stream/, /^a frame of stream 9, which is not open$/],
  [/^a stream that is over|^a second result/, /^a frame of stream 2, which is not open$/],
  [/^a request on a new/, /^a frame of stream 4, which is not open$/],
  [/^a (request|cancel|signal|resize)$/, /^an unexpected (request|cancel|signal|resize) frame on stream 1$/],
  [/^a frame without a body|^an unknown field/, /^an unexpected empty frame on stream 1$/],
  [/^a (hello|second hello|ping)/, /^a (hello|helloReply|ping) frame that does not belong on stream 0$/],
  [/^a frame without anything/, /^a empty frame that does not belong on stream 0$/],
  [/^a pong/, /^a pong without its ping$/],
  [/^bytes|^a second end/, /^stream 1 was sent bytes of flow [0-3], which is not open$/],
  [/^an empty data|^more/, /^stream 1 was sent (0|1|65536) bytes over its credit$/],
  [/data frame over|^a long data/, /^a data frame of \d+ bytes$/],
  [/^credit (for|without)|^no credit/, /^stream 1 was given \d+ bytes of credit, more than it had used$/],
  [/^parts of/, /^a part of stream [07], which is not open$/],
  [/^(a short|an empty) part/, /^a part of [01] bytes$/],
  [/^a part (within|of another)/, /^parts that are not one frame of their stream$/],
  [/^parts without/, /^the parts of a message are over the limit$/],
];

t.test('each thing that a guest must not send is a violation', async (t) => {
  for (const [name, send] of Object.entries(violations)) {
    const losses: string[] = [];
    const { guest } = await connected({ lost: (loss) => void losses.push(loss.kind) });
    t.equal(guest.closeCause, undefined);
    send(guest);
    t.type(guest.closeCause, ProtocolViolation, name);
    const reason = reasons.find(([kind]) => kind.test(name));
    if (reason) t.match(guest.closeCause?.message, reason[1], name);
    t.strictSame(losses, ['lost'], 'its calls are notified');
    t.ok(guest.links.host.isClosed, 'and the link is closed');
  }
});

t.test('a ping is answered by its pong, and by nothing else', async (t) => {
  const guest = new RawGuest();
  const { channel } = await guest.greet();
  const [first, second] = [channel.ping(Buffer.from('1')), channel.ping(Buffer.from('2'))];
  guest.send({ pong: { payload: Buffer.from('one') } });
  t.equal(`${Buffer.from(await first)}`, 'one');
  const refused = t.rejects(second, { message: /^a ping frame that does not belong/ });
  guest.send({ ping: { payload: Buffer.from('two') } });
  await refused;
});

t.test('after a violation not one more frame of the same chunk is looked at', async (t) => {
  let seen = 0;
  const count = (): void => {
    seen += 1;
  };
  const { guest } = await connected({ data: count });
  const data: FrameInput = { stream: 1, flow: 1, data: Buffer.of(1) };
  guest.send(data, { stream: 1, cancel: {} }, data);
  t.equal(seen, 1);
});

t.test('a handler may call a guest’s answer a violation', async (t) => {
  const { guest } = await connected({
    result: () => {
      throw new ProtocolViolation('an answer to another question');
    },
  });
  guest.send({ stream: 1, result });
  t.match(guest.closeCause, { message: 'an answer to another question' });
});

t.test('what a call left in parts is forgotten with it, so that any number of calls may', async (t) => {
  const guest = new RawGuest();
  const { channel } = await guest.greet();
  const calls = (2 * MAX_PARTS_BYTES) / PART_BYTES;
  for (let id = 1; id <= calls; id++) {
    channel.open(call, {});
    guest.send({ stream: id, part: { bytes: full, last: false } }, { stream: id, result });
  }
  t.equal(guest.closeCause, undefined);
  t.equal(channel.streamCount, 0);
});

t.test('all of the credit may be used, and every given byte of it once', async (t) => {
  const { guest, stream } = await connected();
  const frame = { stream: 1, flow: 1, data: Buffer.alloc(MAX_DATA_BYTES - 64, 1) };
  for (let sent = 0; sent < DEFAULT_WINDOW_BYTES; sent += MAX_DATA_BYTES) guest.send(frame);
  t.equal(guest.closeCause, undefined);
  // Enough for a credit frame.
  const due = DEFAULT_WINDOW_BYTES / 2 / MAX_DATA_BYTES;
  for (let frames = 0; frames < due; frames++) stream.consumed(MAX_DATA_BYTES - 64);
  guest.links.host.deliver(1 << 20);
  t.equal(guest.frames.at(-1)?.credit, due * MAX_DATA_BYTES);
  guest.send(...Array.from({ length: due }, () => frame));
  t.equal(guest.closeCause, undefined);
  guest.send({ stream: 1, flow: 2, data: Buffer.of(1) });
  t.type(guest.closeCause, ProtocolViolation);
});

const wildFrame: fc.Arbitrary<FrameInput> = fc.record(
  {
    stream: fc.constantFrom(0, 1, 1, 1, 2, 3, 0xffff_ffff),
    flow: fc.constantFrom(1, 1, 2, 0, 3),
    data: fc.uint8Array({ maxLength: 300 }),
    end: fc.constant({}),
    credit: fc.constantFrom(0, 1, 100_000, 0xffff_ffff),
    started: fc.record({ pid: fc.nat() }),
    result: fc.oneof(
      fc.constant({}),
      fc.record({ error: fc.record({ code: fc.string(), message: fc.string() }) }),
    ),
    pong: fc.record({ payload: fc.uint8Array({ maxLength: 20 }) }),
    part: fc.record({ bytes: fc.uint8Array({ maxLength: 20 }), last: fc.boolean() }),
    hello: fc.constant({}),
    cancel: fc.constant({}),
  },
  { requiredKeys: ['stream'] },
);

t.test('no bytes at all make the host throw out of its link, hang or answer without end', async (t) => {
  const wild = fc.oneof(
    fc.uint8Array({ maxLength: 2000 }).map((bytes) => Buffer.from(bytes)),
    fc.array(wildFrame, { maxLength: 12 }).map((frames) =>
      Buffer.concat(
        frames.map((frame) => {
          const encoded = FrameCodec.encode(frame).finish();
          return Buffer.concat([Buffer.of((encoded.length & 0x7f) | 0x80, encoded.length >> 7), encoded]);
        }),
      ),
    ),
  );
  let violationCount = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(wild, { maxLength: 6 }),
      fc.infiniteStream(fc.nat(900)),
      async (texts, sizes) => {
        const { guest, stream } = await connected();
        stream.handlers = { data: (_flow, chunk) => stream.consumed(chunk.length) };
        const before = guest.links.host.writtenBytes;
        for (const chunk of cut(Buffer.concat(texts), sizes)) guest.write(chunk);
        await Promise.resolve();
        if (guest.closeCause !== undefined) violationCount += 1;
        return (
          (guest.closeCause === undefined || guest.closeCause instanceof ProtocolViolation) &&
          guest.links.host.writtenBytes - before < 1000
        );
      },
    ),
    { numRuns: 400 },
  );
  t.ok(violationCount > 50, 'most of it was a violation');
});
