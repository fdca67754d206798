// A port's link across several hosts, on a real socket whose end of file is simulated.
import '../support/addon-dir.ts';
import { once } from 'node:events';
import { closeSync, openSync } from 'node:fs';
import { Socket } from 'node:net';
import { constants } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { FLOW } from '@sandboxd/proto';
import t from 'tap';
import { FdLink } from '../../../../guest-agent/src/channel/fd-link.ts';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { Poller } from '../../../../guest-agent/src/native/poller.ts';
import { until } from '../../../support/until.ts';

const MIB = 2 ** 20;

t.test('the first bytes of a host that comes back are answered', async (t) => {
  const faults: unknown[] = [];
  const poller = new Poller((error) => faults.push(error));
  poller.start();
  const [ours, theirs] = addon.socketPair();
  const host = new Socket({ fd: theirs, readable: true, writable: true });
  const { read } = addon;
  let isAway = false;
  // A virtio-serial port reads like this while no host has it open.
  addon.read = (fd, ...rest) => (fd === ours && isAway ? 0 : read(fd, ...rest));
  t.teardown(() => {
    addon.read = read;
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
  t.equal(link.write([Buffer.from('to nobody')]), false, 'no host is connected');
  isAway = false;
  host.write('seen');
  t.equal(String((await once(host, 'data'))[0]), 'answer to unseen');
  t.same(wereTaken, [true, true]);
  t.same(faults, []);
});

t.test('what a host did not take is not for the next one', async (t) => {
  const poller = new Poller((error) => t.fail(String(error)));
  poller.start();
  const [ours, theirs] = addon.socketPair();
  const { read } = addon;
  let isAway = false;
  addon.read = (fd, ...rest) => (fd === ours && isAway ? 0 : read(fd, ...rest));
  t.teardown(() => {
    addon.read = read;
    link.destroy();
    addon.close(theirs);
    poller.stop();
  });
  const send = (text: string): number => addon.write(theirs, Buffer.from(text), 0, text.length);
  let heard = '';
  let lefts = 0;
  const link = new FdLink(ours, { poller, onHostLeft: () => (lefts += 1) });
  link.start({
    data: (chunk) => {
      heard += chunk;
      link.write([Buffer.from(`answer to ${chunk}`)]);
      // The answer is in flight when the host disconnects.
      if (String(chunk) === 'leaving') isAway = true;
    },
    drain: () => {},
    close: () => {},
  });
  send('leaving');
  await until(() => lefts === 1);
  isAway = false;
  send('back');
  await until(() => heard.endsWith('back'));
  const sink = Buffer.alloc(MIB);
  await sleep(1);
  t.equal(sink.toString('latin1', 0, addon.read(theirs, sink, 0, MIB)), 'answer to back');

  t.equal(link.write([Buffer.alloc(8 * MIB, 'a')]), false);
  isAway = true;
  send('un');
  await until(() => lefts === 2);
  isAway = false;
  // Bytes in the kernel's buffer cannot be taken back.
  while (addon.read(theirs, sink, 0, MIB) > 0);
  send('seen');
  await until(() => heard.endsWith('unseen'));
  await sleep(1);
  t.equal(sink.toString('latin1', 0, addon.read(theirs, sink, 0, MIB)), 'answer to unseen');
});

t.test('a file that cannot be read costs the link nothing', async (t) => {
  const poller = new Poller((error) => t.fail(String(error)));
  poller.start();
  const [ours, theirs] = addon.socketPair();
  // Its first page is unmapped: reading it is an error.
  const descriptor = openSync('/proc/self/mem', 'r');
  t.teardown(() => {
    poller.stop();
    addon.close(theirs);
    closeSync(descriptor);
  });
  const link = new FdLink(ours, { poller, isEmulated: true });
  let closed: Error | true | undefined;
  link.start({ data: () => {}, drain: () => {}, close: (cause) => (closed = cause ?? true) });
  const frames = { stream: 1, flow: FLOW.out, descriptor, length: MIB };
  t.same(link.writeFrom?.(frames), { result: -constants.errno.EIO, hasSpace: true });
  t.equal(closed, undefined);
  t.ok(link.write([Buffer.from('whole')]));
  await sleep(1);
  const got = Buffer.alloc(16);
  t.equal(addon.read(theirs, got, 0, got.length), 5, 'and nothing was sent of it');
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
