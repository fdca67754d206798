// What bodies that make sandboxes may say, and what comes of what they leave out.
import {
  createSandboxRequest,
  forkRequest,
  INTERFACE_LIMITS,
  networkRequest,
  policy,
  pullImageRequest,
  toJsonSchema,
} from '@sandboxd/api';
import t from 'tap';
import { accept, refuse } from '../support/ask.ts';

const create = createSandboxRequest(INTERFACE_LIMITS);

t.test('create: nothing, null, 0 and "" are the defaults', (t) => {
  const empty = accept(create, undefined);
  t.match(empty, {
    timeout_s: 0,
    idle_timeout_s: 0,
    idle_action: 'delete',
    boot_args: '',
    pull: 'missing',
    publish: [],
  });
  for (const field of [
    'vcpus',
    'memory_mib',
    'disk_bytes',
    'profile',
    'image',
    'network',
    'service',
  ] as const) {
    t.equal(empty[field], undefined, field);
  }
  const fields = Object.keys(toJsonSchema(create).properties ?? {});
  t.equal(fields.length, 22);
  t.same(accept(create, null), empty);
  t.same(accept(create, Object.fromEntries(fields.map((field) => [field, null]))), empty);
  t.same(
    accept(create, { vcpus: 0, memory_mib: 0, disk_bytes: 0, profile: '', boot_args: '', pull: '' }),
    empty,
  );
  t.same(
    accept(create, JSON.parse('{"unknown":1,"__proto__":{"vcpus":99}}')),
    empty,
    'unknown fields are ignored',
  );
  t.end();
});

t.test('create: bounds', (t) => {
  const bounds: [string, number, number][] = [
    ['vcpus', 1, 32],
    ['memory_mib', 128, 65_536],
    ['disk_bytes', 64 * 2 ** 20, 2 ** 44],
    ['timeout_s', 0, 2 ** 31 - 1],
  ];
  for (const [field, min, max] of bounds) {
    for (const value of [min, max]) t.equal(Reflect.get(accept(create, { [field]: value }), field), value);
    for (const value of [min - 1, max + 1, -1, 1.5, 1e300, '1', true, [1]]) {
      if (value === 0) continue;
      t.match(
        refuse(create, { [field]: value }),
        new RegExp(`^${field} must be an integer from ${min} to ${max}`),
      );
    }
  }
  t.equal(refuse(create, { boot_args: 'x'.repeat(1024) }), '');
  t.match(refuse(create, { boot_args: 'x'.repeat(1025) }), /^boot_args must be at most 1024 characters/);
  t.match(refuse(create, { boot_args: 'a\nb' }), /^boot_args must be one line of printable ASCII/);
  t.end();
});

t.test('create: one source', (t) => {
  t.match(
    refuse(create, { profile: 'base', image: { oci: 'nginx' } }),
    /^profile and image exclude each other/,
  );
  for (const image of [{}, { oci: '' }, { oci: 'a', path: '/b' }, { oci: null, path: null }]) {
    t.match(refuse(create, { image }), /^image must have exactly one of oci and path/);
  }
  t.match(refuse(create, { image: { path: 'x' } }), /^image.path must be an absolute path/);
  t.same(accept(create, { image: { oci: 'nginx', path: '' } }).image, { oci: 'nginx', path: undefined });
  t.match(refuse(create, { pull: 'sometimes' }), /^pull must be one of missing, always, never/);
  t.end();
});

t.test('create: a service needs a command unless an image has one', (t) => {
  for (const cmd of [undefined, null, []]) {
    t.match(refuse(create, { service: { cmd } }), /^service.cmd must be a non-empty array of strings/);
    t.equal(accept(create, { service: { cmd }, image: { oci: 'x' } }).service?.cmd, undefined);
  }
  t.match(
    refuse(create, { service: { cmd: [''] }, image: { oci: 'x' } }),
    /^service.cmd must name a program first/,
  );
  t.same(accept(create, { service: { cmd: ['x'] } }).service?.cmd, ['x']);
  t.end();
});

t.test('network', (t) => {
  t.same(accept(networkRequest, {}), { enabled: false, allowlist: [] });
  t.same(accept(networkRequest, { enabled: false, allowlist: null }), { enabled: false, allowlist: [] });
  for (const allowlist of [undefined, null, []]) {
    t.match(
      refuse(create, { network: { enabled: true, allowlist } }),
      /^network.allowlist .*non-empty allowlist/,
    );
  }
  t.match(
    refuse(create, { network: { enabled: true, allowlist: ['*'] } }),
    /^network.allowlist\[0\] .*bare wildcard/,
  );
  for (const enabled of [false, undefined]) {
    t.match(
      refuse(create, { network: { enabled, allowlist: ['a.example'] } }),
      /^network.enabled must be true/,
    );
  }
  const names = [
    'Example.COM.',
    '*.b.example',
    '**.c.example',
    'a-b.c1.example',
    'xn--bcher-kva.example',
    '1.2.3.4a',
  ];
  t.same(accept(networkRequest, { enabled: true, allowlist: names }).allowlist, [
    'example.com',
    ...names.slice(1),
  ]);
  const bad = [
    'localhost',
    '*.com',
    '1.2.3.4',
    '::1',
    'a.example:80',
    '10.0.0.0/8',
    'a..example',
    '.example.com',
    'a.*.example',
  ];
  for (const name of [
    ...bad,
    '***.a.example',
    'a_b',
    'a.b_c',
    '*a.example.com',
    'bücher',
    '',
    ' a.example',
    '-a.example',
    'a.example\n',
  ]) {
    t.match(
      refuse(networkRequest, { enabled: true, allowlist: [name] }),
      /^allowlist\[0\] must be a host name of two/,
      name,
    );
  }
  const label = 'x'.repeat(63);
  t.equal(refuse(networkRequest, { enabled: true, allowlist: [`${label}.example`] }), '');
  t.match(refuse(networkRequest, { enabled: true, allowlist: [`x${label}.example`] }), /host name/);
  const long = Array.from({ length: 4 }, () => label).join('.');
  t.match(refuse(networkRequest, { enabled: true, allowlist: [long] }), /at most 253 characters/);
  t.end();
});

t.test('publish', (t) => {
  const port = { host_port: 8080, guest_port: 80 };
  t.same(accept(create, { publish: [port] }).publish, [{ ...port, protocol: 'tcp' }]);
  for (const host_ip of [
    '127.0.0.1',
    '0.0.0.0',
    '223.255.255.255',
    '::',
    '::1',
    '0:0::1',
    'fd00::1',
    '2001:db8::1',
  ])
    t.equal(refuse(create, { publish: [{ ...port, host_ip }] }), '', host_ip);
  for (const [host_ip, problem] of [
    ['::ffff:127.0.0.1', 'written as the IPv4 address that it stands for, 127.0.0.1, got'],
    ['0:0:0:0:0:FFFF:7f00:1', 'written as the IPv4 address that it stands for, 127.0.0.1, got'],
    ['::127.0.0.1', 'IPv4-compatible'],
    ['::2', 'IPv4-compatible'],
    ['fe80::1', 'link-local'],
    ['febf::1', 'link-local'],
    ['fe80::1%lo', 'be an IP address'],
    ['ff02::1', 'multicast'],
    ['224.0.0.1', 'multicast'],
    ['239.255.255.255', 'multicast'],
    ['240.0.0.1', 'broadcast or reserved'],
    ['255.255.255.255', 'broadcast or reserved'],
    ['0.0.0.1', 'only 0.0.0.0 means one'],
  ] as const) {
    const said = refuse(create, { publish: [{ ...port, host_ip }] });
    t.ok(said.startsWith('publish[0].host_ip must ') && said.includes(problem), said);
  }
  for (const host_ip of ['localhost', '1.2.3', '1.2.3.4:5', 7]) {
    t.match(
      refuse(create, { publish: [{ ...port, host_ip }] }),
      /^publish\[0\].host_ip must be an IP address/,
    );
  }
  for (const value of [0, -1, 65_536, 1.5, '80', undefined]) {
    t.match(
      refuse(create, { publish: [{ ...port, host_port: value }] }),
      /^publish\[0\].host_port must be an integer from 1 to 65535/,
    );
    t.match(
      refuse(create, { publish: [{ ...port, guest_port: value }] }),
      /^publish\[0\].guest_port must be/,
    );
  }
  t.match(
    refuse(create, { publish: [{ ...port, protocol: 'udp' }] }),
    /^publish\[0\].protocol must be tcp, got "udp"/,
  );
  t.match(
    refuse(create, { publish: [port, { ...port, guest_port: 81 }] }),
    /^publish\[1\] must not repeat host port 8080/,
  );
  const on = (...addresses: string[]) =>
    refuse(create, { publish: addresses.map((host_ip) => ({ ...port, host_ip })) });
  for (const addresses of [
    ['', '127.0.0.1'],
    ['127.0.0.1', '0.0.0.0'],
    ['::1', '::'],
  ] as const)
    t.match(on(...addresses), /^publish\[1\] must not repeat host port 8080/);
  for (const addresses of [
    ['127.0.0.1', '127.0.0.2'],
    ['0.0.0.0', '::'],
  ] as const)
    t.equal(on(...addresses), '', addresses.join());
  t.end();
});

t.test('fork, pull, policy', (t) => {
  const fork = forkRequest(INTERFACE_LIMITS);
  for (const body of [undefined, null, {}, { count: 0 }, { publish: [] }])
    t.same(accept(fork, body), { count: 0, publish: [], labels: {}, env: {} });
  t.equal(accept(fork, { count: 64 }).count, 64);
  for (const count of [65, -1, '3'])
    t.match(refuse(fork, { count }), /^count must be an integer from 0 to 64/);
  const publish = [{ host_port: 1, guest_port: 1 }];
  t.equal(refuse(fork, { count: 1, publish }), '');
  t.equal(
    refuse(fork, { count: 2, publish }),
    'publish needs count 1, because host ports are exclusive, got 2',
  );

  t.same(accept(pullImageRequest, { ref: 'nginx' }), { ref: 'nginx', pull: 'always' });
  t.match(refuse(pullImageRequest, { ref: 'NGINX' }), /^ref must be an image reference/);

  t.same(accept(policy, { operations: ['read'], net_allow_max: [], max_vcpus: 2 }), {
    operations: ['read'],
    net_allow_max: [],
    max_vcpus: 2,
  });
  t.match(refuse(policy, { max_cpus: 2 }), /has unknown fields: max_cpus/);
  t.match(refuse(policy, { operations: ['write'] }), /^operations\[0\] must be one of create, exec/);
  t.end();
});

t.test('what a sandbox keeps has a size', (t) => {
  const hosts = (count: number, name = 'a.example') => ({
    network: { enabled: true, allowlist: Array.from({ length: count }, () => name) },
  });
  accept(create, hosts(1000));
  t.match(refuse(create, hosts(62_000)), /^network.allowlist must have at most 1000 entries/);
  const long = `${'a'.repeat(60)}.${'b'.repeat(60)}.${'c'.repeat(60)}.example`;
  t.match(refuse(create, hosts(1000, long)), /at most 65536 characters in all entries together/);
  const ports = (count: number) => ({
    publish: Array.from({ length: count }, (_, n) => ({ host_port: 20_000 + n, guest_port: 80 })),
  });
  accept(create, ports(256));
  t.match(refuse(create, ports(257)), /^publish must have at most 256 entries/);
  const service = (chars: number) => ({ service: { cmd: ['x'], env: { A: 'x'.repeat(chars) } } });
  accept(create, service(250_000));
  t.match(
    refuse(create, service(270_000)),
    /^service must have at most 262144 characters in cmd, env, cwd and user/,
  );
  t.match(refuse(create, { profile: 'x'.repeat(300) }), /^profile must be a profile name of at most 255/);
  t.match(
    refuse(create, { image: { path: `/${'x'.repeat(5000)}` } }),
    /^image.path must be a path of at most 4096/,
  );
  t.end();
});
