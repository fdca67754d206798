// A single stream: when its flows request a turn, and the result of a turn.
import {
  DEFAULT_WINDOW_BYTES,
  type DirectWrite,
  FLOW,
  type FrameInput,
  type Stream as Opened,
} from '@sandboxd/proto';
import t from 'tap';
import { Stream } from '../../../../proto/src/channel/stream.ts';
import { FRAME_CREDIT_BYTES, MAX_DATA_BYTES } from '../../../../proto/src/limits.ts';
import { settle } from '../../../support/memory-link.ts';
import { channelPair } from '../support/channel-pair.ts';

const call = { stats: {} };

/** A host's stream whose channel only records calls. */
function soloStream(sendWindow: number) {
  const turns: number[] = [];
  const sent: FrameInput[] = [];
  const stream = new Stream(
    {
      role: 'host',
      isBacklogged: false,
      sendControl: (frame) => void sent.push(frame),
      enqueue: (_stream, flow) => void turns.push(flow),
      offerDirectWrite: () => undefined,
      guard: (_stream, work) => work(),
      finish: () => t.fail('an unrequested end'),
    },
    1,
    sendWindow,
    1000,
  );
  return { stream, turns, sent };
}

t.test('a flow asks for one turn at a time, and for none without credit', async (t) => {
  const { stream, turns } = soloStream(300);
  let asks = 0;
  stream.setSource(FLOW.in, (maxBytes) => {
    asks += 1;
    return Buffer.alloc(Math.min(maxBytes, 100), 1);
  });
  stream.ready(FLOW.in);
  stream.ready(FLOW.in);
  t.same(turns, [FLOW.in]);
  t.equal(stream.take(FLOW.in, MAX_DATA_BYTES)?.length, 100);
  stream.sent(FLOW.in);
  t.equal(turns.length, 2);
  stream.receiveCredit(1);
  t.equal(turns.length, 2, 'one that waits already does not ask again');
  t.equal(stream.take(FLOW.in, MAX_DATA_BYTES)?.length, 137 - FRAME_CREDIT_BYTES);
  stream.sent(FLOW.in);
  t.equal(turns.length, 2);
  t.equal(stream.take(FLOW.in, MAX_DATA_BYTES), null);
  stream.receiveCredit(FRAME_CREDIT_BYTES);
  t.equal(turns.length, 2, 'what a frame costs is no credit for a byte');
  t.equal(stream.take(FLOW.in, MAX_DATA_BYTES), null);
  t.equal(asks, 2);
  stream.receiveCredit(1);
  t.equal(turns.length, 3);
  t.equal(stream.take(FLOW.in, MAX_DATA_BYTES)?.length, 1);
});

t.test('a source that has nothing is not asked again for credit, nor for a flow beside it', async (t) => {
  const { stream, turns } = soloStream(300);
  let bytes = 100;
  stream.setSource(FLOW.in, () => Buffer.alloc(bytes, 1));
  stream.ready(FLOW.in);
  stream.take(FLOW.in, MAX_DATA_BYTES);
  stream.sent(FLOW.in);
  bytes = 0;
  t.equal(stream.take(FLOW.in, MAX_DATA_BYTES), null, 'an empty chunk counts as no bytes');
  stream.receiveCredit(100);
  t.equal(turns.length, 2);
  t.throws(() => stream.receiveCredit(65), { name: 'ProtocolViolation' });
  stream.receiveCredit(64);
  t.equal(stream.sendCredit, 300);
});

t.test('the end of a flow follows its last byte, and comes at once without any', async (t) => {
  const end = [{ stream: 1, flow: FLOW.in, end: {} }];
  const unasked = soloStream(300);
  unasked.stream.setSource(FLOW.in, () => Buffer.of(1));
  unasked.stream.end(FLOW.in);
  t.same(unasked.sent, end);
  for (const bytes of [null, Buffer.alloc(0)]) {
    const { stream, sent } = soloStream(300);
    stream.setSource(FLOW.in, () => {
      stream.end(FLOW.in);
      t.same(sent, []);
      return bytes;
    });
    stream.ready(FLOW.in);
    t.equal(stream.take(FLOW.in, MAX_DATA_BYTES), null);
    t.same(sent, end);
  }
});

t.test('a call is cancelled once, and is sent no more then', async (t) => {
  const { stream, sent, turns } = soloStream(300);
  stream.setSource(FLOW.in, () => t.fail('not asked any more') as never);
  stream.ready(FLOW.in);
  stream.cancel();
  stream.cancel();
  t.same(sent, [{ stream: 1, cancel: {} }]);
  t.equal(stream.take(FLOW.in, MAX_DATA_BYTES), null);
  stream.ready(FLOW.in);
  t.equal(turns.length, 1);
});

t.test(
  'a stream may end while its link reads the source itself, and its source may end it too',
  async (t) => {
    const { stream } = soloStream(300);
    const took: number[] = [];
    const source = { descriptor: 5, length: 10, took: (result: number) => void took.push(result) };
    stream.setSource(FLOW.in, () => source);
    stream.ready(FLOW.in);
    t.equal(stream.take(FLOW.in, MAX_DATA_BYTES, 10), source);
    stream.close();
    stream.sentFrom(FLOW.in, source, 0);
    t.same(took, [0]);
    stream.finish({ stats: {} });
  },
);

t.test('directly written bytes return credit, and a pull reports its file', async (t) => {
  const directWrites: DirectWrite[] = [];
  const reported: unknown[] = [];
  const pair = channelPair((stream) => {
    stream.opened({ isSizeKnown: true, sizeBytes: 3, contentBytes: 2 });
    stream.opened({ isSizeKnown: false });
    stream.offerDirectWrite({ target: 5, wanted: () => 77, took: () => undefined, failed: () => undefined });
  });
  const offerDirectWrite = (_stream: number, directWrite: DirectWrite) => directWrites.push(directWrite);
  const first = pair.host.open(call, { started: (pid, file) => reported.push([pid, file?.sizeBytes]) });
  await settle(pair.links);
  t.same([reported, pair.faults], [[[0, 3]], []], 'a link may lack this method');
  Object.assign(pair.links.guest, { offerDirectWrite });
  const stream: Opened = pair.host.open(call, {});
  stream.setSource(FLOW.in, (maxBytes) => Buffer.alloc(maxBytes, 1));
  stream.ready(FLOW.in);
  t.ok(stream.sendCredit < DEFAULT_WINDOW_BYTES);
  pair.links.host.deliver(1000);
  const before = pair.links.guest.writtenBytes;
  directWrites[0]?.took(DEFAULT_WINDOW_BYTES / 2, 8);
  t.ok(pair.links.guest.writtenBytes > before, 'credit is sent for it');
  first.cancel();
});

t.test('what was never received is given no credit for, and spoils none', async (t) => {
  const { stream, sent } = soloStream(300);
  stream.consumed(5);
  for (let round = 1; round <= 3; round++) {
    stream.receiveData(FLOW.out, Buffer.alloc(1000 - FRAME_CREDIT_BYTES, 1));
    stream.consumed(5000);
    t.same(sent.splice(0), [{ stream: 1, credit: 1000 }]);
  }
});
