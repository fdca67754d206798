// When the agent stops to look for its channels. Nothing here is served: a fake clock runs the polls.
import '../support/addon-dir.ts';
import t from 'tap';
import { type Channels, searchChannels } from '../../../../guest-agent/src/channel/search.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

/** Longer than the search is eager. */
const LONG_MS = 10_000;

type Found = { vsock: boolean; port: boolean };

/** Counts attempts; what is `found` serves at once. */
function search(found: Found) {
  const tries = { vsock: 0, port: 0, ready: 0 };
  const events = { host: (): void => undefined, lost: (): void => undefined };
  const channels: Channels = {
    serveVsock(onHost) {
      tries.vsock += 1;
      events.host = onHost;
      return found.vsock;
    },
    servePort(onLost) {
      tries.port += 1;
      events.lost = onLost;
      return found.port;
    },
  };
  searchChannels(channels, () => {
    tries.ready += 1;
  });
  return { tries, events };
}

t.test('a port that serves ends both searches', async (t) => {
  const clock = new FakeClock(t);
  const found = { vsock: false, port: false };
  const { tries } = search(found);
  clock.tick(LONG_MS);
  t.ok(tries.port > 400, 'a port may come late');
  t.equal(tries.ready, 0);
  found.port = true;
  clock.tick(LONG_MS);
  t.equal(tries.ready, 1);
  t.equal(clock.count, 0, 'nothing is polled any more');
});

t.test('a guest whose host has connected by vsock looks for no port', async (t) => {
  const clock = new FakeClock(t);
  const { tries, events } = search({ vsock: true, port: false });
  t.equal(tries.ready, 1);
  clock.tick(LONG_MS);
  t.ok(tries.port > 400, 'the host may still use a port');
  const { port } = tries;
  events.host();
  clock.tick(LONG_MS);
  t.same(tries, { vsock: 1, port, ready: 1 });
  t.equal(clock.count, 0, 'nothing is polled any more');
});

t.test('a port that was lost is found again, also where a host has connected by vsock', async (t) => {
  const clock = new FakeClock(t);
  const found = { vsock: true, port: true };
  const { tries, events } = search(found);
  t.same(tries, { vsock: 1, port: 1, ready: 1 });
  events.host();
  found.port = false;
  events.lost();
  clock.tick(LONG_MS);
  t.ok(tries.port > 2);
  found.port = true;
  clock.tick(LONG_MS);
  t.equal(tries.ready, 1);
  t.equal(clock.count, 0, 'nothing is polled any more');
});
