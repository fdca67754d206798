// What a create and a fork ask for beyond numbers: zeros that mean defaults, networks, published ports, images.
import t from 'tap';
import { ask, LIMITS, makeApp } from './support.ts';

const NAMES_OF_STRANGERS = ['\ud800', 'a\udc00b'];

t.test('0 means the default for every number whose minimum is above 0', async (t) => {
  const { app, sandboxes } = makeApp();
  const body = '{"vcpus": 0, "memory_mib": 0, "disk_bytes": 0, "timeout_s": 0}';
  t.equal((await ask(app, 'POST', '/sandboxes', body)).status, 201);
  t.match(sandboxes.created[0], {
    vcpus: undefined,
    memoryMib: undefined,
    diskBytes: undefined,
    timeoutS: 0,
  });
  for (const field of ['vcpus', 'memory_mib', 'disk_bytes', 'timeout_s']) {
    const answer = await ask(app, 'POST', '/sandboxes', JSON.stringify({ [field]: -1 }));
    t.match(answer, { status: 400, error: `${field} must be an integer from ` }, field);
  }
});

t.test("more vCPUs than the host has are refused with the host's number", async (t) => {
  const { app } = makeApp({ limits: { ...LIMITS, hostCpus: 2 } });
  const create = (vcpus: number) => ask(app, 'POST', '/sandboxes', JSON.stringify({ vcpus }));
  t.equal((await create(2)).status, 201);
  t.match(await create(3), {
    status: 400,
    error: /^vcpus must be an integer from 1 to 2 \(this host has 2 CPUs\), got 3$/,
  });
  const limited = makeApp({ limits: { ...LIMITS, vcpus: 1, hostCpus: 2 } });
  t.match(await ask(limited.app, 'POST', '/sandboxes', '{"vcpus": 2}'), {
    status: 400,
    error: /^vcpus must be an integer from 1 to 1, got 2$/,
  });
});

t.test('a body full of ports is checked like one of a few', async (t) => {
  const { app } = makeApp();
  const makePorts = (length: number) =>
    Array.from({ length }, (_, at) => ({
      host_ip: `127.${at >> 16}.${(at >> 8) & 255}.${at & 255}`,
      host_port: 1,
      guest_port: 1,
    }));
  const publish = makePorts(256);
  t.equal((await ask(app, 'POST', '/sandboxes', JSON.stringify({ publish }))).status, 201);
  const twice = [...publish.slice(1), publish[1]];
  t.match(await ask(app, 'POST', '/sandboxes', JSON.stringify({ publish: twice })), {
    status: 400,
    error: /^publish\[255\] must not repeat host port 1 of another entry/,
  });
  t.match(await ask(app, 'POST', '/sandboxes', JSON.stringify({ publish: makePorts(15_000) })), {
    status: 400,
    error: /^publish must have at most 256 entries/,
  });
});

t.test('a network is checked before it is made', async (t) => {
  const { app, sandboxes } = makeApp();
  const create = (network: unknown) => ask(app, 'POST', '/sandboxes', JSON.stringify({ network }));
  const list = (...allowlist: unknown[]) => create({ enabled: true, allowlist });
  for (const network of [null, {}, { enabled: false }, { enabled: false, allowlist: [] }, { allowlist: [] }])
    t.equal((await create(network)).status, 201, JSON.stringify(network));
  const before = sandboxes.created.length;
  for (const network of [
    { enabled: true },
    { enabled: true, allowlist: [] },
    { enabled: true, allowlist: null },
  ])
    t.match(await create(network), { status: 400, error: /^network.allowlist .*non-empty allowlist/ });
  t.match(await list('*'), { status: 400, error: /^network.allowlist\[0\] .*bare wildcard/ });
  t.match(await list('a.example', '*'), { status: 400, error: /^network.allowlist\[1\] .*bare wildcard/ });
  for (const network of [{ enabled: false, allowlist: ['a.example'] }, { allowlist: ['a.example'] }])
    t.match(await create(network), { status: 400, error: /^network.enabled must be true/ });
  const malformed = [
    '',
    'localhost',
    'a',
    '.',
    'a..b',
    '.a.b',
    'a.b..',
    '-a.b',
    'a-.b',
    'a b.c',
    '*.',
    '*.com',
    '**.com',
    '***.a.b',
    '*a.b.c',
    'a.*.c',
    'a.b.*',
    '1.2.3.4',
    'a.1',
    '::1',
    '[::1]',
    '10.0.0.0/8',
    'a.b:443',
    'https://a.b',
    'ä',
    'a b.ä.example',
    'user@ä.example',
    'ä.example:443',
    'ä.example/x',
    '[::1]ä',
    '１２７.0.0.1',
    `${'a'.repeat(64)}.example`,
    `${'a.'.repeat(127)}example`,
    'a\0.b',
    ...NAMES_OF_STRANGERS,
    7,
    null,
  ];
  for (const pattern of malformed)
    t.match(
      await list(pattern),
      { status: 400, error: /^network.allowlist\[0\] must be a host name/ },
      JSON.stringify(pattern),
    );
  for (const [pattern, ascii] of [
    ['ä.example', 'xn--4ca.example'],
    ['*.例え.jp', '*.xn--r8jz45g.jp'],
    ['FAß.example.', 'xn--fa-hia.example.'],
    ['ä_b.example', 'xn--_b-uia.example'],
  ])
    t.match(await list(pattern), {
      status: 400,
      error: `network.allowlist[0] must be a host name as DNS has it: write ${ascii}, got ${JSON.stringify(pattern)}`,
    });
  const valid = [
    'a.example',
    'A.Example.',
    '*.a.example',
    '**.a.example',
    'xn--4ca.example',
    '1.a.example',
    '127.a',
    '_a.b_c.example',
  ];
  t.equal(sandboxes.created.length, before);
  t.equal((await list(...valid)).status, 201);
  t.same(sandboxes.created.at(-1)?.network, {
    allowlist: [
      'a.example',
      'a.example',
      '*.a.example',
      '**.a.example',
      'xn--4ca.example',
      '1.a.example',
      '127.a',
      '_a.b_c.example',
    ],
  });
});

t.test('published ports are checked before they are made', async (t) => {
  const { app, sandboxes } = makeApp();
  const create = (publish: unknown) => ask(app, 'POST', '/sandboxes', JSON.stringify({ publish }));
  const port = (change: object) => ({ host_port: 8080, guest_port: 80, ...change });
  const cases: [unknown, RegExp][] = [
    [{}, /^publish must be an array of port mappings/],
    [[7], /^publish\[0\] must be an object/],
    [[{}], /^publish\[0\].host_port must be an integer from 1 to 65535, got nothing/],
    [[port({ host_port: 0 })], /^publish\[0\].host_port must be .*, got 0/],
    [[port({ host_port: 65_536 })], /^publish\[0\].host_port/],
    [[port({ guest_port: -1 })], /^publish\[0\].guest_port must be an integer from 1 to 65535, got -1/],
    [[port({ guest_port: '80' })], /^publish\[0\].guest_port/],
    [[port({ protocol: 'udp' })], /^publish\[0\].protocol must be tcp, got "udp"/],
    [[port({ host_ip: 'localhost' })], /^publish\[0\].host_ip must be an IP address, got "localhost"/],
    [[port({ host_ip: 'fe80::1%eth0' })], /^publish\[0\].host_ip/],
    [[port({}), port({ guest_port: 81 })], /^publish\[1\] must not repeat host port 8080/],
    [[port({ host_ip: '127.0.0.1' }), port({})], /^publish\[1\] must not repeat/],
    [[port({ host_ip: '127.0.0.1' }), port({ host_ip: '0.0.0.0' })], /^publish\[1\] must not repeat/],
    [[port({ host_ip: '::1' }), port({ host_ip: '0:0::1' })], /^publish\[1\] must not repeat/],
  ];
  for (const [publish, pattern] of cases)
    t.match(await create(publish), { status: 400, error: pattern }, JSON.stringify(publish));
  t.equal((await create([])).status, 201);
  const valid = [
    port({ protocol: 'tcp' }),
    port({ host_port: 8081, protocol: '', host_ip: '' }),
    port({ host_port: 8082, host_ip: '127.0.0.1' }),
    port({ host_port: 8082, host_ip: '127.0.0.2' }),
    port({ host_port: 8082, host_ip: '::' }),
  ];
  t.equal((await create(valid)).status, 201);
  t.same(sandboxes.created.at(-1)?.publish, [
    { hostPort: 8080, guestPort: 80 },
    { hostPort: 8081, guestPort: 80 },
    { hostIp: '127.0.0.1', hostPort: 8082, guestPort: 80 },
    { hostIp: '127.0.0.2', hostPort: 8082, guestPort: 80 },
    { hostIp: '::', hostPort: 8082, guestPort: 80 },
  ]);
});

t.test('ports of a fork', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = await sandboxes.snapshot(sandboxes.add().id);
  const publish = [{ host_port: 8080, guest_port: 80 }];
  const fork = (snapshot: string, body: unknown, query = '') =>
    ask(app, 'POST', `/snapshots/${snapshot}/fork${query}`, JSON.stringify(body));
  t.match(await fork(id, { publish: [{}] }), { status: 400, error: /^publish\[0\].host_port/ });
  t.match(await fork(id, { publish, count: 2 }), { status: 400, error: /^publish needs count 1.*got 2$/ });
  t.match(await fork(id, { publish }, '?count=3'), { status: 400, error: /^publish needs count 1.*got 3$/ });
  t.match(await fork('snap_0000000000000', { publish, count: 2 }), { status: 400 });
  t.match(await fork('snap_0000000000000', { publish }), { status: 404 });
  t.match(await fork(id, { publish }), {
    status: 400,
    error: /^publish needs a snapshot that has a network/,
  });
  t.equal((await fork(id, { publish: [] })).status, 201);
});

t.test('an image is checked before it is 501', async (t) => {
  const { app, sandboxes } = makeApp();
  const create = (body: object) => ask(app, 'POST', '/sandboxes', JSON.stringify(body));
  const cases: [object, RegExp][] = [
    [{ image: {} }, /^image must have exactly one of oci and path/],
    [{ image: { oci: '', path: null } }, /^image must have exactly one of oci and path/],
    [{ image: { oci: 'nginx', path: '/x' } }, /^image must have exactly one of oci and path/],
    [{ image: 'nginx' }, /^image must be an object/],
    [{ image: { oci: 7 } }, /^image.oci must be/],
    [{ image: { oci: 'NGINX' } }, /^image.oci must be an image reference.*got "NGINX"/],
    [{ image: { oci: 'a b' } }, /^image.oci/],
    [{ image: { oci: '\ud800' } }, /^image.oci/],
    [{ image: { path: 'rel/x' } }, /^image.path must be an absolute path/],
    [{ image: { path: '/a\0' } }, /^image.path/],
    [{ image: { oci: 'nginx' }, profile: 'base' }, /^profile and image exclude each other/],
    [{ image: { oci: 'nginx' }, pull: 'sometimes' }, /^pull must be one of missing, always, never/],
    [{ image: { oci: 'nginx' }, vcpus: -1 }, /^vcpus/],
  ];
  for (const [body, pattern] of cases)
    t.match(await create(body), { status: 400, error: pattern }, JSON.stringify(body));
  for (const oci of [
    'nginx',
    'nginx:alpine',
    'ghcr.io/a/b:c',
    `localhost:5000/a__b/c-d@sha256:${'ab'.repeat(32)}`,
    `sha256:${'0'.repeat(64)}`,
    'abcdef012345',
    '[::1]:5000/x',
  ])
    t.match(await create({ image: { oci } }), { status: 501, error: /not enabled/ }, oci);
  t.match(await create({ image: { path: '/srv/x.tar' }, pull: 'never' }), { status: 501 });
  t.equal((await create({ image: null, pull: 'always' })).status, 201);
  t.equal(sandboxes.created.length, 1);
});

t.test('images: every path is there, and 501 after its own checks', async (t) => {
  const { app } = makeApp();
  const off = { status: 501, error: /^image support is not enabled on this daemon/ };
  t.match(await ask(app, 'GET', '/images'), off);
  t.match(await ask(app, 'POST', '/images', '{"image": "nginx"}'), off);
  t.match(await ask(app, 'POST', '/images/import?tag=a:b', 'tar'), off);
  for (const ref of [
    'nginx',
    'nginx:alpine',
    'ghcr.io/a/b:c',
    'ghcr.io%2Fa%2Fb%3Ac',
    'sha256:abcdef',
    'import',
  ])
    for (const method of ['GET', 'DELETE'])
      t.match(await ask(app, method, `/images/${ref}`), off, `${method} ${ref}`);
  t.equal((await ask(app, 'HEAD', '/images')).status, 501);
  for (const ref of ['NGINX', 'a%20b', 'a//b', '-x', 'a%3A%3Ab'])
    t.match(await ask(app, 'GET', `/images/${ref}`), { status: 400, error: /^image reference ".*" / }, ref);
  t.match(await ask(app, 'GET', '/images/a%zz'), { status: 400, error: /bad % escape/ });
  t.match(await ask(app, 'DELETE', '/images/a%00'), { status: 400, error: /NUL/ });
  t.match(await ask(app, 'POST', '/images', '[1]'), { status: 400, error: /JSON object/ });
  t.match(await ask(app, 'POST', '/images', '{'), { status: 400, error: /not valid JSON/ });
  t.match(await ask(app, 'POST', '/images/import?tag=%zz'), {
    status: 400,
    error: /^query tag .*bad % escape/,
  });
  for (const [method, path, allow] of [
    ['PUT', '/images', 'GET, HEAD, POST'],
    ['POST', '/images/nginx', 'DELETE, GET, HEAD, PATCH'],
    ['PUT', '/images/ghcr.io/a/b', 'DELETE, GET, HEAD, PATCH'],
    ['PUT', '/images/import', 'DELETE, GET, HEAD, PATCH, POST'],
  ] as const) {
    const { status, headers } = await ask(app, method, path);
    t.same([status, headers.get('allow')], [405, allow], `${method} ${path}`);
  }
  t.equal((await ask(app, 'GET', '/images/')).status, 404);
});
