// Links that read a stream's source and write its received data themselves. The rules are the same as for bytes that
// pass through JavaScript.
import {
  type ByteLink,
  type DirectWrite,
  FLOW,
  MAX_DATA_BYTES,
  type Source,
  type SourceFrames,
  type Stream,
} from '@sandboxd/proto';
import t from 'tap';
import { dataFrame } from '../../../../proto/src/wire/data-frame.ts';
import { settle } from '../../../support/memory-link.ts';
import { type ChannelPair, channelPair } from '../support/channel-pair.ts';

type Answer = ReturnType<NonNullable<ByteLink['writeFrom']>>;

/** Lets the guest's link read sources itself. Fails when the channel asks endlessly. */
function readsItself(
  pair: ChannelPair,
  answer: (frames: SourceFrames, asked: number) => Answer,
): SourceFrames[] {
  const asked: SourceFrames[] = [];
  const writeFrom = (frames: SourceFrames): Answer => {
    asked.push(frames);
    if (asked.length > 1000) throw new Error('asked again and again');
    return answer(frames, asked.length);
  };
  Object.assign(pair.links.guest, { writeFrom });
  return asked;
}

/** A source that returns descriptor 7 for the maximum length. */
const descriptor =
  (took: (result: number) => void = () => undefined): Source =>
  (_maxBytes, length) => ({ descriptor: 7, length, took });

/** A link's reads of a descriptor with `bytes`. */
function fileOf(pair: ChannelPair, bytes: number): { answer: (frames: SourceFrames) => Answer } {
  let left = bytes;
  return {
    answer: ({ stream, flow, length }) => {
      const result = Math.min(length, left);
      left -= result;
      let hasSpace = true;
      for (let at = 0; at < result; at += MAX_DATA_BYTES)
        hasSpace = pair.links.guest.write(
          dataFrame(stream, flow as typeof FLOW.out, Buffer.alloc(Math.min(MAX_DATA_BYTES, result - at))),
        );
      return { result, hasSpace };
    },
  };
}

t.test('it waits for free space, and a source without bytes is not called until it is ready', async (t) => {
  const results: number[] = [];
  let stream: Stream | undefined;
  const pair = channelPair((opened) => {
    stream = opened;
    opened.setSource(
      FLOW.out,
      descriptor((result) => results.push(result)),
    );
    opened.ready(FLOW.out);
  });
  const asked = readsItself(pair, (_frames, count) => ({
    result: count === 1 ? 1000 : 0,
    hasSpace: count !== 1,
  }));
  pair.host.open({ stats: {} }, {});
  await settle(pair.links);
  t.same(results, [1000], 'a full link is not called again');
  pair.guest.drained();
  await settle(pair.links);
  t.same(results, [1000, 0], 'and a source without bytes is not until it is ready');
  t.match(asked, [{ stream: 1, flow: FLOW.out, descriptor: 7 }, { stream: 1 }]);
  stream?.ready(FLOW.out);
  await settle(pair.links);
  t.same(results, [1000, 0, 0]);
});

t.test('it sends what there is credit for, and goes on with each that comes back', async (t) => {
  const [windowBytes, fileBytes] = [20_000, 150_000];
  let stream: Stream | undefined;
  const pair = channelPair(
    (opened) => {
      stream = opened;
      opened.setSource(
        FLOW.out,
        descriptor((result) => result === 0 && opened.end(FLOW.out)),
      );
      opened.ready(FLOW.out);
    },
    { windowBytes },
  );
  const asked = readsItself(pair, fileOf(pair, fileBytes).answer);
  const got = { bytes: 0, hasEnded: false };
  const host = pair.host.open(
    { stats: {} },
    {
      data: (_flow, chunk) => {
        got.bytes += chunk.length;
      },
      end: () => {
        got.hasEnded = true;
      },
    },
  );
  await settle(pair.links);
  t.ok(got.bytes > 0 && got.bytes <= windowBytes, `${got.bytes} bytes are in flight`);
  t.ok((stream?.sendCredit ?? windowBytes) < 1000, 'all of the credit is used');
  for (let taken = 0; taken < got.bytes; ) {
    const bytes = got.bytes - taken;
    taken = got.bytes;
    host.consumed(bytes);
    await settle(pair.links);
  }
  t.same(got, { bytes: fileBytes, hasEnded: true });
  t.ok(asked.every(({ length }) => length <= windowBytes));
  t.same(pair.faults, []);
});

t.test('a flow that is not alone has as much of a turn as any other', async (t) => {
  const pair = channelPair(
    (stream) => {
      stream.setSource(FLOW.out, descriptor());
      stream.ready(FLOW.out);
    },
    { capacityBytes: 2 ** 22 },
  );
  const { answer } = fileOf(pair, 2 ** 20);
  const asked = readsItself(pair, (frames, count) =>
    count === 1 ? { result: 1, hasSpace: false } : answer(frames),
  );
  for (let id = 1; id <= 2; id++) pair.host.open({ stats: {} }, {});
  await settle(pair.links);
  pair.guest.drained();
  t.same(
    asked.slice(1, 4).map(({ stream }) => stream),
    [1, 2, 1],
  );
  t.ok(
    asked.slice(1, 4).every(({ length }) => length <= MAX_DATA_BYTES),
    'two take turns of a frame each',
  );
  t.ok((asked[0]?.length ?? 0) > MAX_DATA_BYTES, 'one that is alone has more');
});

t.test('a reading that fails ends its own stream only', async (t) => {
  const pair = channelPair((stream) => {
    if (stream.id === 2) return stream.finish({ stats: { processes: 2 } });
    stream.setSource(
      FLOW.out,
      descriptor((result) => {
        throw new Error(`error ${result}`);
      }),
    );
    stream.ready(FLOW.out);
  });
  readsItself(pair, () => ({ result: -5, hasSpace: true }));
  const results: unknown[] = [];
  for (let id = 1; id <= 2; id++)
    pair.host.open(
      { stats: {} },
      { result: ({ error, stats }) => results.push(error?.message ?? stats?.processes) },
    );
  await settle(pair.links);
  t.same(results, ['error -5', 2]);
});

t.test(
  'what a link takes in by itself counts as if it had been given, until its stream is over',
  async (t) => {
    const directWrites: DirectWrite[] = [];
    const seen: string[] = [];
    let stream: Stream | undefined;
    const windowBytes = 10_000;
    const pair = channelPair(
      (opened) => {
        stream = opened;
        opened.offerDirectWrite({
          target: 5,
          wanted: () => 77,
          took: (bytes) => void seen.push(`took ${bytes}`),
          failed: (errno) => void seen.push(`failed ${errno}`),
        });
      },
      { windowBytes },
    );
    Object.assign(pair.links.guest, {
      offerDirectWrite: (_stream: number, directWrite: DirectWrite) => directWrites.push(directWrite),
    });
    const [results, host] = [[] as unknown[], pair.host];
    for (let id = 1; id <= 2; id++)
      host.open({ stats: {} }, { result: ({ error }) => results.push(error?.code) });
    await settle(pair.links);
    const [first, second] = directWrites;
    t.match(first, { target: 5 });
    t.equal(first?.wanted(), 77);
    first?.took(windowBytes, 1);
    await settle(pair.links);
    t.same([seen, results], [[], ['invalid']], 'more than there was credit for ends the call');
    second?.took(1000, 1);
    second?.failed(28);
    t.same(seen, ['took 1000', 'failed 28']);
    stream?.finish({ stats: {} });
    const written = pair.links.guest.writtenBytes;
    second?.took(1000, 1);
    second?.failed(28);
    t.same([second?.wanted(), seen.length], [0, 2]);
    t.equal(pair.links.guest.writtenBytes, written);
  },
);
