// Strings and numbers of strangers: what Unicode, URLs and 64 bits allow, on every route that takes them.
import t from 'tap';
import type { LogQuery } from '../../host-agent/src/logs/index.ts';
import { outflow } from './fake-sandboxes.ts';
import { ask, makeApp } from './support.ts';

const SURROGATES = ['"\\ud800"', '"a\\udfffb"'];

t.test('a lone surrogate is 400 at once, by the name of its field', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  for (const bad of SURROGATES) {
    const fields = [
      ['cmd[0]', `{"cmd": [${bad}]}`],
      ['cmd[1]', `{"cmd": ["x", ${bad}]}`],
      ['env.A', `{"cmd": ["x"], "env": {"A": ${bad}}}`],
      ['env', `{"cmd": ["x"], "env": {${bad}: "1"}}`],
      ['cwd', `{"cmd": ["x"], "cwd": ${bad.replace('"', '"/')}}`],
      ['user', `{"cmd": ["x"], "user": ${bad}}`],
    ] as const;
    for (const [field, body] of fields) {
      for (const [method, path] of [
        ['POST', 'exec'],
        ['PUT', 'service'],
      ] as const) {
        const { status, error } = await ask(app, method, `/sandboxes/${id}/${path}`, body);
        t.equal(status, 400, `${path} ${body}`);
        t.ok(error.startsWith(`${field} must `), error);
      }
      const { status, error } = await ask(app, 'POST', '/sandboxes', `{"service": ${body}}`);
      t.equal(status, 400, body);
      t.ok(error.startsWith(`service.${field} must `), error);
    }
    for (const field of ['profile', 'boot_args'])
      t.match(await ask(app, 'POST', '/sandboxes', `{"${field}": ${bad}}`), {
        status: 400,
        error: `${field} must`,
      });
  }
  t.same(sandboxes.execs, []);
  t.same(sandboxes.created, []);
});

t.test(
  'a large body that is wrong everywhere gets one short answer, which says each thing once',
  async (t) => {
    const { app, sandboxes } = makeApp();
    const { id } = sandboxes.add();
    const env = Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`a=${at}`, 1]));
    for (const [method, path] of [
      ['POST', 'exec'],
      ['PUT', 'service'],
    ] as const) {
      const body = JSON.stringify({ cmd: ['x'], env });
      const { status, error } = await ask(app, method, `/sandboxes/${id}/${path}`, body);
      t.equal(status, 400);
      t.ok(error.startsWith('env must have names that are not empty'), error);
      t.ok(error.length < 1000, error);
    }
    const { error } = await ask(app, 'POST', '/sandboxes', '{"vcpus": 9223372036854775807}');
    t.equal(error.split('vcpus must be').length, 2, error);
  },
);

t.test('pairs of surrogates and everything else of Unicode arrive', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const text = '😀 ä \uffff \u{10ffff}';
  const body = JSON.stringify({ cmd: ['x', text], env: { [text]: text } });
  t.equal((await ask(app, 'POST', `/sandboxes/${id}/exec`, body)).status, 200);
  t.match(sandboxes.execs[0]!.request, { cmd: ['x', text], env: { [text]: text } });
});

t.test('"__proto__" is a name like any other', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const body = '{"cmd": ["x"], "env": {"__proto__": "1", "constructor": "2"}}';
  const expected = [
    ['__proto__', '1'],
    ['constructor', '2'],
  ];
  await ask(app, 'POST', `/sandboxes/${id}/exec`, body);
  t.same(Object.entries(sandboxes.execs[0]!.request.env), expected);
  await ask(app, 'POST', '/sandboxes', `{"service": ${body}}`);
  t.same(Object.entries(sandboxes.created[0]!.service!.env), expected);
  sandboxes.serviceCalls.configure = async (spec) => ({ state: 'running', spec });
  const response = await app.request(`/sandboxes/${id}/service`, { method: 'PUT', body });
  t.match(await response.text(), '"env":{"__proto__":"1","constructor":"2"}');
  const bad = '{"cmd": ["x"], "env": {"__proto__": 7}}';
  t.match(await ask(app, 'POST', `/sandboxes/${id}/exec`, bad), {
    status: 400,
    error: /^env.__proto__ must be a string, got 7$/,
  });
});

t.test('a malformed user is 400, of a service and of an exec', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.serviceCalls.configure = async (spec) => ({ state: 'running', spec });
  const send = async (user: string) => {
    const spec = { cmd: ['x'], user };
    const answers = [
      await ask(app, 'PUT', `/sandboxes/${id}/service`, JSON.stringify(spec)),
      await ask(app, 'POST', '/sandboxes', JSON.stringify({ service: spec })),
      await ask(app, 'POST', `/sandboxes/${id}/exec`, JSON.stringify(spec)),
    ];
    for (const { status, error } of answers) if (status === 400) t.match(error, /user must be name\|uid/);
    return answers.map(({ status }) => status);
  };
  for (const user of ['a:b:c', 'a:', ':b', ':', '::', 'a::b'])
    t.same(await send(user), [400, 400, 400], user);
  for (const user of ['', 'a', 'a:b', '0:0', 'www-data', 'a b'])
    t.same(await send(user), [200, 201, 200], user);
});

t.test('a NUL and a bad escape are named as that, in paths and queries', async (t) => {
  const { app, sandboxes } = makeApp({ logs: { read: async () => ({ nextOffset: 0, records: [] }) } });
  const { id } = sandboxes.add();
  const at = `/sandboxes/${id}`;
  for (const [method, path, pattern] of [
    ['GET', `${at}/files?path=/a%00b`, /^query path has a NUL character/],
    ['POST', `${at}/files?path=/a%00b`, /^query path has a NUL character/],
    ['GET', `${at}/files?path=/a%zz`, /^query path has a bad % escape, "%zz"; write % itself as %25$/],
    ['GET', `${at}/files?path=/100%`, /^query path has a bad % escape, "%"; /],
    ['GET', `${at}/files?path=/%C3`, /^query path has a bad % escape, "%C3", which is not UTF-8; /],
    ['GET', `${at}/files?path=/%ED%A0%80`, /^query path has a bad % escape/],
    ['GET', `${at}/files?path=/x&format=%zz`, /^query format has a bad % escape/],
    ['GET', `${at}/files?path=/x&max_bytes=%zz`, /^query max_bytes has a bad % escape/],
    ['GET', `${at}/logs?since=%zz`, /^query since has a bad % escape/],
    ['GET', `${at}/logs?source=%00`, /^query source has a NUL/],
    ['GET', `${at}/service/logs?follow=%zz`, /^query follow has a bad % escape/],
    ['POST', `/snapshots/snap_0000000000000/fork?count=%zz`, /^query count has a bad % escape/],
    ['GET', '/sandboxes/%00', /^sandbox id has a NUL character/],
    ['GET', '/sandboxes/sbx_%zz', /^sandbox id has a bad % escape, "%zz"/],
    ['GET', '/sandboxes/%ff/logs', /^sandbox id has a bad % escape/],
    ['GET', '/snapshots/%00', /^snapshot id has a NUL character/],
  ] as const) {
    const answer = await ask(app, method, path);
    t.match(answer, { status: 400, error: pattern }, `${method} ${path}`);
  }
  const asked: string[] = [];
  sandboxes.onPull = async (path) => {
    asked.push(path);
    return { body: outflow() };
  };
  for (const query of [
    'path=/a%2525+b%2Bc',
    '%70ath=/x',
    'other=%zz&path=/%C3%A4&path=/second',
    'path=/a=b?c',
  ])
    t.equal((await ask(app, 'GET', `${at}/files?${query}`)).status, 200, query);
  t.same(asked, ['/a%25 b+c', '/x', '/ä', '/a=b?c']);
});

t.test('empty queries are absent, integers go up to 2^63-1', async (t) => {
  const queries: LogQuery[] = [];
  const logs = {
    read: async (_id: string, query: LogQuery) => {
      queries.push(query);
      return { nextOffset: 7, records: [] };
    },
  };
  const { app, sandboxes } = makeApp({ logs });
  const { id } = sandboxes.add();
  const at = `/sandboxes/${id}`;
  const limits: unknown[] = [];
  sandboxes.onPull = async (_path, maxBytes) => {
    limits.push(maxBytes);
    return { body: outflow() };
  };
  for (const max of ['', '9223372036854775807', '0000000000000000000000000005'])
    t.equal((await ask(app, 'GET', `${at}/files?path=/x&format=&max_bytes=${max}`)).status, 200, max);
  t.same(limits, [10 * 2 ** 20, Number.MAX_SAFE_INTEGER, 5]);
  for (const max of ['9223372036854775808', '0', '-1', '1.5', '1e3', '0x10', ' 5', '+5'])
    t.match(
      await ask(app, 'GET', `${at}/files?path=/x&max_bytes=${max}`),
      { status: 400, error: /max_bytes/ },
      max,
    );

  for (const query of ['since=&source=', 'since=9223372036854775807', 'since=-1'])
    t.equal((await ask(app, 'GET', `${at}/logs?${query}`)).status, 200, query);
  t.same(queries, [{}, { since: Number.MAX_SAFE_INTEGER }, {}]);
  for (const since of ['9223372036854775808', '-2', '1.0'])
    t.match(await ask(app, 'GET', `${at}/logs?since=${since}`), { status: 400, error: /since/ }, since);

  const snapshot = await sandboxes.snapshot(id);
  const fork = (count: string) => ask(app, 'POST', `/snapshots/${snapshot.id}/fork?count=${count}`);
  t.match(await fork(''), { status: 201, body: { sandboxes: { length: 1 } } });
  t.match(await fork('9223372036854775807'), { status: 400, error: /count .* from 1 to 64/ });
});

t.test('forks come oldest first', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = await sandboxes.snapshot(sandboxes.add().id);
  const fork = sandboxes.fork.bind(sandboxes);
  sandboxes.fork = async (...call) =>
    (await fork(...call)).map((info, at) => ({ ...info, createdAt: new Date(5000 - at) }));
  const { body } = await ask(app, 'POST', `/snapshots/${id}/fork?count=3`);
  const times = (body as { sandboxes: { created_at: string }[] }).sandboxes.map((one) => one.created_at);
  t.same(times, times.toSorted());
});

t.test('a graceful stop of 0 s is the default', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const calls: unknown[] = [];
  sandboxes.serviceCalls.configure = async (spec) => ({ state: 'running', spec });
  sandboxes.serviceCalls.stop = async (graceMs) => {
    calls.push(graceMs);
    return { state: 'stopped' };
  };
  const put = await ask(app, 'PUT', `/sandboxes/${id}/service`, '{"cmd":["x"],"stop_grace_s":0}');
  t.match(put.body, { spec: { stop_grace_s: 10 } });
  for (const body of ['{"grace_s":0}', '{"grace_s":2}', '{"grace_s":null}', ''])
    t.equal((await ask(app, 'POST', `/sandboxes/${id}/service/stop`, body)).status, 200);
  t.same(calls, [undefined, 2000, undefined, undefined]);
});

t.test('a form, as curl -F makes it, is 415 that says what to send', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const form = new FormData();
  form.set('file', new Blob(['tar']), 'a.tar');
  for (const [method, path, instead] of [
    [
      'POST',
      `/sandboxes/${id}/files?path=/x`,
      /octet-stream' --data-binary @file does \(a tar archive, plain/,
    ],
    ['POST', '/images/import', /--data-binary @file does \(the archive\)$/],
    ['POST', '/snapshots/import', /--data-binary @file does \(the archive\)$/],
    ['POST', '/sandboxes', /send JSON, as curl -H 'Content-Type: application\/json' -d/],
    ['POST', `/sandboxes/${id}/exec`, /send JSON/],
    ['PUT', `/sandboxes/${id}/service`, /send JSON/],
  ] as const) {
    const answer = await app.request(path, { method, body: form });
    t.equal(answer.status, 415, path);
    const { error } = (await answer.json()) as { error: string };
    t.match(error, /^the body is a form, as curl -F makes it; send /);
    t.match(error, instead);
  }
  t.same(sandboxes.created, []);
});

t.test('a JSON body in a coding is 415', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const send = (method: string, path: string, coding: string) =>
    app.request(path, { method, body: '{"cmd":["x"]}', headers: { 'Content-Encoding': coding } });
  for (const [method, path] of [
    ['POST', '/sandboxes'],
    ['POST', `/sandboxes/${id}/exec`],
    ['PUT', `/sandboxes/${id}/service`],
    ['POST', '/images'],
  ] as const) {
    const answer = await send(method, path, 'gzip');
    t.equal(answer.status, 415, path);
    t.match(await answer.json(), { error: /^content-encoding "gzip" .*send the JSON as it is/ });
  }
  t.equal((await send('POST', '/sandboxes', 'identity')).status, 201);
  const push = await app.request(`/sandboxes/${id}/files?path=/x`, {
    method: 'POST',
    body: 'tar',
    headers: { 'Content-Encoding': 'gzip' },
  });
  t.equal(push.status, 200, 'archives may be gzip');
});

t.test('a push of nothing is an empty archive', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const pushed: Buffer[] = [];
  sandboxes.onPush = async (_path, read) => {
    const chunks: Uint8Array[] = [];
    for (let chunk = await read(); chunk !== undefined; chunk = await read()) chunks.push(chunk);
    pushed.push(Buffer.concat(chunks));
    return { files: 0, bytes: 0 };
  };
  for (const body of [undefined, '', 'x']) {
    const answer = await ask(app, 'POST', `/sandboxes/${id}/files?path=/x`, body);
    t.same([answer.status, answer.body], [200, { files: 0, bytes: 0 }]);
  }
  t.same(pushed, [Buffer.alloc(1024), Buffer.alloc(1024), Buffer.from('x')]);
});

t.test('where logs are off, the setting has its name', async (t) => {
  const { app, sandboxes } = makeApp();
  const { error } = await ask(app, 'GET', `/sandboxes/${sandboxes.add().id}/logs`);
  t.match(error, /--sandbox-logs on/);
});
