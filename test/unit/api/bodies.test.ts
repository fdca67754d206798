// What bodies may say, and what comes of what they leave out.
import {
  createSandboxRequest,
  execRequest,
  forkRequest,
  INTERFACE_LIMITS,
  networkRequest,
  policy,
  pullImageRequest,
  SIGNALS,
  serviceSpec,
  stopRequest,
  toJsonSchema,
} from '@sandboxd/api';
import t from 'tap';
import { accept, refuse } from './support/ask.ts';

const create = createSandboxRequest(INTERFACE_LIMITS);

t.test('create: nothing, null, 0 and "" are the defaults', (t) => {
  const empty = accept(create, undefined);
  t.match(empty, { timeout_s: 0, boot_args: '', pull: 'missing', publish: [] });
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
  t.equal(fields.length, 11);
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
  const names = ['Example.COM.', '*.b.example', 'a-b.c1.example', 'xn--bcher-kva.example', '1.2.3.4a'];
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
    '**.a.example',
    'a_b.example',
    '*a.example.com',
    'bücher.example',
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
  for (const host_ip of ['127.0.0.1', '::', '::1', 'fe80::1'])
    t.equal(refuse(create, { publish: [{ ...port, host_ip }] }), '');
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
    ['127.0.0.1', '::ffff:127.0.0.2'],
  ] as const)
    t.equal(on(...addresses), '', addresses.join());
  t.end();
});

t.test('exec', (t) => {
  t.same(accept(execRequest, { cmd: ['x'] }), { cmd: ['x'], env: {}, timeout_s: 0 });
  for (const cmd of [undefined, null, [], 'ls'])
    t.match(refuse(execRequest, { cmd }), /^cmd must be a non-empty array/);
  t.match(refuse(execRequest, { cmd: ['', 'x'] }), /^cmd must name a program first/);
  t.equal(refuse(execRequest, { cmd: ['x', ''] }), '');
  for (const timeout_s of [-1, 0, 2 ** 41])
    t.equal(accept(execRequest, { cmd: ['x'], timeout_s }).timeout_s, timeout_s);
  t.match(
    refuse(execRequest, { cmd: ['x'], timeout_s: '5' }),
    /^timeout_s must be an integer of seconds, 0 for none, got "5"/,
  );
  t.match(
    refuse(execRequest, { cmd: ['x'], tty: { cols: 1 } }),
    /^tty.rows must be an integer from 1 to 65535, got nothing/,
  );
  t.match(
    refuse(execRequest, { cmd: ['x'], tty: { cols: 0, rows: 65_536 } }),
    /^tty.cols .*, got 0; tty.rows .*, got 65536/,
  );
  for (const cwd of ['', '/', '/a b'])
    t.equal(accept(execRequest, { cmd: ['x'], cwd }).cwd, cwd || undefined);
  t.match(refuse(execRequest, { cmd: ['x'], cwd: 'tmp' }), /^cwd must be an absolute path, got "tmp"/);
  t.end();
});

t.test('env: every name that Linux has, __proto__ as well', (t) => {
  const env = JSON.parse('{"__proto__":"1","constructor":"2","a b":"","toString":"😀"}');
  const taken = accept(execRequest, { cmd: ['x'], env }).env ?? {};
  t.strictSame(Object.entries(taken), Object.entries(env));
  t.equal(Object.hasOwn(taken, '__proto__'), true);
  t.same(accept(execRequest, { cmd: ['x'], env: null }).env, {});
  for (const name of ['', 'A=B', 'A\0', 'A\ud800']) {
    t.match(refuse(execRequest, { cmd: ['x'], env: { [name]: '' } }), /^env must have names/);
  }
  for (const value of [['A=1'], 'A=1', 1])
    t.match(refuse(execRequest, { cmd: ['x'], env: value }), /^env must be an object of strings/);
  t.match(refuse(execRequest, { cmd: ['x'], env: { A: 1 } }), /^env.A must be a string, got 1/);
  t.end();
});

t.test('half of a surrogate pair and NUL are refused wherever a string goes to the guest', (t) => {
  for (const [text, error] of [
    ['/a\ud800b', /surrogate pair, got "\/a\\ud800b"$/],
    ['/\udc00', /surrogate pair/],
    ['/a\0', /without a NUL character/],
  ] as const) {
    for (const fields of [
      { cmd: ['x', text] },
      { cmd: [text] },
      { cwd: text },
      { user: text },
      { env: { A: text } },
    ]) {
      t.match(refuse(execRequest, { cmd: ['x'], ...fields }), error);
      t.match(refuse(create, { service: { cmd: ['x'], ...fields } }), error);
    }
    for (const fields of [
      { profile: text },
      { boot_args: text },
      { image: { oci: text } },
      { image: { path: text } },
    ]) {
      t.match(refuse(create, fields), error);
    }
  }
  t.equal(refuse(execRequest, { cmd: ['😀'], cwd: '/😀' }), '');
  t.end();
});

t.test('service: defaults, signals, policies, users', (t) => {
  const defaults = {
    env_exact: false,
    log_buffer_bytes: 2 * 2 ** 20,
    restart: { policy: 'never', max_retries: 0 },
    stop_grace_s: 10,
    stop_signal: 'SIGTERM',
  };
  t.match(accept(serviceSpec, { cmd: ['x'] }), defaults);
  const zeros = { log_buffer_bytes: 0, stop_grace_s: 0, stop_signal: '', restart: {}, user: '', cwd: '' };
  t.match(accept(serviceSpec, { cmd: ['x'], ...zeros }), defaults);
  t.same(
    accept(serviceSpec, { cmd: ['x'], restart: { policy: '', max_retries: 0 } }).restart,
    defaults.restart,
  );
  t.equal(refuse(serviceSpec, { cmd: ['x'], log_buffer_bytes: 16 * 2 ** 20 }), '');
  t.match(
    refuse(serviceSpec, { cmd: ['x'], log_buffer_bytes: 16 * 2 ** 20 + 1 }),
    /^log_buffer_bytes must be an integer/,
  );
  for (const field of ['stop_grace_s', 'log_buffer_bytes']) {
    t.match(refuse(serviceSpec, { cmd: ['x'], [field]: -1 }), new RegExp(`^${field} must be`));
  }
  t.equal(SIGNALS.length, 31);
  for (const stop_signal of SIGNALS) t.equal(refuse(serviceSpec, { cmd: ['x'], stop_signal }), '');
  for (const stop_signal of ['TERM', 'sigterm', 'SIGRTMIN', 'SIG0', 15]) {
    t.match(
      refuse(serviceSpec, { cmd: ['x'], stop_signal }),
      /^stop_signal must be a Linux signal from 1 to 31/,
    );
  }
  for (const policy of ['never', 'always', '']) {
    t.match(
      refuse(serviceSpec, { cmd: ['x'], restart: { policy, max_retries: 1 } }),
      /^restart must not have max_retries/,
    );
  }
  t.equal(refuse(serviceSpec, { cmd: ['x'], restart: { policy: 'on-failure', max_retries: 5 } }), '');
  t.match(
    refuse(serviceSpec, { cmd: ['x'], restart: { policy: 'maybe' } }),
    /^restart.policy must be one of never, on-failure, always/,
  );
  for (const user of ['root', '0', 'a:b', '1000:1000'])
    t.equal(accept(serviceSpec, { cmd: ['x'], user }).user, user);
  for (const user of ['a:b:c', 'a:', ':b', ':', 0]) {
    t.match(refuse(serviceSpec, { cmd: ['x'], user }), /^user must be name\|uid\[:group\|gid\], got/);
  }
  t.end();
});

t.test('stop, fork, pull, policy', (t) => {
  for (const body of [undefined, null, {}, { grace_s: 0 }, { grace_s: null }])
    t.equal(accept(stopRequest, body).grace_s, undefined);
  t.equal(accept(stopRequest, { grace_s: 3 }).grace_s, 3);
  t.match(refuse(stopRequest, { grace_s: -1 }), /^grace_s must be an integer from 0 to 2147483647 seconds/);

  const fork = forkRequest(INTERFACE_LIMITS);
  for (const body of [undefined, null, {}, { count: 0 }, { publish: [] }])
    t.same(accept(fork, body), { count: 0, publish: [] });
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
