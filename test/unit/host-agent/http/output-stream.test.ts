// The service's output for one reader: its pace, its ends, and what is left of it.
import { getEventListeners } from 'node:events';
import t from 'tap';
import type { OutputEvents, ServiceOutputRequest } from '../../../../host-agent/src/guest/service.ts';
import { asFrames, asLines, OutputStream } from '../../../../host-agent/src/http/output-stream.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';

const REQUEST = { isFollowing: true, isWaiting: false };
const RING = { id: 'r', firstSeq: 0, nextSeq: 0, droppedRecords: 0, droppedBytes: 0 };

function follow(signal: AbortSignal) {
  const seen: { events?: OutputEvents; consumed: number; cancels: number } = { consumed: 0, cancels: 0 };
  const output = (_request: ServiceOutputRequest, events: OutputEvents) => {
    seen.events = events;
    return {
      consumed: (bytes: number) => {
        seen.consumed += bytes;
      },
      cancel: () => void seen.cancels++,
    };
  };
  const frames = new OutputStream((sink) => output(REQUEST, sink), asFrames(), [signal]);
  return { frames, seen };
}

const say = (events: OutputEvents | undefined, text: string): void =>
  events?.records([{ kind: 'output', stream: 'stdout', seq: 0, unixMs: 1, data: Buffer.from(text) }], 100);

t.test('credit goes back when a reader asks, and not before', async (t) => {
  const { frames, seen } = follow(new AbortController().signal);
  say(seen.events, 'one');
  say(seen.events, 'two');
  await frames.opened;
  t.equal(seen.consumed, 0);
  t.match(String((await frames.next())?.bytes), /one.*two/s);
  t.equal(seen.consumed, 200);
});

t.test('however it ends, nothing of it listens to the daemon’s stop any more', async (t) => {
  const daemon = new AbortController();
  const listeners = (): number => getEventListeners(daemon.signal, 'abort').length;
  const ended = follow(daemon.signal);
  const failed = follow(daemon.signal);
  const left = follow(daemon.signal);
  t.equal(listeners(), 3);
  ended.seen.events?.end({ ring: RING, nextSeq: 0 });
  failed.seen.events?.failed(new AppError('guest_unreachable', 'lost'));
  left.frames.cancel();
  t.equal(listeners(), 0);
  t.equal(await ended.frames.next(), undefined);
  await t.rejects(failed.frames.next(), { message: 'lost' });
  await t.rejects(failed.frames.opened, { message: 'lost' });
  t.equal(await left.frames.next(), undefined);
});

t.test('a stop ends the stream, also an earlier one', async (t) => {
  const daemon = new AbortController();
  const early = follow(daemon.signal);
  const next = early.frames.next();
  daemon.abort();
  t.equal(await next, undefined);
  const late = follow(daemon.signal);
  t.equal(await late.frames.next(), undefined);
  t.same([early.seen.cancels, late.seen.cancels], [1, 1]);
});

const RECORDS = {
  ring: { kind: 'ring', seq: 3, id: 'r' },
  gap: { kind: 'gap', seq: 4, records: 2, bytes: 30 },
  out: { kind: 'output', stream: 'stderr', seq: 6, unixMs: 9, data: Buffer.from('x') },
} as const;

t.test('frames report a gap only to a reader that has read something, lines report all', async (t) => {
  const frames = asFrames();
  t.same(frames.render(RECORDS.ring), []);
  t.same(frames.render(RECORDS.gap), [], 'it was gone before');
  t.same(frames.render(RECORDS.out).map(String), ['\x02\0\0\0\0\0\0\x01', 'x']);
  t.same(frames.render(RECORDS.ring), []);
  const [header, notice] = frames.render(RECORDS.gap);
  t.equal(String(notice), '\n[sandboxd: 30 bytes of output were dropped here]\n');
  t.same(header, Buffer.of(2, 0, 0, 0, 0, 0, 0, notice?.length ?? 0));
  t.same(frames.keepalive, Buffer.of(1, 0, 0, 0, 0, 0, 0, 0));
  const lines = asLines();
  t.same(
    Object.values(RECORDS).map((record) => JSON.parse(String(lines.render(record)))),
    [
      { seq: 3, ring: 'r' },
      { seq: 4, dropped_records: 2, dropped_bytes: 30 },
      { seq: 6, stream: 'stderr', unix_ms: 9, data: 'eA==' },
    ],
  );
  t.equal(String(lines.keepalive), '\n');
});

t.test('records that say nothing give their credit back, and the reader waits on', async (t) => {
  const { frames, seen } = follow(new AbortController().signal);
  const next = frames.next();
  seen.events?.records([RECORDS.ring], 40);
  for (let turns = 0; turns < 5; turns++) await new Promise((resolve) => setImmediate(resolve));
  t.equal(seen.consumed, 40);
  say(seen.events, 'one');
  t.match(String((await next)?.bytes), /one/);
  const poked = frames.next();
  await new Promise((resolve) => setImmediate(resolve));
  frames.keepalive();
  t.equal((await poked)?.bytes.length, 8);
  say(seen.events, 'two');
  frames.keepalive();
  t.equal((await frames.next())?.bytes.length, 8 + 3, 'there is something else to send');
  say(seen.events, 'never');
  frames.cancel();
  t.equal(await frames.next(), undefined, 'what was not read is dropped');
});

t.test('the last frame comes after the output', async (t) => {
  const { frames, seen } = follow(new AbortController().signal);
  say(seen.events, 'last');
  seen.events?.failed(new AppError('guest_unreachable', 'lost'));
  seen.events?.end({ ring: RING, nextSeq: 0 });
  t.match(String((await frames.next())?.bytes), /last/);
  await t.rejects(frames.next(), { message: 'lost' });
  await frames.opened;
});
