// Ports of the host that a key may publish: which, on which addresses, and how many.
import t from 'tap';
import { startKeyed as start } from './keyed-daemon.ts';

const at = (...ports: number[]) => ({
  publish: ports.map((host_port) => ({ host_ip: '127.0.0.1', host_port, guest_port: 80 })),
});

t.test(
  'published ports are those of publish_ports, or of the daemon where a policy does not say',
  async (t) => {
    const { as, snapshotOf, root } = await start(t);
    const id = await snapshotOf({ network: { enabled: true, allowlist: ['a.example'] } });
    const some = await as({ policy: { publish_ports: ['80', '8000-8002'] } });
    for (const port of [80, 8000, 8002])
      t.equal((await some('POST', '/sandboxes', at(port))).status, 201, `${port}`);
    const beyond = {
      status: 403,
      error: /host port 81, 7999, 8003 is not within publish_ports 80, 8000-8002/,
    };
    t.match(await some('POST', '/sandboxes', at(80, 81, 7999, 8003)), beyond);
    t.match(
      await some('POST', `/snapshots/${id}/fork`, at(81)),
      { status: 403 },
      'a copy has ports of its own',
    );
    t.equal((await some('POST', `/snapshots/${id}/fork`, at(8001))).status, 201);
    const none = await as({ policy: { publish_ports: [] } });
    t.match(await none('POST', '/sandboxes', at(8080)), {
      status: 403,
      error: /publish_ports \(none\)/,
    });
    t.equal((await none('POST', '/sandboxes')).status, 201);
    for (const narrow of [{ policy: { max_vcpus: 2 } }, { tenant: 'acme' }]) {
      const ask = await as(narrow);
      for (const port of [22, 1023, 32_768, 60_999])
        t.match(await ask('POST', '/sandboxes', at(port)), {
          status: 403,
          error: /is not within publish_ports 1024-32767, 61000-65535/,
        });
      for (const port of [1024, 32_767, 61_000])
        t.equal((await ask('POST', '/sandboxes', at(port))).status, 201, `${port}`);
    }
    t.equal((await root('POST', '/sandboxes', at(22))).status, 201, 'the operator’s own key is not narrow');
  },
);

t.test('published ports are on the addresses of publish_addresses', async (t) => {
  const { as } = await start(t);
  const on = (host_ip?: string) => ({
    publish: [{ host_port: 8080, guest_port: 80, ...(host_ip && { host_ip }) }],
  });
  const statuses = async (allowed: string[], hosts: (string | undefined)[]) => {
    const ask = await as({ policy: { publish_addresses: allowed } });
    const seen: number[] = [];
    for (const host of hosts) seen.push((await ask('POST', '/sandboxes', on(host))).status);
    return seen;
  };
  t.same(
    await statuses(
      ['127.0.0.1', 'fd00::1'],
      ['127.0.0.1', 'fd00:0::0001', '127.0.0.2', '0.0.0.0', '::', undefined],
    ),
    [201, 201, 403, 403, 403, 403],
  );
  t.same(await statuses(['0.0.0.0'], ['127.0.0.1', '0.0.0.0', '::1', undefined]), [201, 201, 403, 403]);
  t.same(await statuses(['0.0.0.0', '::'], ['127.0.0.1', '::1', undefined]), [201, 201, 201]);
  const none = await as({ policy: { publish_addresses: [] } });
  t.match(await none('POST', '/sandboxes', on()), {
    status: 403,
    error: /host address 0\.0\.0\.0, :: is not among publish_addresses \(none\)/,
  });
});

t.test('max_published_ports counts what the key has, at once as well as in turn', async (t) => {
  const { as } = await start(t);
  const ask = await as({ policy: { max_published_ports: 3 } });
  const made = await Promise.all(
    [8000, 8010, 8020].map((port) => ask('POST', '/sandboxes', at(port, port + 1))),
  );
  t.same(made.map(({ status }) => status).sort(), [201, 403, 403]);
  t.match(
    made.find(({ status }) => status === 403),
    { error: /ports of this key 4 is over max_published_ports 3/ },
  );
  t.equal((await ask('POST', '/sandboxes', at(8030))).status, 201);
  await ask('DELETE', `/sandboxes/${made.find(({ status }) => status === 201)?.id}`);
  t.equal((await ask('POST', '/sandboxes', at(8040, 8041))).status, 201, 'what is gone makes room');
});

t.test('a port that is published later counts as one of a create', async (t) => {
  const { as, keyring } = await start(t);
  const all = await as({ tenant: 'acme' });
  const network = { network: { enabled: true, allowlist: ['a.example'] } };
  const { id } = await all('POST', '/sandboxes', network);
  const publish = (ask: typeof all, host_port: number, host_ip = '127.0.0.1') =>
    ask('POST', `/sandboxes/${id}/ports/80/publish`, { host_port, host_ip });
  const narrow = await as({
    tenant: 'acme',
    policy: { publish_ports: ['8000-8002'], publish_addresses: ['127.0.0.1'], max_published_ports: 3 },
  });
  t.match(await publish(narrow, 9000), { status: 403, error: /host port 9000 is not within publish_ports/ });
  t.match(await publish(narrow, 8000, '127.0.0.2'), { status: 403, error: /is not among publish_addresses/ });
  t.match(await publish(all, 22), { status: 403, error: /is not within publish_ports 1024-32767/ });
  for (const operations of [['connect'], ['exec', 'read']] as const) {
    const other = await as({ tenant: 'acme', policy: { operations: [...operations] } });
    t.match(await publish(other, 8000), { status: 403, error: /create/ }, `${operations}`);
    t.match(await other('DELETE', `/sandboxes/${id}/ports/80/publish/8000`), { status: 403 });
  }
  const offline = await as({ tenant: 'acme', policy: { net_allow_max: [] } });
  t.match(await publish(offline, 8000), { status: 403, error: /net_allow_max, which is empty/ });
  await keyring.registry.setQuota('acme', { max_published_ports: 2 });
  const asked = await Promise.all([8000, 8001, 8002].map((port) => publish(all, port)));
  t.same(asked.map(({ status }) => status).sort(), [200, 200, 403], 'at once');
  t.match(
    asked.find(({ status }) => status === 403),
    { error: /published ports of tenant acme 3 is over max_published_ports 2/ },
  );
  const { published } = await all('GET', `/sandboxes/${id}`);
  t.equal(published.length, 2);
  t.equal((await all('DELETE', `/sandboxes/${id}/ports/80/publish/${published[0].host_port}`)).status, 204);
  t.equal((await publish(all, 8005)).status, 200, 'a freed one does not count');
  const stranger = await as({ tenant: 'other' });
  t.equal((await publish(stranger, 8006)).status, 404);
});
