// A port's link across hosts that come and go, on a real socket whose end of file is only made up.
import './support/addon-dir.ts';
import { once } from 'node:events';
import { Socket } from 'node:net';
import t from 'tap';
import { FdLink } from '../../../guest-agent/src/channel/fd-link.ts';
import { addon } from '../../../guest-agent/src/native/addon.ts';
import { Poller } from '../../../guest-agent/src/native/poller.ts';

t.test('the first bytes of a host that comes back are answered', async (t) => {
  const faults: unknown[] = [];
  const poller = new Poller((error) => faults.push(error));
  poller.start();
  const [ours, theirs] = addon.socketPair();
  const host = new Socket({ fd: theirs, readable: true, writable: true });
  const { read } = addon;
  let isAway = false;
  // As a virtio-serial port reads while no host has it open.
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
  t.equal(link.write([Buffer.from('to nobody')]), false, 'nobody is there');
  isAway = false;
  host.write('seen');
  t.equal(String((await once(host, 'data'))[0]), 'answer to unseen');
  t.same(wereTaken, [true, true]);
  t.same(faults, []);
});
