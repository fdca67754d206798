// Streams and channels: calls at unusual moments, failing handlers, and missing handlers.
import {
  AgentError,
  DEFAULT_WINDOW_BYTES,
  FLOW,
  MAX_BACKLOG_BYTES,
  MAX_DATA_BYTES,
  MAX_STREAMS,
  type Result,
  type Stream,
  type StreamHandlers,
  type StreamLoss,
} from '@sandboxd/proto';
import t from 'tap';
import { settle } from '../../../support/memory-link.ts';
import { channelPair } from '../support/channel-pair.ts';
import { Tally } from '../support/tally.ts';

const call = { stats: {} };

t.test('a link that drains within its write is not waited for', async (t) => {
  const pair = channelPair((stream) => {
    let left = 10;
    stream.setSource(FLOW.out, () => (left-- > 0 ? Buffer.of(7) : null));
    stream.ready(FLOW.out);
  });
  const write = pair.links.guest.write.bind(pair.links.guest);
  pair.links.guest.write = (chunks) => {
    write(chunks);
    pair.guest.drained();
    return false;
  };
  const got = new Tally();
  pair.host.open(call, got);
  await settle(pair.links);
  t.equal(got.bytes, 10);
});

t.test('sources and handlers may call anything from within', async (t) => {
  const events: string[] = [];
  const pair = channelPair((stream) => {
    let step = 0;
    stream.setSource(FLOW.out, () => {
      step += 1;
      stream.ready(FLOW.out);
      if (step < 3) return step === 1 ? Buffer.from('a') : null;
      if (step === 3) {
        stream.end(FLOW.out);
        stream.end(FLOW.out);
        return Buffer.from('b');
      }
      throw new Error('asked again after its end');
    });
    stream.setSource(FLOW.err, () => {
      stream.finish({ stats: {} });
      return Buffer.from('never sent');
    });
    stream.handlers = {
      data: (_flow, chunk) => {
        stream.consumed(chunk.length);
        stream.ready(FLOW.err);
      },
      end: () => void events.push('guest end'),
    };
    stream.started(12);
    stream.started(12);
    stream.ready(FLOW.out);
  });
  const host: Stream = pair.host.open(call, {
    started: (pid) => void events.push(`started ${pid}`),
    data: (flow, chunk) => {
      events.push(`${flow} ${chunk}`);
      host.consumed(chunk.length);
    },
    end: (flow) => {
      events.push(`end ${flow}`);
      host.setSource(FLOW.in, () => {
        host.end(FLOW.in);
        return Buffer.from('go');
      });
      host.ready(FLOW.in);
    },
    result: () => {
      events.push('result');
      host.cancel();
      host.signal('SIGINT');
      host.consumed(5);
      host.end(FLOW.in);
      host.ready(FLOW.in);
    },
  });
  await settle(pair.links);
  t.strictSame(events, ['started 12', '1 a', '1 b', 'end 1', 'result']);
  t.equal(pair.host.streamCount + pair.guest.streamCount, 0);
  t.strictSame(pair.faults, []);
  const written = pair.links.host.writtenBytes;
  host.end(FLOW.in);
  t.equal(pair.links.host.writtenBytes, written, 'a stream that is over sends nothing');
});

t.test('a finished guest stream sends nothing more, whatever is still called on it', async (t) => {
  let stream: Stream | undefined;
  const pair = channelPair((opened) => {
    stream = opened;
    opened.setSource(FLOW.out, () => Buffer.of(1));
    opened.finish({ stats: {} });
  });
  const results: Result[] = [];
  pair.host.open(call, { result: (result) => void results.push(result) });
  await settle(pair.links);
  const written = pair.links.guest.writtenBytes;
  stream?.ready(FLOW.out);
  stream?.end(FLOW.out);
  stream?.started(1);
  stream?.setSource(FLOW.err, () => Buffer.of(1));
  stream?.ready(FLOW.err);
  stream?.consumed(1 << 20);
  stream?.finish({ stats: {} });
  await settle(pair.links);
  t.equal(pair.links.guest.writtenBytes, written);
  t.equal(results.length, 1);
});

t.test('a handler or source that throws ends its own stream only', async (t) => {
  const failing: Record<string, StreamHandlers> = {
    data: { data: () => raise('data') },
    cancel: { cancel: () => raise('cancel') },
    signal: { signal: () => raise('signal') },
    lost: {
      signal: () => raise('signal'),
      lost: () => raise('lost'),
    },
  };
  for (const [name, handlers] of Object.entries(failing)) {
    const losses: StreamLoss[] = [];
    const pair = channelPair((stream) => {
      stream.handlers = { lost: (loss) => void losses.push(loss), ...handlers };
      if (stream.id === 2) stream.finish({ stats: { processes: 2 } });
    });
    const results: Result[] = [];
    const bad = pair.host.open(call, { result: (result) => void results.push(result) });
    bad.setSource(FLOW.in, () => (bad.sendCredit === DEFAULT_WINDOW_BYTES ? Buffer.from('x') : null));
    if (name === 'data') bad.ready(FLOW.in);
    else if (name === 'cancel') bad.cancel();
    else bad.signal('SIGINT');
    pair.host.open(call, { result: (result) => void results.push(result) });
    await settle(pair.links);
    t.match(results[0]?.error, { code: 'internal', message: name === 'lost' ? 'signal' : name });
    t.equal(results[1]?.stats?.processes, 2, 'the other call was answered');
    t.equal(pair.faults.length, name === 'lost' ? 2 : 1);
    t.equal(losses.length, name === 'lost' ? 0 : 1, 'the failed call is notified, to clean up');
  }
  const pair = channelPair((stream) => {
    if (stream.id === 1) throw new AgentError('not_found', 'no such thing');
    stream.setSource(FLOW.out, () =>
      stream.id === 2 ? raise('source') : Buffer.alloc(MAX_DATA_BYTES + 1, 1),
    );
    stream.ready(FLOW.out);
  });
  const errors: unknown[] = [];
  for (let id = 1; id <= 3; id += 1)
    pair.host.open(call, { result: (result) => void errors.push(result.error?.code) });
  await settle(pair.links);
  t.strictSame(errors, ['not_found', 'internal', 'internal']);
});

t.test(
  'on the host a handler that throws cancels its stream; the rest of it is discarded until the result',
  async (t) => {
    let isCancelled = false;
    const pair = channelPair((stream) => {
      let left = 5;
      stream.setSource(FLOW.out, () => (left-- > 0 ? Buffer.from('x') : null));
      stream.ready(FLOW.out);
      stream.handlers = {
        cancel: () => {
          isCancelled = true;
          stream.finish({ stats: {} });
        },
      };
    });
    const events: string[] = [];
    pair.host.open(call, {
      data: () => raise('data'),
      result: () => void events.push('result'),
      lost: (loss) => void events.push(loss.kind),
    });
    const other: string[] = [];
    pair.host.open(call, { data: (_flow, chunk) => void other.push(chunk.toString()) });
    await settle(pair.links);
    t.ok(isCancelled);
    t.strictSame(events, ['lost']);
    t.equal(other.length, 5);
    t.equal(pair.host.streamCount, 1, 'the failed stream is gone once the guest answered');
  },
);

t.test('a guest that takes nothing cannot make the host hold more and more', async (t) => {
  const pair = channelPair(() => undefined);
  const request = { exec: { cmd: ['x'.repeat(60_000)] } };
  const stream = pair.host.open(call, {});
  let refused = 0;
  for (let index = 0; index < 200; index += 1) {
    try {
      pair.host.open(request, {});
    } catch (error) {
      t.match(error, { code: 'busy' });
      refused += 1;
    }
  }
  t.ok(refused > 100);
  for (let index = 0; index < 100_000; index += 1) stream.signal('SIGINT');
  for (let index = 0; index < 100_000; index += 1) stream.resize({ cols: index, rows: 1 });
  await t.rejects(pair.host.ping(), { code: 'busy' });
  t.ok(
    pair.links.host.queuedBytes < MAX_BACKLOG_BYTES + 200_000,
    `${pair.links.host.queuedBytes} bytes wait`,
  );
  stream.cancel();
  await settle(pair.links);
  const pong = pair.host.ping(Buffer.from('again'));
  await settle(pair.links);
  t.equal(Buffer.from(await pong).toString(), 'again', 'it all works once the guest reads');
});

t.test('what was held back goes on by itself when it is released, and in order', async (t) => {
  const got: string[] = [];
  const events: string[] = [];
  const pair = channelPair((stream) => {
    stream.handlers = {
      data: (_flow, chunk) => {
        got[stream.id] = `${got[stream.id] ?? ''}${chunk}`;
        stream.consumed(chunk.length);
      },
      signal: (name) => void events.push(name),
    };
  });
  const upload = (stream: Stream, text: string): void => {
    let rest = Buffer.from(text);
    stream.setSource(FLOW.in, (maxBytes) => {
      const piece = rest.subarray(0, Math.min(maxBytes, 1000));
      rest = rest.subarray(piece.length);
      return piece.length > 0 ? piece : null;
    });
    stream.ready(FLOW.in);
  };
  const [early, late] = ['early '.repeat(100_000), 'late '.repeat(1000)];
  upload(pair.host.open(call, {}), early);
  pair.links.host.deliver(50_000);
  const quiet = pair.host.hold();
  const stream = pair.host.open(call, {});
  upload(stream, late);
  stream.signal('SIGINT');
  await settle(pair.links);
  await quiet;
  t.ok((got[1]?.length ?? 0) < early.length, 'an upload is paused');
  t.same([got[2], events], [undefined, []], 'and nothing else begins');
  pair.host.release();
  await settle(pair.links);
  t.equal(got[1], early);
  t.equal(got[2], late);
  t.same(events, ['SIGINT']);
  pair.host.release();
  await settle(pair.links);
  t.strictSame(pair.faults, []);
});

t.test('calls have a limit on either side, and ids are never used twice', async (t) => {
  const guests: Stream[] = [];
  const pair = channelPair((stream) => void guests.push(stream), { capacityBytes: 1 << 30 });
  for (let index = 0; index < MAX_STREAMS; index += 1) pair.host.open(call, {});
  t.throws(() => pair.host.open(call, {}), { code: 'busy' });
  await settle(pair.links);
  t.equal(guests.length, MAX_STREAMS);
  guests[0]?.finish({ stats: {} });
  await settle(pair.links);
  t.equal(pair.host.open(call, {}).id, MAX_STREAMS + 1);
  pair.host.close(new Error('done'));
  t.throws(() => pair.host.open(call, {}), { message: 'done' });
  await t.rejects(pair.host.ping(), { message: 'done' });
});

t.test('losing the channel tells every stream once, and every ping', async (t) => {
  const guestLosses: string[] = [];
  const pair = channelPair((stream) => {
    stream.handlers = { lost: (loss) => void guestLosses.push(loss.kind) };
  });
  const losses: string[] = [];
  pair.host.open(call, { lost: () => raise('a lost handler that throws') });
  const stream: Stream = pair.host.open(call, {
    lost: (loss) => {
      losses.push(loss.kind);
      stream.cancel();
      t.throws(() => pair.host.open(call, {}));
    },
  });
  await settle(pair.links, () => 4096);
  const pong = t.rejects(pair.host.ping(), { message: 'gone' });
  pair.host.close(new Error('gone'));
  pair.host.close(new Error('twice'));
  await pong;
  await settle(pair.links);
  t.strictSame(losses, ['lost']);
  t.strictSame(guestLosses, ['lost', 'lost']);
  t.ok(pair.host.isClosed && pair.guest.isClosed);
});

function raise(message: string): never {
  throw new Error(message);
}

t.test('nothing more is written to a link that has closed, whatever its streams have', async (t) => {
  const streams: Stream[] = [];
  const pair = channelPair((stream) => void streams.push(stream));
  pair.host.open(call, {});
  await settle(pair.links);
  pair.guest.linkClosed();
  const written = pair.links.guest.writtenBytes;
  streams[0]?.setSource(FLOW.out, () => Buffer.of(1));
  streams[0]?.ready(FLOW.out);
  await settle(pair.links);
  t.equal(pair.links.guest.writtenBytes, written);
});

t.test('who can send nothing now does not ask again and again', async (t) => {
  const pair = channelPair((stream) => {
    stream.setSource(FLOW.out, (maxBytes) => Buffer.alloc(maxBytes));
    stream.ready(FLOW.out);
  });
  const isAsking = async () => {
    for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve));
    return process.getActiveResourcesInfo().includes('Immediate');
  };
  pair.host.open(call, {});
  pair.links.host.deliver(1 << 20);
  t.notOk(await isAsking(), 'on a link that takes nothing');
  const stream = pair.host.open(call, {});
  stream.setSource(FLOW.in, (maxBytes) => Buffer.alloc(maxBytes));
  void pair.host.hold().catch(() => undefined);
  stream.ready(FLOW.in);
  t.notOk(await isAsking(), 'nor while it is held');
});
