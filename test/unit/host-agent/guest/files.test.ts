// Pushes and pulls from the host's side; the test acts as the agent.
import { FLOW, type ResultInput, type Stream } from '@sandboxd/proto';
import t from 'tap';
import { pullFile, pushFiles } from '../../../../host-agent/src/guest/files.ts';
import { PullBody } from '../../../../host-agent/src/guest/pull-body.ts';
import { settle } from '../../../support/memory-link.ts';
import { type ChannelPair, channelPair } from '../../proto/support/channel-pair.ts';

const WINDOW_BYTES = 16 * 1024;

/** Sends this many bytes, and then its result. */
function send(stream: Stream, totalBytes: number, result: ResultInput): void {
  let left = totalBytes;
  stream.setSource(FLOW.out, (maxBytes) => {
    if (left === 0) {
      stream.finish(result);
      return null;
    }
    const bytes = Buffer.alloc(Math.min(maxBytes, left, 1000), 1);
    left -= bytes.length;
    return bytes;
  });
  stream.ready(FLOW.out);
}

/** A guest whose file has `totalBytes`, but announces `announced`. */
function guestWithFile(totalBytes: number, announced = totalBytes): ChannelPair & { cancels: () => number } {
  let cancels = 0;
  const pair = channelPair(
    (stream) => {
      stream.handlers = {
        cancel: () => {
          cancels++;
          stream.finish({ error: { code: 'cancelled', message: 'the pull was cancelled' } });
        },
      };
      stream.opened({ isSizeKnown: true, sizeBytes: announced, contentBytes: announced });
      send(stream, totalBytes, { filePull: {} });
    },
    { windowBytes: WINDOW_BYTES },
  );
  return { ...pair, cancels: () => cancels };
}

const pull = (pair: ChannelPair) => pullFile({ channel: pair.host }, '/x', 1e9);

t.test('a pull that is longer than the window comes whole, at its reader’s pace', async (t) => {
  const pair = guestWithFile(10 * WINDOW_BYTES);
  const pulling = pull(pair);
  await settle(pair.links);
  const { body, contentBytes } = await pulling;
  t.equal(contentBytes, 10 * WINDOW_BYTES);
  t.ok(pair.links.guest.writtenBytes < 2 * WINDOW_BYTES, 'no more than a window comes by itself');
  let bytes = 0;
  for (;;) {
    const next = body.next();
    await settle(pair.links);
    const chunk = await next;
    if (chunk === undefined) break;
    bytes += chunk.bytes.length;
    chunk.release();
  }
  t.equal(bytes, 10 * WINDOW_BYTES);
  t.equal(pair.host.streamCount, 0);
});

t.test('a pull whose reader leaves is cancelled in the guest', async (t) => {
  const pair = guestWithFile(10 * WINDOW_BYTES);
  const pulling = pull(pair);
  await settle(pair.links);
  const { body } = await pulling;
  body.cancel();
  await settle(pair.links);
  t.equal(pair.cancels(), 1);
  t.equal(pair.host.streamCount, 0);
  t.equal(await body.next(), undefined);
});

t.test('a file whose length differs from the announced one is an error', async (t) => {
  for (const [real, announced, message] of [
    [3000, 4000, /fewer bytes/],
    [4000, 3000, /more bytes/],
  ] as const) {
    const pair = guestWithFile(real, announced);
    const pulling = pull(pair);
    await settle(pair.links);
    const { body } = await pulling;
    await t.rejects(
      (async () => {
        for (let chunk = await body.next(); chunk !== undefined; chunk = await body.next()) chunk.release();
      })(),
      { code: 'guest_unreachable', message },
    );
  }
});

t.test('a pull that is given up before it began is cancelled in the guest', async (t) => {
  let cancels = 0;
  const pair = channelPair((stream) => {
    stream.handlers = { cancel: () => void cancels++ };
  });
  const client = new AbortController();
  const pulling = pullFile({ channel: pair.host, signal: client.signal }, '/x', 10);
  await settle(pair.links);
  client.abort(new Error('the client left'));
  await t.rejects(pulling, { message: 'the client left' });
  await settle(pair.links);
  t.equal(cancels, 1);
});

t.test('a push that is given up, or whose bytes cannot be read, is cancelled in the guest', async (t) => {
  const cancelled: number[] = [];
  const pair = channelPair((stream) => {
    stream.handlers = {
      data: (_flow, chunk) => stream.consumed(chunk.length),
      cancel: () => {
        cancelled.push(stream.id);
        stream.finish({ error: { code: 'cancelled', message: 'the push was cancelled' } });
      },
    };
  });
  const client = new AbortController();
  const waiting = new Promise<undefined>(() => {});
  const pushing = pushFiles({ channel: pair.host, signal: client.signal }, '/x', () => waiting);
  await settle(pair.links);
  client.abort(new Error('the client left'));
  await t.rejects(pushing, { message: 'the client left' });
  await settle(pair.links);
  const broken = pushFiles({ channel: pair.host }, '/x', () =>
    Promise.reject(new Error('the body broke off')),
  );
  await t.rejects(broken, { message: 'the body broke off' });
  await settle(pair.links);
  t.same(cancelled, [1, 2]);
  t.equal(pair.host.streamCount, 0, 'and nothing of them is left');
});

/** A body whose owner records its calls. */
function openBody(contentBytes: number | undefined, maxBytes: number) {
  const told: unknown[] = [];
  const body = new PullBody({
    consumed: (bytes) => void told.push(bytes),
    cancel: () => void told.push('cancel'),
  });
  body.expect(contentBytes, maxBytes);
  return { body, told };
}

t.test('a body has exactly what was announced of it, or else no more than was asked for', async (t) => {
  for (const [contentBytes, maxBytes, sent, problem] of [
    [3, 10, 3, undefined],
    [3, 10, 2, /fewer bytes/],
    [3, 10, 4, /more bytes/],
    [0, 10, 0, undefined],
    [undefined, 10, 3, undefined],
    [undefined, 10, 10, undefined],
    [undefined, 10, 11, /more bytes/],
  ] as const) {
    const { body, told } = openBody(contentBytes, maxBytes);
    for (let n = 0; n < sent; n++) body.push(Buffer.of(n));
    body.end();
    body.fail(new Error('too late'));
    const isTooMuch = sent > (contentBytes ?? maxBytes);
    t.same(told, isTooMuch ? ['cancel'] : []);
    const came = isTooMuch ? sent - 1 : sent;
    if (came > 0) {
      const chunk = await body.next();
      t.same(
        [...(chunk?.bytes ?? [])],
        Array.from({ length: came }, (_, n) => n),
      );
      chunk?.release();
      t.equal(told.at(-1), came);
    }
    if (problem) await t.rejects(body.next(), { code: 'guest_unreachable', message: problem });
    else t.equal(await body.next(), undefined);
    const { length } = told;
    body.cancel();
    t.equal(told.length, length, 'nobody is told to stop who has ended');
  }
});

t.test('a reader of a body is woken by bytes, by the end and by a cancel', async (t) => {
  for (const [wake, comes] of [
    [(body: PullBody) => body.push(Buffer.of(1)), 1],
    [(body: PullBody) => body.end(), undefined],
    [(body: PullBody) => body.cancel(), undefined],
  ] as const) {
    const { body } = openBody(undefined, 10);
    const waiting = body.next();
    await new Promise(setImmediate);
    wake(body);
    t.equal((await waiting)?.bytes.length, comes);
  }
  const { body, told } = openBody(undefined, 10);
  body.push(Buffer.of(1));
  body.cancel();
  body.cancel();
  t.same([await body.next(), told], [undefined, ['cancel']], 'what had come already is forgotten');
});

t.test('the memory of a piece that was released is used again', async (t) => {
  const { body } = openBody(undefined, 10);
  const places: unknown[] = [];
  for (let n = 0; n < 2; n++) {
    body.push(Buffer.of(n));
    const chunk = await body.next();
    places.push([chunk?.bytes.buffer, chunk?.bytes.byteOffset]);
    chunk?.release();
  }
  t.same(places[1], places[0]);
});
