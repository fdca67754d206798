// The network of a sandbox over HTTP: its policy, changes, verdicts, presets, and who may do what.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import t from 'tap';
import { Presets } from '../../host-agent/src/network/presets.ts';
import { makeHome } from '../support/memory-host/daemon.ts';
import { startKeyed } from './keyed-daemon.ts';
import { makeApp, UNKNOWN_ID } from './support.ts';

const SSH = { host: 'github.test', protocol: 'tcp', ports: [22, '9000-9005'] };
const network = (parts: object) => ({ network: { enabled: true, ...parts } });

t.test('rules at a create, in the answer, and what is refused', async (t) => {
  const { root } = await startKeyed(t);
  const made = await root('POST', '/sandboxes', network({ rules: [SSH] }));
  t.match(made, { status: 201, network: { allowlist: [], rules: [SSH] } });
  const bound = [
    { host: 'a.test' },
    { host: 'a.test', protocol: 'http', tls: undefined },
    { host: 'b.test', protocol: 'postgres' },
  ];
  t.match(
    await root(
      'POST',
      '/sandboxes',
      network({ rules: [...bound, { host: 'c.test', ech: 'refuse', ports: [8443] }] }),
    ),
    {
      status: 201,
      network: {
        rules: [
          { host: 'a.test', protocol: 'tls', ports: [443] },
          { host: 'a.test', protocol: 'http', ports: [80] },
          { host: 'b.test', protocol: 'postgres', ports: [5432] },
          { host: 'c.test', protocol: 'tls', ports: [8443], ech: 'refuse' },
        ],
      },
    },
  );
  const listed = await root('GET', '/sandboxes');
  t.match(listed.sandboxes[0].network, { rules: [SSH] });
  const plain = await root('POST', '/sandboxes', network({ allowlist: ['a.test'] }));
  t.notOk('rules' in plain.network || 'presets' in plain.network, 'as before');
  for (const [parts, status, error] of [
    [{}, 400, /must be a non-empty allowlist where the network is enabled, or rules or presets/],
    [
      { rules: [{ host: 'a.test', methods: [] }] },
      400,
      /methods must name a method; without the field, every/,
    ],
    [{ rules: [{ host: 'a.test', methods: ['connect'] }] }, 400, /must be none of CONNECT, TRACE, TRACK/],
    [{ rules: [{ host: 'a.test', methods: ['GET /'] }] }, 400, /must be a method, such as GET/],
    [{ rules: [{ host: 'a.test', paths: ['x'] }] }, 400, /must be a path that begins with \//],
    [{ rules: [{ host: 'a.test', paths: ['/a/../b'] }] }, 400, /must be as a server reads it/],
    [{ rules: [{ host: 'a.test', paths: ['/a*'] }] }, 400, /must be as a server reads it/],
    [{ rules: [{ host: 'a.test', paths: ['/**/a'] }] }, 400, /"\/\*\*" only at the end/],
    [{ rules: [{ host: 'a.test', paths: ['/a?b'] }] }, 400, /must be as a server reads it/],
    [
      { rules: [{ host: 'a.test', tls: 'inspect' }, { host: 'a.test' }] },
      400,
      /rules\[0\] reads the requests to a\.test on port 443, and rules\[1\] lets a\.test pass unread there/,
    ],
    [
      {
        rules: [
          { host: 'a.test', tls: 'inspect' },
          { host: 'b.test', protocol: 'tcp', ports: ['400-500'] },
        ],
      },
      400,
      /rules\[1\] opens addresses on such a port by tcp, which pass unread/,
    ],
    [
      { allowlist: ['b.test'], rules: [{ host: 'a.test', ports: [8443], tls: 'inspect' }] },
      400,
      /an allowlist opens addresses on all ports but 80 and 443/,
    ],
    [{ rules: [{ ...SSH, methods: ['GET'] }] }, 400, /methods needs protocol tls or http, not tcp/],
    [{ rules: [{ ...SSH, method: ['GET'] }] }, 400, /rules\[0\] has unknown fields: method/],
    [{ rules: [{ host: 'a.test', tls: 'passthrough', paths: ['/x'] }] }, 400, /paths needs tls: inspect/],
    [{ rules: [{ host: 'a.test', encoded_slash: true }] }, 400, /encoded_slash needs paths/],
    [{ rules: [{ ...SSH, ech: 'refuse' }] }, 400, /ech needs protocol tls/],
    [{ rules: [{ ...SSH, cidr: '1.2.3.0/24' }] }, 400, /must have a host or a cidr/],
    [{ rules: [{ protocol: 'tcp', ports: [1] }] }, 400, /must have a host or a cidr/],
    [{ rules: [{ cidr: '1.2.3.0/24' }] }, 400, /protocol must be tcp or udp where a cidr is given/],
    [{ rules: [{ cidr: '1.2.3.4/24', protocol: 'tcp', ports: [1] }] }, 400, /without host bits/],
    [{ rules: [{ cidr: '169.254.0.0/16', protocol: 'tcp', ports: [80] }] }, 400, /not on the internet/],
    [{ rules: [{ host: 'a.test', protocol: 'udp' }] }, 400, /ports must be given for udp/],
    [{ rules: [{ ...SSH, ports: [] }] }, 400, /must name a port/],
    [{ rules: [{ ...SSH, ports: [0] }] }, 400, /must be a port from 1 to 65535/],
    [{ rules: [{ ...SSH, ports: ['10-5'] }] }, 400, /must be a port from 1 to 65535/],
    [{ rules: [{ ...SSH, host: '*' }] }, 400, /must not be a bare wildcard/],
    [{ rules: Array.from({ length: 257 }, () => SSH) }, 400, /must have at most 256 rules/],
    [{ presets: ['nosuch'] }, 400, /no preset "nosuch"/],
    [{ presets: ['internet'] }, 403, /preset internet is off/],
    [{ presets: ['No'] }, 400, /must be a name of a preset/],
  ] as const)
    t.match(await root('POST', '/sandboxes', network(parts)), { status, error }, JSON.stringify(parts));
  const off = { network: { enabled: false, rules: [SSH] } };
  t.match(await root('POST', '/sandboxes', off), { status: 400, error: /enabled must be true/ });
});

t.test('GET, PATCH, PUT and a check of one sandbox', async (t) => {
  const { root } = await startKeyed(t);
  const { id } = await root('POST', '/sandboxes', network({ allowlist: ['a.test'] }));
  const path = `/sandboxes/${id}/network`;
  t.match(await root('GET', path), {
    status: 200,
    generation: 1,
    allowlist: ['a.test'],
    rules: [],
    presets: [],
  });
  t.match(await root('PATCH', path, { rules: [SSH], if_generation: 1 }), {
    status: 200,
    generation: 2,
    allowlist: ['a.test'],
    rules: [SSH],
    closed: 0,
  });
  t.match(await root('PATCH', path, { rules: [], if_generation: 1 }), {
    status: 409,
    code: 'conflict',
    error: /generation 2, not 1/,
  });
  const check = (host: string, port: number, more: object = {}) =>
    root('POST', `${path}/check`, { host, port, ...more });
  t.match(await check('GitHub.test.', 22), { status: 200, verdict: 'allowed', rule: SSH, generation: 2 });
  t.match(await check('x.a.test', 22), { verdict: 'denied', reason: /no allowlist, rule or preset/ });
  t.match(await check('a.test', 1, { protocol: 'udp' }), { verdict: 'allowed', allowlist: 'a.test' });
  t.match(await check('10.0.0.1', 22), { verdict: 'denied', reason: /private/ });
  t.match(await check('a.test', 0), { status: 400 });
  t.match(await root('PUT', path, { rules: [SSH] }), { generation: 3, allowlist: [], rules: [SSH] });
  t.match(await root('PUT', path, {}), { generation: 4, allowlist: [], rules: [] });
  t.match(await root('PATCH', path, { nonsense: 1 }), { status: 200, warnings: [/unknown field nonsense/] });
  t.match(await root('PATCH', path, { rules: [{ host: 'a.test', paths: ['/x'] }] }), {
    status: 200,
    rules: [{ host: 'a.test', protocol: 'tls', ports: [443], tls: 'inspect', paths: ['/x'] }],
  });
  await root('PATCH', path, { rules: [{ host: 'a.test', methods: ['GET'], paths: ['/x/**'] }] });
  t.match(await check('a.test', 443), {
    verdict: 'allowed',
    reason: /of their requests, those that a rule lets/,
  });
  t.match(await check('a.test', 443, { path: '/x/y' }), { verdict: 'allowed', rule: { host: 'a.test' } });
  t.match(await check('a.test', 443, { path: '/y' }), { verdict: 'denied', reason: /has the path/ });
  t.match(await check('a.test', 443, { method: 'PUT', path: '/x/y' }), {
    verdict: 'denied',
    reason: /method PUT/,
  });
  t.match(await check('a.test', 443, { path: '/x/../y' }), {
    verdict: 'denied',
    reason: /more than one way/,
  });
  t.match(await check('a.test', 443, { method: 'G T' }), { status: 400 });
  t.match(await root('GET', `/sandboxes/${UNKNOWN_ID}/network`), { status: 404 });
  const without = await root('POST', '/sandboxes', {});
  for (const [method, at, body] of [
    ['GET', '', undefined],
    ['PATCH', '', {}],
    ['PUT', '', {}],
    ['POST', '/check', { host: 'a.test', port: 1 }],
  ] as const)
    t.match(await root(method, `/sandboxes/${without.id}/network${at}`, body), {
      status: 409,
      error: /has no network/,
    });
});

t.test('101: keys without the operation, of another tenant, and with limits', async (t) => {
  const file = join((await makeHome(t)).dataDir, 'presets.json');
  writeFileSync(file, JSON.stringify({ git: { description: 'git by SSH', rules: [SSH] } }));
  const log = pino({ level: 'silent' });
  const presets = Presets.open({ file, hasInternet: true, log });
  const { as } = await startKeyed(t, { presets });
  const owner = await as({ tenant: 'acme' });
  const { id } = await owner('POST', '/sandboxes', network({ allowlist: ['a.test'], presets: ['git'] }));
  const path = `/sandboxes/${id}/network`;
  const old = await as({
    tenant: 'acme',
    policy: { operations: ['create', 'exec', 'read', 'view', 'delete'] },
  });
  t.equal((await old('GET', path)).status, 200);
  t.match(await old('PATCH', path, { rules: [] }), { status: 403, error: /network/ });
  t.match(await old('PUT', path, {}), { status: 403 });
  const other = await as({ tenant: 'other' });
  for (const method of ['GET', 'PATCH', 'PUT']) t.equal((await other(method, path)).status, 404, method);
  const narrow = await as({ tenant: 'acme', policy: { operations: ['network'], net_allow_max: ['a.test'] } });
  t.match(await narrow('PATCH', path, { rules: [SSH] }), {
    status: 403,
    error: /rules github\.test is not within.*preset git github\.test is not within/s,
  });
  t.equal((await narrow('PATCH', path, { presets: [] })).status, 200);
  const listed = async (policy: object) => {
    const keyring = await startKeyed(t, { presets });
    const ask = await keyring.as({ policy: { operations: ['view'], ...policy } });
    return ask('GET', '/network/presets');
  };
  t.match(await listed({}), { status: 200 });
  const { app } = makeApp({ presets });
  const all = (await (await app.request('/network/presets')).json()) as { presets: { name: string }[] };
  t.match(all.presets, [
    { name: 'git', description: 'git by SSH', rules: [SSH] },
    { name: 'internet', rules: [] },
  ]);
});

t.test('the certificate authority of a sandbox is in its policy, without a key', async (t) => {
  const { app, sandboxes } = makeApp();
  const ca = { fingerprint: 'AA:BB', certificate: '-----BEGIN CERTIFICATE-----\n' };
  const created = await app.request('/sandboxes', { method: 'POST' });
  const { id } = (await created.json()) as { id: string };
  const ask = async () => (await app.request(`/sandboxes/${id}/network`)).json() as Promise<{ ca?: object }>;
  t.notOk('ca' in (await ask()));
  sandboxes.network.state = { ...sandboxes.network.state, ca };
  t.same((await ask()).ca, ca);
});
