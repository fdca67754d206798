// What is over stays so: a flow, a call, the link of a host that was replaced.
import { connectHost, FLOW } from '@sandboxd/proto';
import t from 'tap';
import { MAX_PARTS_BYTES, PART_BYTES } from '../../../../proto/src/limits.ts';
import { encodeFrame } from '../../../../proto/src/wire/frame-encoder.ts';
import { memoryLinks, settle } from '../../../support/memory-link.ts';
import { channelPair } from '../support/channel-pair.ts';
import { noteTakingGuest } from '../support/note-taking-guest.ts';
import { Tally } from '../support/tally.ts';

const call = { stats: {} };

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
  const pair = channelPair((stream, { exec }) => {
    texts.push(exec?.cmd?.[0] ?? '');
    stream.finish({ stats: {} });
  });
  pair.host.open(call, {});
  await settle(pair.links);
  const part = encodeFrame({ stream: 1, part: { bytes: Buffer.alloc(PART_BYTES), last: false } });
  for (let sent = 0; sent < 2 * MAX_PARTS_BYTES; sent += PART_BYTES) pair.links.host.write(part);
  pair.host.open({ exec: { cmd: ['x'.repeat(3 * PART_BYTES)] } }, {});
  await settle(pair.links);
  t.equal(texts[1]?.length, 3 * PART_BYTES, 'there is room for those of the next');
});

t.test('what becomes of the link of an old host is nothing to the new one', async (t) => {
  const old = memoryLinks();
  const { guest, streams } = noteTakingGuest(old);
  connectHost(old.host, { incarnation: 'one', needsResync: false }).catch(() => undefined);
  await settle(old);
  // As one would that has stopped to read.
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
  t.equal(next.guest.queuedBytes, waiting, 'room on the old one is none on the new one');
  old.guest.destroy();
  await settle(old);
  await settle(next);
  t.ok(got.bytes > 500_000, `${got.bytes} bytes came after the old one was closed`);
});
