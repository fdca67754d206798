// Both sides of a connection at the protocol's limits, and link events at any time.
import { mock } from 'node:test';
import {
  type ByteLink,
  connectHost,
  FLOW,
  FrameCodec,
  GuestConnection,
  type LinkEvents,
  MAX_FRAME_BYTES,
  NONCE_BYTES,
  type Stream,
} from '@sandboxd/proto';
import t from 'tap';
import { dataFrame } from '../../../../proto/src/wire/data-frame.ts';
import { FrameDecoder } from '../../../../proto/src/wire/frame-decoder.ts';
import { encodeFrame } from '../../../../proto/src/wire/frame-encoder.ts';
import { syncMark } from '../../../../proto/src/wire/sync-mark.ts';
import { type MemoryLinks, memoryLinks, settle } from '../../../support/memory-link.ts';
import { noteTakingGuest } from '../support/note-taking-guest.ts';
import { RawGuest } from '../support/raw-guest.ts';
import { Tally } from '../support/tally.ts';

const call = { stats: {} };
const nonce = Buffer.alloc(NONCE_BYTES, 1);
const MARK = syncMark(nonce);

/** A link whose events the test emits; records what is written to it. */
class MadeLink implements ByteLink {
  events!: LinkEvents;
  readonly written: ReturnType<typeof FrameCodec.decode>[] = [];
  readonly #decoder = new FrameDecoder('skip', (encoded) => {
    this.written.push(FrameCodec.decode(Buffer.from(encoded)));
  });
  start(events: LinkEvents): void {
    this.events = events;
  }
  write(chunks: readonly Uint8Array[]): boolean {
    for (const chunk of chunks) if (!MARK.equals(chunk)) this.#decoder.push(Buffer.from(chunk));
    return true;
  }
  destroy(): void {}
}

/** A hello, preceded by `before` in the same chunk. */
function greet(link: MadeLink, ...before: Uint8Array[]): void {
  const hello = { version: 1, nonce, incarnation: 'one', window: 65_536 };
  link.events.data(Buffer.concat([...before, ...encodeFrame({ hello })]));
}

async function connect(links: MemoryLinks, onFault?: (cause: unknown) => void) {
  const connection = connectHost(links.host, {
    incarnation: 'one',
    needsResync: false,
    ...(onFault && { onFault }),
  });
  await settle(links);
  return connection;
}

t.test('everything that an agent says of itself may be as long as is allowed', async (t) => {
  for (const window of [4096, 2 ** 20]) {
    const guest = new RawGuest();
    const { hello, channel } = await guest.greet({
      window,
      capabilities: Array.from({ length: 64 }, () => 'x'.repeat(64)),
      agentVersion: 'v'.repeat(64),
      bootId: 'b'.repeat(64),
    });
    t.match(hello, { window, agentVersion: 'v'.repeat(64), bootId: 'b'.repeat(64) });
    t.equal(channel.open(call, {}).sendCredit, window);
  }
});

t.test('a guest sends as much ahead as the host allows, within bounds of its own', async (t) => {
  for (const [window, credit] of [
    [4096, 4096],
    [2 ** 20, 2 ** 20],
    [2 ** 20 + 1, 2 ** 20],
  ] as const) {
    const links = memoryLinks();
    const { streams, seen } = noteTakingGuest(links);
    const hello = { version: 1, nonce, incarnation: 'one', window };
    links.host.write([...encodeFrame({ hello }), ...encodeFrame({ stream: 1, request: call })]);
    await settle(links);
    t.same(seen, ['request 1']);
    t.equal(streams[0]?.sendCredit, credit);
  }
});

t.test('padding ends the longest frame, wherever that was cut', async (t) => {
  // The length of the longest frame, in the maximum number of bytes.
  const length = Buffer.of((MAX_FRAME_BYTES & 0x7f) | 0x80, ((MAX_FRAME_BYTES >> 7) & 0x7f) | 0x80, 0x84, 0);
  for (const keep of [1, 2, 3, 4]) {
    const links = memoryLinks(1 << 20);
    const { seen } = noteTakingGuest(links);
    links.host.write([length.subarray(0, keep)]);
    const connection = connectHost(links.host, { incarnation: 'one', needsResync: true });
    await settle(links);
    t.match(await connection, { hello: { agentVersion: '0.1.0' } });
    t.same(seen, []);
  }
});

t.test('both sides report handlers that fail', async (t) => {
  const links = memoryLinks();
  const faults: string[] = [];
  const note = (cause: unknown) => void faults.push((cause as Error).message);
  noteTakingGuest(links, {
    onRequest: (stream) => {
      stream.started(1);
      throw new Error('in the guest');
    },
    onFault: note,
  });
  const { channel } = await connect(links, note);
  channel.open(call, {
    started: () => {
      throw new Error('on the host');
    },
  });
  await settle(links);
  t.same(faults.sort(), ['in the guest', 'on the host']);
});

t.test('what straddles chunks is put together in the same memory each time', async (t) => {
  const links = memoryLinks();
  const seen: Buffer[] = [];
  const data = (_flow: number, chunk: Buffer) => void seen.push(chunk);
  const streams: Stream[] = [];
  noteTakingGuest(links, {
    onRequest: (stream) => {
      stream.handlers = { data };
      streams.push(stream);
    },
  });
  const { channel } = await connect(links);
  const host = channel.open(call, { data });
  await settle(links);
  for (const [stream, flow] of [
    [host, FLOW.in],
    [streams[0]!, FLOW.out],
  ] as const) {
    let left = 2;
    stream.setSource(flow, () => (left-- > 0 ? Buffer.alloc(50_000, 1) : null));
    stream.ready(flow);
    await settle(links, () => 30_000);
    const [first, second] = seen.splice(0);
    t.ok(first !== undefined && first.buffer === second?.buffer);
  }
});

t.test('the end of a connection is reported once, with the first reason', async (t) => {
  const reported: string[] = [];
  const guest = new RawGuest({ onClose: ({ message }) => void reported.push(message) });
  await guest.greet();
  guest.send({ ping: {} });
  await settle(guest.links);
  t.equal(reported.length, 1);
  t.match(reported, [/^a ping frame/]);
});

t.test('a host goes on to send when its link takes bytes again', async (t) => {
  const links = memoryLinks(1000);
  const got = new Tally();
  noteTakingGuest(links, {
    onRequest: (stream) => {
      stream.handlers = got;
    },
  });
  const { channel } = await connect(links);
  const stream = channel.open(call, {});
  let left = 10;
  stream.setSource(FLOW.in, () => (left-- > 0 ? Buffer.alloc(5000, 1) : null));
  stream.ready(FLOW.in);
  t.ok(links.host.queuedBytes < 20_000);
  await settle(links);
  t.equal(got.bytes, 50_000);
});

t.test(
  'a guest without callbacks ignores all bytes before a hello, and knows no host until then',
  async (t) => {
    const link = new MadeLink();
    const guest = new GuestConnection({
      describe: () => ({ agentVersion: '1' }),
      onRequest: () => undefined,
    });
    guest.attach(link);
    t.same([guest.channel, guest.incarnation], [undefined, undefined]);
    link.events.drain();
    link.events.data(Buffer.concat(encodeFrame({ stream: 1, request: call })));
    link.events.data(Buffer.of(0xff, 0xff, 0xff, 0xff));
    greet(link, Buffer.of(2, 0x32, 0x7f));
    t.match(link.written.at(-1), { helloReply: { agentVersion: '1' } });
    t.equal(guest.incarnation, 'one');
    t.equal(guest.channel?.streamCount, 0);

    const { guest: other, seen } = noteTakingGuest(memoryLinks());
    const silent = new MadeLink();
    let closed: Error | undefined;
    other.attach(silent, (cause) => {
      closed = cause;
    });
    silent.events.data(Buffer.concat(encodeFrame({ stream: 1, request: call })));
    t.same(seen, [], 'what comes before the first hello is no fault');
    silent.events.close(new Error('unplugged'));
    t.match(closed, { message: 'unplugged' });
  },
);

t.test('a frame that only starts like a hello is ignored', async (t) => {
  const link = new MadeLink();
  const { guest, seen } = noteTakingGuest(memoryLinks());
  guest.attach(link);
  greet(link);
  const hello = { version: 1, nonce, incarnation: 'two', window: 65_536 };
  // Of two bodies, the last one wins.
  const both = Buffer.concat([
    FrameCodec.encode({ hello }).finish(),
    FrameCodec.encode({ pong: {} }).finish(),
    Buffer.of(0x88, 1, 1),
  ]);
  link.events.data(Buffer.concat([Buffer.of(both.length), both]));
  t.equal(guest.incarnation, 'one');
  t.match(seen, [/^malformed: a pong frame/]);
});

t.test('a link can query the missing bytes of a frame, and a closed one gets no more writes', async (t) => {
  const link = new MadeLink();
  const { guest, streams, seen } = noteTakingGuest(memoryLinks());
  guest.attach(link);
  greet(link);
  link.events.data(Buffer.concat(encodeFrame({ stream: 1, request: call })));
  t.equal(link.events.missingBytes?.(), 0);
  const frame = Buffer.concat(dataFrame(1, FLOW.in, Buffer.alloc(50, 1)));
  const decode = mock.method(FrameCodec, 'decode');
  t.teardown(() => decode.mock.restore());
  link.events.data(frame.subarray(0, 10));
  t.equal(link.events.missingBytes?.(), frame.length - 10);
  link.events.data(frame.subarray(10));
  t.same([seen.length, decode.mock.callCount()], [2, 0], 'data is read without the generated code');
  const { length } = link.written;
  link.events.close();
  streams[0]?.setSource(FLOW.out, () => Buffer.of(1));
  streams[0]?.ready(FLOW.out);
  streams[0]?.finish({ stats: {} });
  t.equal(link.written.length, length);
});

t.test('what becomes of the link of an old host is nothing to the new one', async (t) => {
  const old = memoryLinks();
  const { guest, streams } = noteTakingGuest(old);
  connectHost(old.host, { incarnation: 'one', needsResync: false }).catch(() => undefined);
  await settle(old);
  // Like a host that has stopped reading.
  old.host.start({ data: () => {}, drain: () => {}, close: () => {} });
  old.guest.write([Buffer.alloc(100_000)]);
  const next = memoryLinks();
  guest.attach(next.guest);
  const connection = connectHost(next.host, { incarnation: 'two', needsResync: false });
  await settle(next);
  const { channel } = await connection;
  const got = new Tally();
  channel.open(call, got);
  await settle(next);
  streams.at(-1)?.setSource(FLOW.out, (maxBytes) => Buffer.alloc(maxBytes));
  streams.at(-1)?.ready(FLOW.out);
  const waiting = next.guest.queuedBytes;
  t.ok(waiting > 0);
  old.guest.deliver(1 << 20);
  await new Promise((resolve) => setImmediate(resolve));
  t.equal(next.guest.queuedBytes, waiting, 'a drain of the old link does not apply to the new one');
  old.guest.destroy();
  await settle(old);
  await settle(next);
  t.ok(got.bytes > 500_000, `${got.bytes} bytes came after the old one was closed`);
});
