// The REST interface without sockets: paths, methods, bodies, codes, and what each answer looks like.
import t from 'tap';
import { AppError, type ErrorCode } from '../../host-agent/src/lib/errors.ts';
import { ask, makeApp, UNKNOWN_ID } from './support.ts';

t.test('meta endpoints answer', async (t) => {
  const names = { name: 'fast', accelerator: 'a', version: '1' };
  const { app } = makeApp({ engine: () => ({ ...names, state: 'chosen', reason: 'it works', tried: [] }) });
  t.match(await ask(app, 'GET', '/healthz'), { status: 200, body: { status: 'ok', engine: 'chosen' } });
  t.match(await ask(app, 'GET', '/whoami'), { status: 200, body: { scoped: false } });
  const { body, status, headers } = await ask(app, 'GET', '/profiles');
  t.equal(status, 200);
  t.match(headers.get('content-type'), /^application\/json/);
  t.same(body, {
    profiles: ['base'],
    default: 'base',
    details: {
      base: {
        digest: 'ab12',
        size_bytes: 1024,
        workdir: '/',
        env: { LANG: 'C.UTF-8' },
        packages: { bash: '5.2' },
      },
    },
    engine: { ...names, state: 'chosen', reason: 'it works', tried: [] },
  });
});

t.test('HEAD works where GET does, without a body', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  for (const path of ['/healthz', '/profiles', '/whoami', '/sandboxes', `/sandboxes/${id}`]) {
    t.match(await ask(app, 'HEAD', path), { status: 200, body: '' }, path);
  }
  t.match(await ask(app, 'HEAD', `/sandboxes/${UNKNOWN_ID}`), { status: 404, body: '' });
});

t.test('unknown paths are 404, known ones with the wrong method 405 with Allow', async (t) => {
  const { app } = makeApp();
  const paths = [
    '/',
    '/nope',
    '/sandboxes/',
    `/sandboxes/${UNKNOWN_ID}/nope`,
    '/healthz/x',
    '/%ff',
    '/Sandboxes',
  ];
  for (const path of paths) {
    const answer = await ask(app, 'GET', path);
    t.match(answer, { status: 404, error: /^no such path: / }, path);
  }
  const wrong = [
    ['POST', '/healthz', 'GET, HEAD'],
    ['DELETE', '/profiles', 'GET, HEAD'],
    ['PUT', '/sandboxes', 'DELETE, GET, HEAD, POST'],
    ['POST', '/sandboxes/malformed', 'DELETE, GET, HEAD, PATCH'],
    ['DELETE', `/sandboxes/${UNKNOWN_ID}/exec`, 'GET, HEAD, POST'],
    ['OPTIONS', '/sandboxes', 'DELETE, GET, HEAD, POST'],
    ['PUT', '/snapshots/import', 'POST'],
    ['GET', '/snapshots/import', 'POST'],
    ['PUT', `/sandboxes/${UNKNOWN_ID}`, 'DELETE, GET, HEAD, PATCH'],
    ['GET', `/sandboxes/${UNKNOWN_ID}/pause`, 'POST'],
    ['PUT', `/sandboxes/${UNKNOWN_ID}/resume`, 'POST'],
  ] as const;
  for (const [method, path, allow] of wrong) {
    const { status, headers, error } = await ask(app, method, path);
    t.equal(status, 405, `${method} ${path}`);
    t.equal(headers.get('allow'), allow, `${method} ${path}`);
    t.match(error, `${method} is not allowed on ${path}`);
  }
});

t.test('a sandbox is created, listed, shown and deleted', async (t) => {
  const { app, sandboxes } = makeApp();
  t.same((await ask(app, 'GET', '/sandboxes')).body, { sandboxes: [] });
  const created = await ask(app, 'POST', '/sandboxes', '{"vcpus": 2, "unheard_of": [1]}');
  t.equal(created.status, 201);
  const { warnings, ...sandbox } = created.body as { id: string; warnings: string[] };
  const { id } = sandbox;
  t.same(warnings, ['unknown field unheard_of']);
  t.match(sandbox, { id, state: 'running', created_at: '2024-05-06T07:08:09.010Z', memory_mib: 512 });
  t.same((await ask(app, 'GET', '/sandboxes')).body, { sandboxes: [sandbox] });
  t.same((await ask(app, 'GET', `/sandboxes/${id}`)).body, sandbox);
  t.match(await ask(app, 'DELETE', `/sandboxes/${id}`), { status: 204, body: '' });
  t.match(await ask(app, 'DELETE', `/sandboxes/${id}`), {
    status: 404,
    error: `sandbox ${id} does not exist`,
  });
  t.same(sandboxes.list(), []);
});

t.test('every way of saying nothing means the defaults', async (t) => {
  const { app, sandboxes } = makeApp();
  const empty = {
    vcpus: undefined,
    memoryMib: undefined,
    diskBytes: undefined,
    timeoutS: 0,
    bootArgs: '',
    labels: {},
    env: {},
    ifExists: 'error',
  };
  const silent =
    '{"profile":"","vcpus":null,"network":{"enabled":false},"publish":[],"pull":"","service":null}';
  for (const body of [undefined, '', ' \r\n', '{}', 'null', silent]) {
    t.equal((await ask(app, 'POST', '/sandboxes', body)).status, 201, body ?? 'no body');
    t.same(sandboxes.created.at(-1), empty);
  }
  const full = {
    profile: 'x',
    vcpus: 32,
    memory_mib: 128,
    disk_bytes: 2 ** 26,
    timeout_s: 0,
    boot_args: 'a b=c',
  };
  t.equal((await ask(app, 'POST', '/sandboxes', JSON.stringify(full))).status, 201);
  t.same(sandboxes.created.at(-1), {
    rootfs: { kind: 'profile', name: 'x' },
    vcpus: 32,
    memoryMib: 128,
    diskBytes: 2 ** 26,
    timeoutS: 0,
    bootArgs: 'a b=c',
    labels: {},
    env: {},
    ifExists: 'error',
  });
});

t.test('bad create bodies are refused by field, value and expectation', async (t) => {
  const { app, sandboxes } = makeApp();
  const cases: [string, RegExp][] = [
    ['{"vcpus": -1}', /^vcpus must be an integer from 1 to 32, got -1$/],
    ['{"vcpus": 33}', /^vcpus must be .*, got 33$/],
    ['{"vcpus": 1.5}', /^vcpus must be an integer .*, got 1.5$/],
    ['{"vcpus": "4"}', /^vcpus must be an integer .*, got "4"$/],
    ['{"vcpus": true}', /^vcpus must be an integer .*, got true$/],
    ['{"vcpus": 1e300}', /^vcpus must be an integer .*, got 1e\+300$/],
    ['{"memory_mib": 127}', /^memory_mib must be an integer from 128 to 65536, got 127$/],
    ['{"memory_mib": 65537}', /^memory_mib /],
    ['{"memory_mib": -512}', /^memory_mib .*, got -512$/],
    [
      '{"disk_bytes": 67108863}',
      /^disk_bytes must be an integer from 67108864 to 1099511627776, got 67108863$/,
    ],
    ['{"disk_bytes": "4GiB"}', /^disk_bytes .*, got "4GiB"$/],
    ['{"timeout_s": -1}', /^timeout_s must be an integer from 0 to 2147483647 seconds, 0 for none, got -1$/],
    ['{"boot_args": 7}', /^boot_args must be a string, got 7$/],
    ['{"boot_args": "a\\nb"}', /^boot_args must be one line of printable ASCII/],
    ['{"profile": ["base"]}', /^profile must be a profile name, got \["base"\]$/],
    ['{"pull": "sometimes"}', /^pull must be one of missing, always, never, got "sometimes"$/],
    ['{"network": "on"}', /^network must be an object, got "on"$/],
    ['{"network": {"enabled": 1}}', /^network.enabled must be true or false, got 1$/],
    ['{"publish": {}}', /^publish must be an array of port mappings, got \{\}$/],
    ['{"profile":"base","image":{"oci":"nginx"}}', /^profile and image exclude each other/],
    ['{"vcpus":-1,"memory_mib":"x"}', /^vcpus must .*, got -1; memory_mib must .*, got "x"$/],
    ['[1]', /^the body must be a JSON object, got \[1\]$/],
    ['"text"', /^the body must be a JSON object, got "text"$/],
    ['7', /^the body must be a JSON object, got 7$/],
    ['{"vcpus": 1,}', /^the body is not valid JSON: unexpected "}" at line 1, column 13$/],
    ['{\n  "vcpus" 1}', /^the body is not valid JSON: unexpected "1" at line 2, column 11$/],
    ['{"vcpus": ', /^the body is not valid JSON: unexpected end at line 1, column 11$/],
    ['{"a": "b', /unfinished or invalid string at line 1, column 7$/],
    ['{} x', /unexpected "x" at line 1, column 4$/],
    ['{"a": 01}', /unexpected "1" at line 1, column 8$/],
    ["{'a': 1}", /unexpected "'" at line 1, column 2$/],
    ['['.repeat(500_000), /^the body is nested more than 100 levels deep/],
  ];
  for (const [body, pattern] of cases) {
    const { status, error } = await ask(app, 'POST', '/sandboxes', body);
    t.equal(status, 400, body.slice(0, 60));
    t.match(error, pattern);
  }
  t.match(await ask(app, 'POST', '/sandboxes', Buffer.from([0x7b, 0xff, 0x7d])), {
    status: 400,
    error: /not valid UTF-8/,
  });
  t.same(sandboxes.created, [], 'nothing was created');
});

t.test('a body that is nested too deeply is 400', async (t) => {
  const { app } = makeApp();
  const deep = `${'[{"a":'.repeat(50_000)}1${'}]'.repeat(50_000)}`;
  for (const body of [deep, `{"vcpus": ${deep}}`])
    t.match(await ask(app, 'POST', '/sandboxes', body), {
      status: 400,
      error: /^the body is nested more than 100 levels deep/,
    });
});

t.test("the daemon's own limits are in the message", async (t) => {
  const { app } = makeApp({
    limits: { vcpus: 2, memoryMib: 256, diskBytes: 2 ** 30, sandboxes: 8, fork: 64 },
  });
  t.match(
    (await ask(app, 'POST', '/sandboxes', '{"vcpus": 3}')).error,
    'vcpus must be an integer from 1 to 2, got 3',
  );
  t.match((await ask(app, 'POST', '/sandboxes', '{"memory_mib": 512}')).error, 'from 128 to 256, got 512');
});

t.test('what this daemon cannot do is 501, never left out silently', async (t) => {
  const { app, sandboxes } = makeApp();
  const bodies = ['{"image":{"oci":"nginx"}}'];
  for (const body of bodies)
    t.match(await ask(app, 'POST', '/sandboxes', body), { status: 501, error: /not enabled/ });
  t.same(sandboxes.created, []);
});

t.test(
  'malformed ids are 400 before anything else of the request, unknown ones 404 after the body',
  async (t) => {
    const { app } = makeApp();
    const bad = [
      'x',
      'sbx_',
      'sbx_0123456789ab',
      'sbx_0123456789abcd',
      'sbx_0123456789abz',
      'SBX_0123456789abc',
    ];
    const more = ['snap_0123456789abc', 'sbx_0123456789aB%2F', '..%2f..%2fetc', '%2500'];
    for (const id of [...bad, ...more]) {
      for (const [method, path] of [
        ['GET', `/sandboxes/${id}`],
        ['DELETE', `/sandboxes/${id}`],
        ['POST', `/sandboxes/${id}/exec`],
        ['GET', `/sandboxes/${id}/exec`],
      ] as const) {
        const answer = await ask(app, method, path, method === 'POST' ? '{broken' : undefined);
        t.match(
          answer,
          { status: 400, error: /^sandbox id ".*" is malformed; expected sbx_/ },
          `${method} ${path}`,
        );
      }
    }
    t.equal((await ask(app, 'GET', `/sandboxes/${UNKNOWN_ID}`)).status, 404);
    t.equal((await ask(app, 'POST', `/sandboxes/${UNKNOWN_ID}/exec`, '{"cmd":[]}')).status, 400);
    t.equal((await ask(app, 'POST', `/sandboxes/${UNKNOWN_ID}/exec`, '{"cmd":["x"]}')).status, 404);
  },
);

t.test('bodies over 1 MiB are 413, at the limit they are read', async (t) => {
  const { app } = makeApp();
  const atLimit = `{}${' '.repeat(2 ** 20 - 2)}`;
  t.equal((await ask(app, 'POST', '/sandboxes', atLimit)).status, 201);
  t.match(await ask(app, 'POST', '/sandboxes', `${atLimit} `), {
    status: 413,
    error: /^the body is over 1048576 bytes/,
  });
  let pulls = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      pulls++;
      controller.enqueue(new Uint8Array(65_536).fill(0x20));
    },
  });
  t.equal((await ask(app, 'POST', '/sandboxes', endless)).status, 413);
  t.ok(pulls < 25, `an endless body was read for ${pulls} chunks only`);
});

t.test('a body that stops in its middle is 408', async (t) => {
  const { app } = makeApp({ bodyIdleMs: 30 });
  const stuck = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(new Uint8Array(1)),
  });
  t.match(await ask(app, 'POST', '/sandboxes', stuck), { status: 408, error: /stopped for 30 ms/ });
});

t.test('every code of the catalogue has its status', async (t) => {
  const { app, sandboxes, lines } = makeApp();
  const statuses: Record<ErrorCode, number> = {
    invalid_argument: 400,
    unauthenticated: 401,
    forbidden: 403,
    not_found: 404,
    gone: 410,
    conflict: 409,
    paused: 409,
    precondition_failed: 412,
    too_large: 413,
    idempotency_mismatch: 422,
    internal: 500,
    unsupported: 501,
    upstream: 502,
    guest_unreachable: 502,
    port_not_listening: 502,
    port_failed: 502,
    exhausted: 503,
    cancelled: 503,
    port_timeout: 504,
  };
  for (const [code, status] of Object.entries(statuses)) {
    sandboxes.onCreate = async () => {
      throw new AppError(code as ErrorCode, `failed as ${code}`, {
        retryAfterS: 9,
        cause: new Error('secret'),
      });
    };
    const answer = await ask(app, 'POST', '/sandboxes');
    t.equal(answer.status, status, code);
    t.same(answer.body, { error: `failed as ${code}`, code });
    t.equal(answer.headers.get('retry-after'), status === 503 ? '9' : null, code);
    t.equal(answer.headers.get('www-authenticate'), status === 401 ? 'Bearer' : null, code);
  }
  const failed = lines.filter(({ level }) => level === 50).map(({ status }) => status);
  t.same(failed, [500, 502, 502], 'only failures of ours are logged as errors');
});

t.test('an unforeseen failure shows nothing of itself but is in the log', async (t) => {
  const { app, sandboxes, lines } = makeApp();
  sandboxes.onCreate = async () => {
    throw new TypeError('secret of /root/key');
  };
  const { status, error, headers } = await ask(app, 'POST', '/sandboxes');
  t.equal(status, 500);
  const requestId = headers.get('x-request-id');
  t.equal(error, `internal error; the daemon's log says more under request id ${requestId}`);
  t.match(lines.at(-1), { level: 50, requestId, err: { message: 'secret of /root/key' } });
});

t.test('request ids: given ones are kept when sane, each line carries them', async (t) => {
  const { app, lines } = makeApp();
  const request = (id: string) => app.request('/whoami', { headers: { 'X-Request-Id': id } });
  t.equal((await request('abc-1.2:3_4')).headers.get('x-request-id'), 'abc-1.2:3_4');
  t.match(lines.at(-1), { requestId: 'abc-1.2:3_4', method: 'GET', path: '/whoami', status: 200 });
  for (const bad of ['a b', '"', 'x'.repeat(129), '{}'])
    t.match((await request(bad)).headers.get('x-request-id'), /^req_[0-9a-v]{13}$/);
  t.match((await ask(app, 'GET', '/nope')).headers.get('x-request-id'), /^req_/, 'on errors, too');
  await ask(app, 'GET', `/sandboxes/${UNKNOWN_ID}`);
  t.match(lines.at(-1), { sandbox: UNKNOWN_ID, status: 404, reason: /does not exist/ });
});

t.test('a client that leaves cancels its create', async (t) => {
  const { app, sandboxes, lines } = makeApp();
  const client = new AbortController();
  sandboxes.onCreate = (_options, signal) =>
    new Promise((_, reject) => {
      signal?.addEventListener('abort', () => reject(signal.reason));
      client.abort();
    });
  const response = await app.request('/sandboxes', { method: 'POST', signal: client.signal });
  t.equal(response.status, 503);
  t.match(lines.at(-1), { level: 30, reason: 'the client left before the answer' });
});
