// Queries to name servers: answers, failures and timeouts.
import t from 'tap';
import { HostUpstream } from '../../../../../host-agent/src/network/resolver/upstream.ts';
import { NameServer } from '../../../../support/network/name-server.ts';

t.test('the upstream follows CNAMEs, and says what does not exist', async (t) => {
  await using server = await NameServer.open();
  server.zone['a.example'] = [
    { type: 'CNAME', name: 'a.example', ttl: 20, data: 'b.other' },
    { type: 'CNAME', name: 'b.other', ttl: 500, data: 'c.other' },
    { type: 'A', name: 'c.other', ttl: 90, data: '9.9.9.9' },
  ];
  server.zone['none.example'] = [];
  server.zone['bad.example'] = 'servfail';
  const upstream = new HostUpstream([server.address]);
  t.same(await upstream.resolve('a.example'), [{ address: '9.9.9.9', ttlS: 20 }]);
  t.same(await upstream.resolve('none.example'), []);
  t.equal(await upstream.resolve('gone.example'), undefined);
  await t.rejects(upstream.resolve('bad.example'));
});

t.test('name servers that take their time are waited for, and others asked beside them', async (t) => {
  const open = async () => {
    const server = await NameServer.open();
    t.teardown(() => server[Symbol.asyncDispose]());
    for (const name of ['quick.example', 'a.example', 'b.example']) server.set(name, ['9.9.9.9']);
    server.zone['bad.example'] = 'servfail';
    return server;
  };
  const took = async (upstream: HostUpstream, name: string) => {
    const startedAt = performance.now();
    const found = await upstream.resolve(name).catch((error) => [{ address: String(error.code) }]);
    return { addresses: found?.map(({ address }) => address), ms: performance.now() - startedAt };
  };
  const counts = (servers: readonly NameServer[], name: string) =>
    servers.map(({ asked }) => asked.filter((question) => question === `${name} A`).length);

  await Promise.all([
    t.test('one that is quick as a rule and takes 3 s once', async (t) => {
      const server = await open();
      const upstream = new HostUpstream([server.address]);
      for (let n = 0; n < 30; n++) await upstream.resolve('quick.example');
      server.delayMs = 3000;
      const { addresses, ms } = await took(upstream, 'a.example');
      t.same(addresses, ['9.9.9.9']);
      t.ok(ms > 2900 && ms < 4500, `${ms} ms`);
      t.same(counts([server], 'a.example'), [2], 'once more, as a question may be lost');
    }),
    t.test('three that take 3 s', async (t) => {
      const servers = [await open(), await open(), await open()];
      for (const server of servers) server.delayMs = 3000;
      const { addresses, ms } = await took(
        new HostUpstream(servers.map(({ address }) => address)),
        'a.example',
      );
      t.same(addresses, ['9.9.9.9']);
      t.ok(ms > 2900 && ms < 4500, `${ms} ms`);
      const [first = 0, second = 0, third = 0] = counts(servers, 'a.example');
      t.ok(first === 1 && second === 1 && third <= 1, `${first} ${second} ${third}`);
    }),
    t.test('a dead one costs one question its time', async (t) => {
      const servers = [await open(), await open()];
      const [dead, alive] = servers as [NameServer, NameServer];
      for (const name of ['a.example', 'b.example']) dead.zone[name] = 'silent';
      const upstream = new HostUpstream(servers.map(({ address }) => address));
      const [first, second] = [await took(upstream, 'a.example'), await took(upstream, 'b.example')];
      t.same([first.addresses, second.addresses], [['9.9.9.9'], ['9.9.9.9']]);
      t.ok(first.ms > 1400 && first.ms < 2900, `${first.ms} ms`);
      t.ok(second.ms < 1000, `then ${second.ms} ms`);
      t.same(
        [counts([dead, alive], 'a.example'), counts([dead, alive], 'b.example')],
        [
          [1, 1],
          [0, 1],
        ],
      );
    }),
    t.test('one that says that it cannot, or that is not there, costs none', async (t) => {
      const alive = await open();
      const bad = await open();
      alive.set('bad.example', ['9.9.9.9']);
      const upstream = new HostUpstream(['127.0.0.1:1', bad.address, alive.address]);
      const { addresses, ms } = await took(upstream, 'bad.example');
      t.same(addresses, ['9.9.9.9']);
      t.ok(ms < 1400, `${ms} ms`);
      t.same((await took(new HostUpstream([bad.address]), 'bad.example')).addresses, ['ESERVFAIL']);
      t.same(counts([bad], 'bad.example'), [2], 'once for each');
    }),
    t.test('all of them dead', async (t) => {
      const server = await open();
      server.zone['a.example'] = 'silent';
      const { addresses, ms } = await took(new HostUpstream([server.address]), 'a.example');
      t.same(addresses, ['ETIMEOUT']);
      t.ok(ms < 9000, `${ms} ms`);
      t.same(counts([server], 'a.example'), [2]);
    }),
  ]);
});
