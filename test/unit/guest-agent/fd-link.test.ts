// A port's link across hosts that come and go, on a real socket whose end of file is only made up.
import './support/addon-dir.ts';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { FLOW } from '@sandboxd/proto';
import t from 'tap';
import { FdLink } from '../../../guest-agent/src/channel/fd-link.ts';
import { addon, NOT_NOW } from '../../../guest-agent/src/native/addon.ts';
import { Poller } from '../../../guest-agent/src/native/poller.ts';
import { pipedFrames, readDataFrame } from '../../../proto/src/wire/data-frame.ts';
import { FrameDecoder } from '../../../proto/src/wire/frame-decoder.ts';

const MIB = 2 ** 20;

t.test('the first bytes of a host that comes back are answered', async (t) => {
  const faults: unknown[] = [];
  const poller = new Poller((error) => faults.push(error));
  poller.start();
  const [ours, theirs] = addon.socketPair();
  const host = new Socket({ fd: theirs, readable: true, writable: true });
  const { receive } = addon;
  let isAway = false;
  // As a virtio-serial port reads while no host has it open.
  addon.receive = (fd, ...rest) => (fd === ours && isAway ? 0 : receive(fd, ...rest));
  t.teardown(() => {
    addon.receive = receive;
    host.destroy();
    poller.stop();
  });

  const left = Promise.withResolvers<void>();
  const link = new FdLink(ours, { poller, onHostLeft: left.resolve });
  const wereTaken: boolean[] = [];
  link.start({
    data: (chunk) => wereTaken.push(link.write([Buffer.from(`answer to ${chunk}`)])),
    drain: () => {},
    close: () => {},
  });
  host.write('one');
  t.equal(String((await once(host, 'data'))[0]), 'answer to one');

  isAway = true;
  host.write('un');
  await left.promise;
  t.equal(link.write([Buffer.from('to nobody')]), false, 'nobody is there');
  isAway = false;
  host.write('seen');
  t.equal(String((await once(host, 'data'))[0]), 'answer to unseen');
  t.same(wereTaken, [true, true]);
  t.same(faults, []);
});

t.test('a file that cannot be read costs the link nothing, also where what it sends must wait', async (t) => {
  const poller = new Poller((error) => t.fail(String(error)));
  poller.start();
  const [ours, theirs] = addon.socketPair();
  // Its first page is nobody's: reading it is an error.
  const source = openSync('/proc/self/mem', 'r');
  t.teardown(() => {
    poller.stop();
    addon.close(theirs);
    closeSync(source);
  });
  t.throws(() => addon.read(source, Buffer.alloc(1), 0, 1), { code: 'EIO' });
  const link = new FdLink(ours, { poller });
  let closed: Error | true | undefined;
  link.start({ data: () => {}, drain: () => {}, close: (cause) => (closed = cause ?? true) });
  const length = 32 * MIB;
  const frames = pipedFrames(1, FLOW.out, { source, isPipe: false, length });
  t.equal(link.writePiped(frames), false, 'it takes a part of that');
  t.equal(closed, undefined);
  t.equal(link.writePiped(pipedFrames(1, FLOW.out, { source, isPipe: false, length: 100_000 })), false);
  let zeros = 0;
  const decoder = new FrameDecoder('refuse', (encoded) => {
    const data = readDataFrame(encoded)?.data;
    t.ok(data?.every((byte) => byte === 0));
    zeros += data?.length ?? 0;
  });
  const bytes = Buffer.alloc(MIB);
  for (let got = 0; zeros < length + 100_000 && got >= 0; await sleep(1)) {
    for (;;) {
      got = addon.read(theirs, bytes, 0, bytes.length);
      if (got <= 0) break;
      decoder.push(bytes.subarray(0, got));
    }
    if (got === NOT_NOW) got = 0;
  }
  t.equal(zeros, length + 100_000);
  link.destroy();
});

for (const answerBytes of [1, 65_536]) {
  t.test(
    `a host that answers each ${answerBytes} bytes at once leaves the event loop its turn`,
    async (t) => {
      const poller = new Poller((error) => t.fail(String(error)));
      poller.start();
      const [ours, theirs] = addon.socketPair();
      t.teardown(() => {
        link.destroy();
        addon.close(theirs);
        poller.stop();
      });
      const [credit, answer, sink] = [Buffer.alloc(8), Buffer.alloc(answerBytes), Buffer.alloc(MIB)];
      let deliveries = 0;
      let isOver = false;
      const link = new FdLink(ours, { poller });
      link.start({
        data: () => {
          deliveries += 1;
          link.write([answer]);
          addon.read(theirs, sink, 0, sink.length);
          if (!isOver && deliveries < MIB) addon.write(theirs, credit, 0, credit.length);
        },
        drain: () => {},
        close: () => {},
      });
      addon.write(theirs, credit, 0, credit.length);
      while (deliveries === 0) await new Promise((resolve) => setImmediate(resolve));
      isOver = true;
      t.ok(deliveries > 1, 'it does read on');
      t.ok(deliveries <= 256, `${deliveries} answers before that, at most 256 expected`);
      t.ok(deliveries * answerBytes <= 2 * MIB, 'and at most some MiB');
    },
  );
}
