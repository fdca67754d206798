// The connection to a guest agent over its life: opened, reopened, replaced, closed. The bytes of each attempt are
// counted.
import { GuestConnection, type Request, type Stream } from '@sandboxd/proto';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Guest } from '../../../../host-agent/src/guest/guest.ts';
import { FakeClock, settle } from '../../../support/fake-clock.ts';
import { loopLinks } from '../../../support/memory-host/link.ts';

/** Padding before a hello to a guest that may be in the middle of a frame. */
const PADDING_BYTES = 65_536;

type Way = {
  readonly needsResync?: boolean;
  readonly onRequest?: (stream: Stream, request: Request) => void;
};

/** A guest that is reachable while `way.isOpen`; `attempts` has the first bytes of each connection. */
function openWay(t: Test, { needsResync = false, onRequest = () => undefined }: Way = {}) {
  const way = { isOpen: true, attempts: [] as number[], hellos: [] as string[] };
  const agent = new GuestConnection({
    describe: () => ({ agentVersion: '1', bootId: 'b' }),
    onHello: ({ incarnation }) => way.hellos.push(incarnation),
    onRequest,
  });
  const links: ReturnType<typeof loopLinks>[] = [];
  const openChannel = async () => {
    const made = loopLinks();
    const at = way.attempts.push(0) - 1;
    if (!way.isOpen) throw new Error('nobody is there');
    const write = made.host.write.bind(made.host);
    made.host.write = (chunks) => {
      for (const { length } of chunks) way.attempts[at] = (way.attempts[at] ?? 0) + length;
      return write(chunks);
    };
    links.push(made);
    agent.attach(made.guest);
    return { link: made.host, needsResync };
  };
  const guest = new Guest({ source: { openChannel }, incarnation: 'one', log: pino({ level: 'silent' }) });
  t.teardown(() => guest.close(new Error('over')));
  return { way, guest, links };
}

t.test('a guest that may be within a frame gets padding first', async (t) => {
  const plain = openWay(t);
  await plain.guest.connect();
  t.ok((plain.way.attempts[0] ?? 0) < 1000);
  for (const [way, options] of [
    [{ needsResync: true }, {}],
    [{}, { needsResync: true }],
  ] as const) {
    const padded = openWay(t, way);
    await padded.guest.connect(undefined, options);
    t.ok((padded.way.attempts[0] ?? 0) > PADDING_BYTES);
  }
});

t.test('a broken connection is replaced, and each watcher is called for each new one', async (t) => {
  const time = new FakeClock(t, { withPromises: true });
  const { way, guest, links } = openWay(t);
  let seen = 0;
  const stop = guest.watchConnections(() => (seen += 1));
  await guest.connect();
  t.same([seen, guest.isConnected], [1, true]);
  links[0]?.host.destroy(new Error('cut'));
  await settle();
  await time.pass(1);
  t.same([seen, way.hellos.length, guest.isConnected], [2, 2, true]);
  t.equal(await guest.ping(), 0);
  stop();
  way.isOpen = false;
  links[1]?.host.destroy(new Error('cut again'));
  await settle();
  for (let seconds = 0; seconds < 4; seconds++) await time.pass(1000);
  t.ok(way.attempts.length >= 3);
  await t.rejects(guest.stats(), { code: 'guest_unreachable', message: /nobody is there$/ });
  t.notOk(guest.isConnected);
  way.isOpen = true;
  for (let seconds = 0; seconds < 4; seconds++) await time.pass(1000);
  t.ok(guest.isConnected);
  t.equal(seen, 2, 'who has stopped to watch is not told');
});

t.test('who is closed is not reached for any more', async (t) => {
  const time = new FakeClock(t, { withPromises: true });
  const { way, guest, links } = openWay(t);
  await guest.connect();
  guest.close(new Error('it was deleted'));
  guest.close(new Error('SIGKILL'));
  t.ok(links[0]?.host.isClosed);
  await t.rejects(guest.stats(), { code: 'guest_unreachable', message: /it was deleted$/ });
  await t.rejects(guest.ping(), { code: 'guest_unreachable' });
  t.throws(() => guest.exec({ cmd: ['true'], env: {}, timeout_s: 0 }, { output: () => {}, exit: () => {} }), {
    code: 'guest_unreachable',
  });
  for (let seconds = 0; seconds < 3; seconds++) await time.pass(1000);
  t.equal(way.attempts.length, 1);
});

t.test(
  'another life of the guest’s memory has another host, and the old connection is not missed',
  async (t) => {
    const time = new FakeClock(t, { withPromises: true });
    const { way, guest, links } = openWay(t);
    await guest.reconnect('one');
    await guest.reconnect('two');
    t.ok(links[0]?.host.isClosed);
    for (let seconds = 0; seconds < 3; seconds++) await time.pass(1000);
    t.same(way.hellos, ['one', 'two']);
    t.ok(guest.isConnected);
  },
);

t.test('a guest that does not answer at once is adopted, and tried on', async (t) => {
  const time = new FakeClock(t, { withPromises: true });
  const present = openWay(t);
  t.equal(await present.guest.adopt(5000), true);
  const absent = openWay(t);
  absent.way.isOpen = false;
  t.equal(await absent.guest.adopt(5000), false);
  await time.pass(1);
  t.equal(absent.way.attempts.length, 2);
  absent.way.isOpen = true;
  await time.pass(1000);
  await time.pass(1);
  t.ok(absent.guest.isConnected);
});

t.test('each call sends its request, and a response of another kind is an error', async (t) => {
  const asked: Request[] = [];
  let answer: object = {};
  const { guest } = openWay(t, {
    onRequest: (stream, request) => {
      asked.push(request);
      stream.finish(answer);
    },
  });
  await guest.connect();
  await guest.growDisk();
  t.match(asked, [{ growDisk: {} }]);
  answer = { growDisk: {} };
  await t.rejects(guest.stats(), { code: 'guest_unreachable', message: /no statistics/ });
  answer = { stats: { processes: 3 } };
  t.match(await guest.stats(), { processes: 3 });
  answer = { error: { code: 'unsupported', message: 'not here' } };
  await t.rejects(guest.growDisk(), { code: 'unsupported', message: 'not here' });
  const long = { cmd: ['x'.repeat(2 ** 22 + 1)], env: {}, timeout_s: 0 };
  t.throws(() => guest.exec(long, { output: () => {}, exit: () => {} }), {
    code: 'invalid_argument',
    message: /^cmd and env are too long/,
  });
});

t.test('files are pushed and pulled, and a cancelled transfer blocks no caller', async (t) => {
  const { guest } = openWay(t, {
    onRequest: (stream, request) => {
      if (request.filePush) stream.finish({ filePush: { files: 1, bytes: 2 } });
      else if (request.dirPull) {
        stream.opened({ isSizeKnown: false });
        stream.finish({ dirPull: {} });
      }
    },
  });
  await guest.connect();
  t.same(await guest.files.pushFiles('/x', async () => undefined), { files: 1, bytes: 2 });
  const { body } = await guest.files.pullDirectory('/x');
  t.equal(await body.next(), undefined);
  const client = new AbortController();
  const pull = guest.files.pullFile('/x', 10, client.signal);
  client.abort(new Error('the client left'));
  await t.rejects(pull, { message: 'the client left' });
});

t.test('an agent may leave out its clock when it gets its identity', async (t) => {
  const { guest } = openWay(t, { onRequest: (stream) => stream.finish({ stats: {} }) });
  await guest.connect();
  await t.resolves(guest.setIdentity({ unixTimeUs: Date.now() * 1000 }));
});
