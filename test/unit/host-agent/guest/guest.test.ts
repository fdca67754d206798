// The host's side of a guest agent that violates the protocol right after the hello.
import { GuestConnection, NETWORK, type Result } from '@sandboxd/proto';
import { pino } from 'pino';
import t from 'tap';
import { Guest } from '../../../../host-agent/src/guest/guest.ts';
import { GuestService } from '../../../../host-agent/src/guest/service.ts';
import { makeIdentity } from '../../../../host-agent/src/sandboxes/resources/agent.ts';
import { loopLinks } from '../../../support/memory-host/link.ts';
import { until } from '../../../support/until.ts';
import { openHostile, openSilent } from '../support/silent-guest.ts';

t.test('what breaks the protocol right behind the hello fails the connect, and nothing else', async (t) => {
  const { link, answer } = openHostile(Buffer.alloc(64, 0xff));
  const guest = new Guest({
    source: { openChannel: async () => ({ link, needsResync: false }) },
    incarnation: 'one',
    log: pino({ level: 'silent' }),
  });
  const connecting = guest.connect();
  connecting.catch(() => undefined);
  await new Promise((resolve) => setImmediate(resolve));
  t.doesNotThrow(answer, 'where the bytes come in nothing is thrown: nobody would catch it');
  await t.rejects(connecting, { message: /frame length/ });
  t.notOk(guest.isConnected);
  guest.close(new Error('over'));
});

t.test('a guest gets its network, unless its agent is too old for one', async (t) => {
  const slot = {
    ...{ namespace: '/n', tap: 'tap0', mac: '02:00:00:00:00:02', gatewayMac: '02:00:00:00:00:01' },
    ...{ guestIp: '10.0.0.2', gateway: '10.0.0.1', resolverIp: '10.0.0.3', prefixLength: 30 },
  };
  const told: unknown[] = [];
  const greeted = async (capabilities: string[]): Promise<Guest> => {
    const links = loopLinks();
    const agent = new GuestConnection({
      describe: () => ({ agentVersion: '1', bootId: 'b', capabilities }),
      onRequest: (stream, { identity }) => {
        told.push(identity?.network);
        stream.finish({ identity: { unixTimeUs: Date.now() * 1000 } });
      },
    });
    agent.attach(links.guest);
    const guest = new Guest({
      source: { openChannel: async () => ({ link: links.host, needsResync: false }) },
      incarnation: 'one',
      log: pino({ level: 'silent' }),
    });
    t.teardown(() => guest.close(new Error('over')));
    await guest.connect();
    return guest;
  };
  const [able, old] = [await greeted([NETWORK]), await greeted([])];
  await able.setIdentity(makeIdentity('sbx_1', slot));
  await old.setIdentity(makeIdentity('sbx_2'));
  t.match(told, [
    {
      ...{ mac: slot.mac, gatewayMac: slot.gatewayMac, address: '10.0.0.2', prefixLength: 30 },
      ...{ gateway: '10.0.0.1', dns: '10.0.0.1' },
    },
    null,
  ]);
  await t.rejects(old.setIdentity(makeIdentity('sbx_3', slot)), {
    code: 'unsupported',
    message: /knows no network; bake the profile again/,
  });
});

const EXEC = { cmd: ['true'], env: {}, timeout_s: 0 };

t.test('a call whose signal has fired already is refused with its reason', async (t) => {
  const { guest } = await openSilent();
  t.teardown(() => guest.close(new Error('over')));
  await t.rejects(guest.stats(AbortSignal.abort(new Error('too late'))), { message: 'too late' });
  const later = new AbortController();
  const asked = guest.stats(later.signal);
  later.abort(new Error('enough'));
  await t.rejects(asked, { message: 'enough' });
});

t.test('a call that is given up is cancelled in the guest', async (t) => {
  const links = loopLinks();
  const seen: string[] = [];
  const agent = new GuestConnection({
    describe: () => ({ agentVersion: '1', bootId: 'b' }),
    onRequest: (stream) => {
      seen.push('asked');
      stream.handlers = {
        cancel: () => {
          seen.push('cancelled');
          stream.finish({ stats: {} });
        },
      };
    },
  });
  agent.attach(links.guest);
  const guest = new Guest({
    source: { openChannel: async () => ({ link: links.host, needsResync: false }) },
    incarnation: 'one',
    log: pino({ level: 'silent' }),
  });
  t.teardown(() => guest.close(new Error('over')));
  await guest.connect();
  const client = new AbortController();
  const asked = guest.stats(client.signal);
  await until(() => seen.length === 1, 'the call');
  client.abort(new Error('enough'));
  await t.rejects(asked, { message: 'enough' });
  await until(() => seen.length === 2, 'its end in the guest');
  t.same(seen, ['asked', 'cancelled']);
  t.equal(agent.channel?.streamCount, 0);
});

t.test('a connection that arrives after a cancel is closed', async (t) => {
  const { link, answer } = openHostile(Buffer.alloc(0));
  const guest = new Guest({
    source: { openChannel: async () => ({ link, needsResync: false }) },
    incarnation: 'one',
    log: pino({ level: 'silent' }),
  });
  const connecting = guest.connect();
  connecting.catch(() => undefined);
  await new Promise((resolve) => setImmediate(resolve));
  guest.close(new Error('it was deleted'));
  answer();
  await t.rejects(connecting, { message: 'it was deleted' });
  t.ok(link.isClosed);
  t.notOk(guest.isConnected);
});

t.test(
  'who closes a guest says why, in everything that ran in it; else the end of its VM does',
  async (t) => {
    const closed = await openSilent(async () => 'the VMM was killed');
    const lost = await openSilent(async () => 'the VMM was killed');
    const ends = [closed, lost].map(
      ({ guest }) =>
        new Promise<string | undefined>((resolve) => {
          guest.exec(EXEC, { output: () => undefined, exit: ({ error }) => resolve(error) });
        }),
    );
    const pull = closed.guest.files.pullFile('/etc/hostname', 10);
    pull.catch(() => undefined);
    closed.guest.close(new Error('sandbox sbx_1 was deleted'));
    // Later errors are only a consequence of that.
    closed.guest.close(new Error('SIGKILL'));
    t.match(await ends[0], /: sandbox sbx_1 was deleted$/);
    await t.rejects(pull, { message: /sandbox sbx_1 was deleted/ });
    lost.link.destroy(new Error('broken pipe'));
    t.match(await ends[1], /: the VMM was killed$/);
    lost.guest.close(new Error('over'));
  },
);

t.test('a service status says when the process began only while there is one', async (t) => {
  let pid = 7;
  const service = new GuestService({
    call: async () =>
      ({
        serviceStatus: { state: pid > 0 ? 'running' : 'stopped', pid, startedUnixMs: 5, uptimeMs: 1 },
      }) as Result,
    open: () => t.fail('not asked for') as never,
  });
  t.equal((await service.control('status')).startedUnixMs, 5);
  pid = 0;
  t.notOk(
    'startedUnixMs' in (await service.control('status')),
    'also of a saved guest, whose agent is older',
  );
});
