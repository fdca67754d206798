// The service's output for one reader: its pace, its ends, and what is left of it.
import { getEventListeners } from 'node:events';
import t from 'tap';
import type { OutputEvents } from '../../../../../host-agent/src/guest/service.ts';
import type { ServiceOutputRequest } from '../../../../../host-agent/src/guest/service-types.ts';
import { asFrames, OutputStream } from '../../../../../host-agent/src/http/service/output-stream.ts';
import { AppError } from '../../../../../host-agent/src/lib/errors.ts';
import type { SandboxService } from '../../../../../host-agent/src/sandboxes/service.ts';

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
  const frames = new OutputStream(
    { output } as unknown as Pick<SandboxService, 'output'>,
    REQUEST,
    asFrames(),
    [signal],
  );
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

t.test('a stop ends it, also one that has come already', async (t) => {
  const daemon = new AbortController();
  const early = follow(daemon.signal);
  const next = early.frames.next();
  daemon.abort();
  t.equal(await next, undefined);
  const late = follow(daemon.signal);
  t.equal(await late.frames.next(), undefined);
  t.same([early.seen.cancels, late.seen.cancels], [1, 1]);
});
