// The handshake, a new handshake at any time, and the end of a connection.
import { setTimeout as sleep } from 'node:timers/promises';
import {
  connectHost,
  FLOW,
  type HostConnection,
  MAX_DATA_BYTES,
  NONCE_BYTES,
  ProtocolViolation,
} from '@sandboxd/proto';
import fc from 'fast-check';
import t from 'tap';
import { dataFrame } from '../../../../proto/src/wire/data-frame.ts';
import { encodeFrame } from '../../../../proto/src/wire/frame-encoder.ts';
import { syncMark } from '../../../../proto/src/wire/sync-mark.ts';
import { type MemoryLinks, memoryLinks, settle } from '../../../support/memory-link.ts';
import { noteTakingGuest } from '../support/note-taking-guest.ts';
import { RawGuest } from '../support/raw-guest.ts';

const call = { stats: {} };
/** The effect on streams of a hello after one with the incarnation `one`. */
const kinds = [
  ['one', 'superseded'],
  ['two', 'detached'],
] as const;

async function connect(
  links: MemoryLinks,
  incarnation = 'one',
  needsResync = false,
): Promise<HostConnection> {
  const connection = connectHost(links.host, { incarnation, needsResync });
  await settle(links);
  return connection;
}

t.test('a host and a guest agree', async (t) => {
  const links = memoryLinks();
  const { guest, streams } = noteTakingGuest(links, {
    onHello: (hello) => t.equal(hello.incarnation, 'one'),
  });
  const { channel, hello } = await connect(links);
  t.ok(channel.can('exec'));
  t.notOk(channel.can('walk'));
  t.match(hello, {
    version: 1,
    window: 768 * 1024,
    capabilities: ['exec'],
    agentVersion: '0.1.0',
    agentReadyUs: 7,
  });
  channel.open(call, {});
  await settle(links);
  t.equal(streams.length, 1);
  t.equal(guest.channel?.streamCount, 1);
});

t.test('a new host gets through wherever the old one stopped, and nothing half is believed', async (t) => {
  const old = Buffer.concat([
    ...encodeFrame({ stream: 1, request: { exec: { cmd: ['rm', '-r', '/tmp/a'], stdin: true } } }),
    ...dataFrame(1, FLOW.in, Buffer.from('hello')),
    ...dataFrame(1, FLOW.in, Buffer.from([1, 0, 0])),
    ...encodeFrame({ stream: 2, request: { exec: { cmd: ['x'.repeat(300)] } } }),
    ...encodeFrame({ stream: 2, cancel: {} }),
  ]);
  for (let keep = 0; keep <= old.length; keep += 1) {
    const links = memoryLinks();
    const { seen, streams } = noteTakingGuest(links);
    await connect(links);
    links.host.write([old.subarray(0, keep)]);
    links.host.deliver(1 << 20);
    // The guest was also in the middle of a frame.
    streams[0]?.setSource(FLOW.out, (maxBytes) => Buffer.alloc(Math.min(maxBytes, 3000), '\nSBXSYNC1'));
    streams[0]?.ready(FLOW.out);
    links.guest.deliver(100 + keep);
    const before = seen.length;
    const { channel } = await connect(links, 'one', true);
    const losses = seen.slice(before).join();
    if (!/^(superseded(,superseded)?)?$/.test(losses)) t.fail(`after ${keep} bytes the guest saw ${losses}`);
    let isAnswered = false;
    channel.open(call, {
      result: () => {
        isAnswered = true;
      },
    });
    await settle(links);
    streams.at(-1)?.finish({ stats: {} });
    await settle(links);
    if (!isAnswered) t.fail(`after ${keep} bytes nothing is answered`);
  }
  t.pass(`every one of ${old.length} places`);
});

t.test('resync works in the middle of the longest frame, for any size of pieces', async () => {
  const [header, bytes] = dataFrame(1, FLOW.in, Buffer.alloc(MAX_DATA_BYTES, 1));
  const frame = Buffer.concat([header!, bytes!]);
  await fc.assert(
    fc.asyncProperty(
      fc.nat(frame.length - 1),
      fc.infiniteStream(fc.integer({ min: 1, max: 40_000 })),
      async (keep, pieces) => {
        const links = memoryLinks();
        const { seen } = noteTakingGuest(links);
        await connect(links);
        links.host.write([...encodeFrame({ stream: 1, request: call }), frame.subarray(0, keep)]);
        await settle(links);
        const connection = connectHost(links.host, { incarnation: 'two', needsResync: true });
        await settle(links, () => pieces.next().value ?? 1);
        await connection;
        return seen.join() === 'request 1,detached';
      },
    ),
    { numRuns: 40 },
  );
});

t.test('the same incarnation supersedes, another detaches, on the same link or a new one', async (t) => {
  for (const [incarnation, kind] of kinds) {
    const links = memoryLinks();
    const { guest, seen, streams } = noteTakingGuest(links);
    const { channel } = await connect(links);
    channel.open(call, {});
    await settle(links);
    await connect(links, incarnation, true);
    t.strictSame(seen, ['request 1', kind]);
    const written = links.guest.writtenBytes;
    streams[0]?.started(5);
    streams[0]?.consumed(1 << 20);
    streams[0]?.finish({ stats: {} });
    t.equal(links.guest.writtenBytes, written, 'what ran before has no voice in the new connection');

    const second = memoryLinks();
    guest.attach(second.guest);
    const { channel: newest } = await connect(second, 'three');
    newest.open(call, {});
    links.host.write(encodeFrame({ stream: 1, request: call }));
    await settle(links);
    await settle(second);
    t.strictSame(seen, ['request 1', kind, 'request 1'], 'frames of the old link are not heard');
  }
});

t.test('a link that closes leaves its streams as they are until the next hello says why', async (t) => {
  for (const [incarnation, kind] of kinds) {
    const links = memoryLinks();
    const { guest, seen, streams } = noteTakingGuest(links);
    const { channel } = await connect(links);
    channel.open(call, {});
    channel.open(call, {});
    await settle(links);
    channel.close(new Error('the host went away'));
    await settle(links);
    t.strictSame(seen, ['request 1', 'request 2']);
    streams[0]?.setSource(FLOW.out, () => Buffer.of(1));
    streams[0]?.ready(FLOW.out);
    streams[0]?.finish({ stats: {} });
    const second = memoryLinks();
    guest.attach(second.guest);
    await connect(second, incarnation);
    t.strictSame(seen, ['request 1', 'request 2', kind], 'the finished one needs no word');
  }
});

t.test('an invalid hello is not answered and disturbs no stream', async (t) => {
  const links = memoryLinks();
  let describes = 0;
  const { guest, seen } = noteTakingGuest(links, {
    describe: () => {
      describes += 1;
      if (describes === 2) throw new Error('no description');
      return {};
    },
  });
  const { channel } = await connect(links);
  channel.open(call, {});
  const nonce = Buffer.alloc(NONCE_BYTES, 1);
  const hello = { version: 1, nonce, incarnation: 'two', window: 65_536 };
  const written = links.guest.writtenBytes;
  links.host.write([
    ...encodeFrame({ hello: { ...hello, nonce: nonce.subarray(1) } }),
    ...encodeFrame({ hello: { ...hello, window: 4095 } }),
    ...encodeFrame({ hello }),
    Buffer.of(2, 0x32, 0x7f),
  ]);
  await settle(links);
  t.strictSame(seen, [
    'request 1',
    'malformed: a nonce of 15 bytes',
    'malformed: a window of 4095 bytes',
    'malformed: no description',
    seen.at(-1),
  ]);
  t.equal(links.guest.writtenBytes, written);
  t.equal(guest.channel?.streamCount, 1);
});

t.test('a guest skips what it cannot read and goes on', async (t) => {
  const links = memoryLinks();
  const { seen, streams } = noteTakingGuest(links);
  const { channel } = await connect(links);
  const faulty = channel.open(call, { result: (result) => void seen.push(`answer ${result.error?.code}`) });
  links.host.write([
    Buffer.of(2, 0x1a, 0x7f),
    ...encodeFrame({ pong: {} }),
    ...encodeFrame({ stream: 1, request: call }),
    ...encodeFrame({ stream: 77, cancel: {} }),
    ...encodeFrame({ stream: 1, flow: 1, data: Buffer.of(1) }),
  ]);
  channel.open(call, {});
  await settle(links);
  t.equal(streams.length, 2);
  t.ok(seen.includes('answer invalid') && seen.includes('lost'), 'a broken rule ends its stream');
  t.ok(faulty.isOver);
  links.host.write([Buffer.of(0xff, 0xff, 0xff, 0xff), Buffer.from('the rest of this chunk is lost')]);
  await settle(links);
  t.match(seen.at(-1), /^malformed: a frame length/);
  const again = await connect(links);
  t.notOk(again.channel.isClosed, 'the next hello is understood');
});

t.test('a host on a port that tells when it leaves needs no padding', async (t) => {
  const links = memoryLinks();
  const { guest } = noteTakingGuest(links);
  const port = memoryLinks();
  const { hostLeft } = guest.attach(port.guest);
  port.host.write([Buffer.of(200, 1, 8)]);
  port.host.deliver(100);
  hostLeft();
  const { hello } = await connect(port);
  t.equal(hello.agentVersion, '0.1.0');
});

t.test('wrong answers to the hello are refused, and the link closed', async (t) => {
  const answers: Record<string, [object, RegExp]> = {
    'another version': [{ version: 2 }, /version 2, this host agent 1; bake/],
    'another nonce': [{ nonce: Buffer.alloc(NONCE_BYTES, 1) }, /another nonce/],
    'no nonce': [{ nonce: Buffer.alloc(0) }, /another nonce/],
    'a tiny window': [{ window: 4095 }, /window of 4095/],
    'a huge window': [{ window: 1024 * 1024 + 1 }, /window of 1048577/],
    'too many capabilities': [{ capabilities: Array.from({ length: 65 }, () => 'x') }, /capabilities/],
    'a long capability': [{ capabilities: ['x'.repeat(65)] }, /capabilities/],
    'a long version': [{ agentVersion: 'x'.repeat(65) }, /too long/],
    'a long boot id': [{ bootId: 'x'.repeat(65) }, /too long/],
  };
  for (const [name, [changes, message]] of Object.entries(answers)) {
    const guest = new RawGuest();
    const error = await guest.greet(changes).then(
      () => undefined,
      (cause: unknown) => cause,
    );
    t.type(error, ProtocolViolation, name);
    t.match(error, { message });
    t.ok(guest.links.host.isClosed);
    t.equal(guest.closeCause, undefined, 'onClose is for connections that were established');
  }
  const first = new RawGuest();
  first.write(syncMark(first.nonce));
  first.send({ stream: 1, credit: 1 });
  await t.rejects(first.connection, { message: /not a hello/ });
  const mute = new RawGuest();
  mute.write(syncMark(mute.nonce), Buffer.of(0xff, 0xff, 0x7f));
  await t.rejects(mute.connection, ProtocolViolation);
});

t.test('garbage before the mark is skipped, without an end it is a violation', async (t) => {
  const patient = new RawGuest();
  for (let index = 0; index < 100; index += 1)
    patient.write(Buffer.alloc(65_536, index), syncMark(Buffer.alloc(16, 9)));
  const { channel } = await patient.greet();
  t.notOk(channel.isClosed);
  const endless = new RawGuest();
  let sentBytes = 0;
  while (!endless.links.host.isClosed && sentBytes < 64 * 2 ** 20) {
    endless.write(Buffer.alloc(65_536, 7));
    sentBytes += 65_536;
  }
  await t.rejects(endless.connection, { name: 'ProtocolViolation', message: /no sync mark/ });
  t.ok(sentBytes <= 17 * 2 ** 20);
});

t.test('a silent guest is given up when the signal says so, and only until it answered', async (t) => {
  const aborter = new AbortController();
  const silent = new RawGuest({ signal: aborter.signal });
  aborter.abort(new Error('too slow'));
  await t.rejects(silent.connection, { message: 'too slow' });
  t.ok(silent.links.host.isClosed);

  const late = new AbortController();
  const guest = new RawGuest({ signal: late.signal });
  const { channel } = await guest.greet();
  late.abort();
  t.notOk(channel.isClosed, 'an established connection is not the signal’s');

  const before = new RawGuest({ signal: AbortSignal.abort(new Error('at once')) });
  await t.rejects(before.connection, { message: 'at once' });
  t.equal(before.links.host.writtenBytes, 0);
});

t.test('the link may close at any moment of a connection', async (t) => {
  const script = (guest: RawGuest): Buffer =>
    Buffer.concat([
      Buffer.from('old bytes'),
      syncMark(guest.nonce),
      ...encodeFrame({ helloReply: { version: 1, nonce: guest.nonce, window: 65_536 } }),
    ]);
  const length = script(new RawGuest()).length;
  for (let keep = 0; keep <= length; keep += 1) {
    const guest = new RawGuest();
    guest.write(script(guest).subarray(0, keep));
    guest.links.guest.destroy(new Error('the VM ended'));
    await sleep(0);
    if (keep < length) {
      const error = await guest.connection.catch((cause: unknown) => cause);
      if ((error as Error).message !== 'the VM ended') t.fail(`after ${keep} bytes: ${error}`);
      if (guest.closeCause !== undefined) t.fail('onClose without a connection');
    } else {
      const { channel } = await guest.connection;
      t.equal(guest.closeCause?.message, 'the VM ended');
      t.throws(() => channel.open(call, {}), { message: 'the VM ended' });
    }
  }
  const closed = memoryLinks();
  closed.host.start = (events) => events.close(new Error('it was closed already'));
  closed.host.write = () => t.fail('a closed link is not written to');
  await t.rejects(connectHost(closed.host, { incarnation: 'one', needsResync: false }), {
    message: /closed already/,
  });
});
