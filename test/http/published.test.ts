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
      error: /publish_ports, which are none/,
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
    error: /host address 0\.0\.0\.0, :: is not among publish_addresses, which are none/,
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

t.test('a key from before publish_ports existed keeps its ports', async (t) => {
  const { as, keyring } = await start(t);
  const [old, said] = [await as({ tenant: 'acme' }), await as({ policy: { publish_ports: ['80'] } })];
  await keyring.age();
  t.equal((await old('POST', '/sandboxes', at(22))).status, 201);
  t.equal((await said('POST', '/sandboxes', at(22))).status, 403);
});
