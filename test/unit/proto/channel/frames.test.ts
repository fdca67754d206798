// A channel's handling of each frame: unusual encodings, limits, unknown streams, and late frames.
import { mock } from 'node:test';
import {
  AgentError,
  Channel,
  type ChannelOptions,
  FLOW,
  FrameCodec,
  type FrameInput,
  MAX_PARTS_BYTES,
  MAX_STREAMS,
  PART_BYTES,
  type Stream,
  type StreamLoss,
} from '@sandboxd/proto';
import t from 'tap';
import { FrameDecoder } from '../../../../proto/src/wire/frame-decoder.ts';
import { settle } from '../../../support/memory-link.ts';
import { channelPair } from '../support/channel-pair.ts';
import { RawGuest } from '../support/raw-guest.ts';
import { Tally } from '../support/tally.ts';

const call = { stats: {} };

/** A channel that records its writes. */
function soloChannel(role: 'host' | 'guest', more: Partial<ChannelOptions> = {}) {
  const written: ReturnType<typeof FrameCodec.decode>[] = [];
  const decoder = new FrameDecoder('skip', (encoded) =>
    written.push(FrameCodec.decode(Buffer.from(encoded))),
  );
  const link = {
    start: () => undefined,
    write: (chunks: readonly Uint8Array[]) => {
      for (const chunk of chunks) decoder.push(Buffer.from(chunk));
      return true;
    },
    destroy: () => undefined,
  };
  const channel = new Channel({ role, link, sendWindow: 1000, receiveWindow: 1000, ...more });
  const receive = (frame: FrameInput) => channel.receive(Buffer.from(FrameCodec.encode(frame).finish()));
  return { channel, written, receive };
}

t.test('a command gets all events, and one without handlers continues', async (t) => {
  const received: string[] = [];
  const pair = channelPair((stream) => {
    if (stream.id !== 1) return;
    stream.handlers = {
      signal: (name) => void received.push(name),
      resize: (size) => void received.push(JSON.stringify(size)),
      data: (_flow, chunk) => void received.push(`${chunk}`),
      end: () => void received.push('end'),
      cancel: () => void received.push('cancel'),
    };
  });
  for (let id = 1; id <= 2; id++) {
    const stream = pair.host.open(call, {});
    stream.signal('SIGINT');
    stream.resize({ cols: 80, rows: 24 });
    let left = 1;
    stream.setSource(FLOW.in, () => (left-- > 0 ? Buffer.from('a') : null));
    stream.ready(FLOW.in);
    stream.end(FLOW.in);
    stream.cancel();
  }
  await settle(pair.links);
  t.same(received, ['SIGINT', '{"cols":80,"rows":24}', 'a', 'end', 'cancel']);
  t.same(pair.faults, []);
  t.equal(pair.guest.streamCount, 2);
});

t.test('a call needs no handlers, whatever its outcome', async (t) => {
  const pair = channelPair((stream) => {
    stream.started(7);
    let left = 1;
    stream.setSource(FLOW.out, () => (left-- > 0 ? Buffer.from('a') : null));
    stream.ready(FLOW.out);
    stream.end(FLOW.out);
    if (stream.id === 1) stream.finish({ stats: {} });
  });
  pair.host.open(call, {});
  pair.host.open(call, {});
  await settle(pair.links);
  t.equal(pair.host.streamCount, 1);
  pair.host.close(new Error('gone'));
  await settle(pair.links);
  t.same(pair.faults, []);
  t.notOk(pair.host.can('exec'), 'a guest that named nothing can nothing');
});

t.test('data and credit are read as they lie there, without the generated code', async (t) => {
  const { channel, receive } = soloChannel('host');
  const seen: Buffer[] = [];
  const stream = channel.open(call, { data: (_flow, chunk) => void seen.push(chunk) });
  stream.setSource(FLOW.in, () => Buffer.alloc(100, 1));
  stream.ready(FLOW.in);
  const { sendCredit } = stream;
  t.ok(sendCredit < 64, 'all of the credit is used');
  const decode = mock.method(FrameCodec, 'decode');
  t.teardown(() => decode.mock.restore());
  const data = Buffer.from('a');
  const encoded = Buffer.from(FrameCodec.encode({ stream: 1, flow: FLOW.out, data }).finish());
  channel.receive(encoded);
  t.equal(seen[0]?.buffer, encoded.buffer);
  receive({ stream: 1, credit: 30 });
  t.equal(stream.sendCredit, sendCredit + 30);
  t.equal(decode.mock.callCount(), 0);
});

t.test('a frame means the same in whatever order its fields are', async (t) => {
  const guest = new RawGuest();
  const { channel } = await guest.greet();
  const seen: string[] = [];
  const stream = channel.open(call, { data: (flow, chunk) => void seen.push(`${flow} ${chunk}`) });
  let left = 1;
  stream.setSource(FLOW.in, () => (left-- > 0 ? Buffer.alloc(100, 1) : null));
  stream.ready(FLOW.in);
  const credit = stream.sendCredit;
  // data, flow, stream; then credit, stream.
  guest.write(Buffer.of(7, 0x1a, 1, 0x61, 0x10, 2, 8, 1), Buffer.of(4, 0x28, 100, 8, 1));
  t.same(seen, ['2 a']);
  t.equal(stream.sendCredit, credit + 100);
  t.equal(guest.closeCause, undefined);
});

t.test('the numbers of streams have an end', async (t) => {
  const { channel, receive } = soloChannel('guest');
  receive({ stream: 0xffff_ffef, request: call });
  t.equal(channel.open(call, {}).id, 0xffff_fff0);
  t.throws(() => channel.open(call, {}), { name: 'ProtocolViolation', message: /used up/ });
});

t.test('a ping has a longest payload', async (t) => {
  const pair = channelPair(() => undefined);
  const longest = pair.host.ping(Buffer.alloc(65_536, 1));
  const empty = pair.host.ping();
  await t.rejects(pair.host.ping(Buffer.alloc(65_537)), RangeError);
  await settle(pair.links);
  t.equal((await longest).length, 65_536);
  t.equal((await empty).length, 0);
});

t.test('each call above the limit is refused', async (t) => {
  let opened = 0;
  const { channel, receive, written } = soloChannel('guest', { onRequest: () => void opened++ });
  for (let stream = 1; stream <= MAX_STREAMS; stream++) receive({ stream, request: call });
  t.same([opened, written.length], [MAX_STREAMS, 0]);
  receive({ stream: MAX_STREAMS + 1, request: call });
  t.same([opened, channel.streamCount], [MAX_STREAMS, MAX_STREAMS]);
  t.match(written, [{ stream: MAX_STREAMS + 1, result: { error: { code: 'busy' } } }]);
});

t.test('what a host must not send is a violation, and nothing comes of it', async (t) => {
  const { channel, receive, written } = soloChannel('guest', { onRequest: () => undefined });
  receive({ stream: 5, request: call });
  const bytes = FrameCodec.encode({ stream: 5, part: { bytes: Buffer.of(1), last: true } }).finish();
  for (const [frame, message] of [
    [{ stream: 5, request: call }, /^stream 5 opened twice$/],
    [{ stream: 4, request: call }, /^stream 4 opened twice$/],
    [{ stream: 0, part: { bytes: Buffer.alloc(PART_BYTES), last: false } }, /^a part of stream 0/],
    [{ stream: 5, part: { bytes, last: true } }, /^parts that are not one frame/],
    [{ pong: {} }, /^a pong frame that does not belong/],
    [{ request: call }, /^a request frame that does not belong/],
    [{ stream: 0 }, /^a empty frame that does not belong/],
  ] as const)
    t.throws(() => receive(frame), { name: 'ProtocolViolation', message });
  t.same([written, channel.streamCount], [[], 1]);
  receive({ stream: 5, started: {} });
  t.match(written, [{ stream: 5, result: { error: { code: 'invalid', message: /unexpected started/ } } }]);
});

t.test('a call that fails says why to the host, in so many words', async (t) => {
  const failures = [new Error('x'.repeat(5000)), 'no error at all', new AgentError('busy', 'later')];
  const { receive, written } = soloChannel('guest', {
    onRequest: ({ id }) => {
      throw failures[id - 1];
    },
  });
  for (const index of failures.keys()) receive({ stream: index + 1, request: call });
  t.match(
    written.map(({ result }) => result?.error),
    [
      { code: 'internal', message: 'x'.repeat(1024) },
      { code: 'internal', message: 'no error at all' },
      { code: 'busy', message: 'later' },
    ],
  );
  t.equal(written[0]?.result?.error?.message?.length, 1024);
});

t.test('a handler that fails where its stream is over already ends nothing more', async (t) => {
  const faults: unknown[] = [];
  const losses: StreamLoss[] = [];
  const lost = (loss: StreamLoss) => void losses.push(loss);
  const { channel, receive, written } = soloChannel('host', { onFault: (cause) => faults.push(cause) });
  const raise = () => {
    throw new Error('raised');
  };
  const { id } = channel.open(call, { result: raise, lost });
  receive({ stream: id, result: { stats: {} } });
  t.same([faults.length, losses.length], [1, 0]);
  const other: Stream = channel.open(call, {
    data: () => {
      channel.close(new Error('closed within'));
      raise();
    },
    lost,
  });
  receive({ stream: other.id, flow: FLOW.out, data: Buffer.of(1) });
  t.match(losses, [{ kind: 'lost', cause: { message: 'closed within' } }]);
  t.same([faults.length, written.length], [2, 2]);
});

t.test('a channel without callbacks survives a failing handler', async (t) => {
  const { channel, receive } = soloChannel('host');
  const raise = () => {
    throw new Error('raised');
  };
  channel.open(call, { data: raise, lost: raise });
  let isTold = false;
  channel.open(call, {
    lost: () => {
      isTold = true;
    },
  });
  receive({ stream: 1, flow: FLOW.out, data: Buffer.of(1) });
  channel.close(new Error('gone'));
  t.ok(isTold);
});

t.test('a channel that was given up is over for good, for the reason that came first', async (t) => {
  for (const loss of [
    { kind: 'lost', cause: new Error('the first') },
    { kind: 'superseded' },
    { kind: 'detached' },
  ] as const) {
    const { channel, written } = soloChannel('host');
    const stream = channel.open(call, {});
    void channel.hold().catch(() => undefined);
    stream.signal('SIGINT');
    channel.abandon(loss);
    channel.abandon({ kind: 'lost', cause: new Error('the second') });
    t.ok(channel.isClosed && stream.isOver);
    t.equal(channel.streamCount, 0);
    const message = loss.kind === 'lost' ? 'the first' : `the connection was ${loss.kind}`;
    t.throws(() => channel.open(call, {}), { message });
    const { length } = written;
    channel.release();
    channel.sendControl({ ping: {} });
    t.equal(written.length, length, 'what was held back for it is not sent');
  }
});

t.test('a flow that has ended stays so', async (t) => {
  const got = new Tally();
  const pair = channelPair((stream) => {
    stream.end(FLOW.out);
    stream.setSource(FLOW.out, () => Buffer.of(1));
    stream.ready(FLOW.out);
  });
  pair.host.open(call, got);
  await settle(pair.links);
  t.equal(got.bytes, 0);
  t.strictSame(pair.faults, []);
});

t.test('parts for a call that is over are not kept', async (t) => {
  const texts: string[] = [];
  const { receive } = soloChannel('guest', {
    onRequest: (stream, { exec }) => {
      texts.push(exec?.cmd?.[0] ?? '');
      stream.finish({ stats: {} });
    },
  });
  receive({ stream: 1, request: call });
  const bytes = Buffer.alloc(PART_BYTES);
  for (let sent = 0; sent < 2 * MAX_PARTS_BYTES; sent += PART_BYTES)
    receive({ stream: 1, part: { bytes, last: false } });
  const cmd = ['x'.repeat(3 * PART_BYTES)];
  const whole = FrameCodec.encode({ stream: 2, request: { exec: { cmd } } }).finish();
  for (let at = 0; at < whole.length; at += PART_BYTES) {
    const last = at + PART_BYTES >= whole.length;
    receive({ stream: 2, part: { bytes: whole.subarray(at, at + PART_BYTES), last } });
  }
  t.equal(texts[1]?.length, 3 * PART_BYTES, 'the parts of the next message fit');
});
