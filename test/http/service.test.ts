// The service's and the logs' routes over fake sandboxes: bodies, queries, shapes, statuses.
import { EXEC_FRAME, type ServiceSpec } from '@sandboxd/api';
import type { ServiceRecord } from '@sandboxd/proto';
import t from 'tap';
import type {
  OutputEvents,
  ServiceOutputRequest,
  ServiceStatus,
} from '../../host-agent/src/guest/service.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import type { LogQuery } from '../../host-agent/src/logs/index.ts';
import { ask, decodeFrames, makeApp, UNKNOWN_ID } from './support.ts';

const RING = { id: 'ab'.repeat(8), firstSeq: 0, nextSeq: 2, droppedRecords: 0, droppedBytes: 0 };

t.test('a spec is checked, its defaults are echoed', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const specs: ServiceSpec[] = [];
  sandboxes.serviceCalls.configure = async (spec) => {
    specs.push(spec);
    return { state: 'running', spec, restarts: 0, ring: RING, pid: 5 };
  };
  const put = (body: unknown) => ask(app, 'PUT', `/sandboxes/${id}/service`, JSON.stringify(body));
  const { status, body } = await put({
    cmd: ['run'],
    cwd: '',
    env: null,
    user: '',
    stop_signal: '',
    restart: { policy: '', max_retries: 0 },
    log_buffer_bytes: 0,
  });
  t.equal(status, 200);
  t.same(body, {
    state: 'running',
    pid: 5,
    restarts: 0,
    spec: {
      cmd: ['run'],
      log_buffer_bytes: 2_097_152,
      restart: { policy: 'never' },
      stop_grace_s: 10,
      stop_signal: 'SIGTERM',
    },
    log_dropped_bytes: 0,
    log_first_seq: 0,
    log_next_seq: 2,
  });
  const full = {
    cmd: ['a', ''],
    cwd: '/w',
    env: { A: '=' },
    env_exact: true,
    log_buffer_bytes: 16 * 2 ** 20,
    restart: { policy: 'on-failure', max_retries: 3 },
    stop_grace_s: 1,
    stop_signal: 'SIGUSR1',
    user: 'a:b',
  };
  t.same(((await put(full)).body as { spec: unknown }).spec, full);
  for (const [wrong, pattern] of [
    [{}, /cmd/],
    [{ cmd: null }, /cmd/],
    [{ cmd: [] }, /cmd/],
    [{ cmd: [''] }, /cmd/],
    [{ cmd: ['a\0'] }, /cmd\[0\]/],
    [{ cmd: ['a'], cwd: 'rel' }, /cwd/],
    [{ cmd: ['a'], env: { 'B=': 'x' } }, /env/],
    [{ cmd: ['a'], stop_signal: 'TERM' }, /stop_signal/],
    [{ cmd: ['a'], stop_signal: 'SIGRTMIN+31' }, /stop_signal/],
    [{ cmd: ['a'], stop_grace_s: -1 }, /stop_grace_s/],
    [{ cmd: ['a'], restart: { policy: 'maybe' } }, /restart\.policy/],
    [{ cmd: ['a'], restart: { policy: 'always', max_retries: 1 } }, /max_retries/],
    [{ cmd: ['a'], restart: { max_retries: 1 } }, /max_retries/],
    [{ cmd: ['a'], log_buffer_bytes: 2 ** 24 + 1 }, /log_buffer_bytes/],
    [{ cmd: ['a'], env_exact: 1 }, /env_exact/],
  ] as const) {
    const answer = await put(wrong);
    t.equal(answer.status, 400, JSON.stringify(wrong));
    t.match(answer.error, pattern);
  }
  t.equal(specs.length, 2);
});

t.test('a create carries its service, checked as a PUT is', async (t) => {
  const { app, sandboxes } = makeApp();
  const create = (service: unknown) => ask(app, 'POST', '/sandboxes', JSON.stringify({ service }));
  t.equal((await create({ cmd: ['run'], user: 'nobody' })).status, 201);
  t.match(sandboxes.created[0]?.service, { cmd: ['run'], user: 'nobody', stop_grace_s: 10 });
  t.match(await create({ cmd: [] }), { status: 400, error: /service\.cmd/ });
  t.equal((await create(null)).status, 201);
  t.equal(sandboxes.created[1]?.service, undefined);
});

t.test('start, stop and restart pass on their parameters', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const calls: unknown[] = [];
  const status: ServiceStatus = {
    state: 'stopped',
    lastExit: { exitCode: 143, signal: 'SIGTERM', durationMs: 5 },
    lastExitUnixMs: 7,
    isLastExitRequested: true,
    startedUnixMs: 2,
  };
  sandboxes.serviceCalls = {
    status: async () => ({ state: 'idle' }),
    start: async () => {
      throw new AppError('conflict', 'no service is configured; configure one first');
    },
    stop: async (graceMs) => {
      calls.push(graceMs);
      return status;
    },
    restart: async () => ({ ...status, state: 'backing_off' }),
  };
  const path = `/sandboxes/${id}/service`;
  t.same((await ask(app, 'GET', path)).body, { state: 'idle' });
  t.match(await ask(app, 'POST', `${path}/start`), { status: 409, error: /no service/ });
  t.same((await ask(app, 'POST', `${path}/stop`)).body, {
    state: 'stopped',
    started_at_unix_ms: 2,
    last_exit: { exit_code: 143, duration_ms: 5, signal: 'SIGTERM' },
    last_exit_at_unix_ms: 7,
    last_exit_requested: true,
  });
  await ask(app, 'POST', `${path}/stop`, '{"grace_s": 0}');
  await ask(app, 'POST', `${path}/stop`, '{"grace_s": 3, "other": 1}');
  t.same(calls, [undefined, undefined, 3000]);
  t.match(await ask(app, 'POST', `${path}/stop`, '{"grace_s": -1}'), { status: 400, error: /grace_s/ });
  t.match((await ask(app, 'POST', `${path}/restart`)).body, { state: 'backing_off' });
  for (const [method, rest] of [
    ['GET', ''],
    ['POST', '/start'],
    ['POST', '/stop'],
    ['POST', '/restart'],
    ['GET', '/logs'],
  ] as const) {
    t.equal((await ask(app, method, `/sandboxes/${UNKNOWN_ID}/service${rest}`)).status, 404);
    t.equal((await ask(app, method, `/sandboxes/nonsense/service${rest}`)).status, 400);
  }
});

t.test('output comes as frames or as a page', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  const requests: ServiceOutputRequest[] = [];
  let consumed = 0;
  const records: ServiceRecord[] = [
    { kind: 'ring', seq: 0, id: RING.id },
    { kind: 'gap', seq: 4, records: 4, bytes: 40 },
    { kind: 'output', stream: 'stdout', seq: 4, unixMs: 1, data: Buffer.from('out\n') },
    { kind: 'output', stream: 'stderr', seq: 5, unixMs: 2, data: Buffer.from('err\n') },
    { kind: 'gap', seq: 9, records: 3, bytes: 30 },
    { kind: 'output', stream: 'stdout', seq: 9, unixMs: 3, data: Buffer.from('last') },
  ];
  let script = (events: OutputEvents): void => {
    events.records(records, 100);
    events.end({ ring: { ...RING, firstSeq: 4 }, nextSeq: 10 });
  };
  sandboxes.serviceCalls.output = (request, events) => {
    requests.push(request);
    queueMicrotask(() => script(events));
    return {
      consumed: (bytes) => {
        consumed += bytes;
      },
      cancel: () => {},
    };
  };
  const path = `/sandboxes/${id}/service/logs`;
  const response = await app.request(`${path}?follow=0`);
  t.equal(response.headers.get('content-type'), 'application/octet-stream');
  const frames = decodeFrames(new Uint8Array(await response.arrayBuffer()));
  t.same(
    frames.map(({ type, payload }) => [type, payload.toString()]),
    [
      [EXEC_FRAME.stdout, 'out\n'],
      [EXEC_FRAME.stderr, 'err\n'],
      [EXEC_FRAME.stderr, '\n[sandboxd: 30 bytes of output were dropped here]\n'],
      [EXEC_FRAME.stdout, 'last'],
    ],
  );
  t.match(requests.pop(), { isFollowing: false, isWaiting: false });
  t.equal(consumed, 100);
  const page = {
    records: [
      { seq: 4, stream: 'stdout', unix_ms: 1, data: 'b3V0Cg==' },
      { seq: 5, stream: 'stderr', unix_ms: 2, data: 'ZXJyCg==' },
      { seq: 9, stream: 'stdout', unix_ms: 3, data: 'bGFzdA==' },
    ],
    next_seq: 10,
    first_seq: 4,
    dropped_records: 7,
    dropped_bytes: 70,
  };
  t.same((await ask(app, 'GET', `${path}?from_seq=0`)).body, page);
  t.match(requests.pop(), { fromSeq: 0, maxBytes: 262_144, isFollowing: false });
  t.same((await ask(app, 'GET', `${path}?max_bytes=99999999`)).body, page);
  t.match(requests.pop(), { maxBytes: 1_048_576 });
  const json = await app.request(path, { headers: { accept: 'application/json' } });
  t.same(await json.json(), page);
  const lines = await app.request(`${path}?follow=0&from_seq=4&ring=${RING.id}`, {
    headers: { accept: 'application/x-ndjson' },
  });
  t.equal(lines.headers.get('content-type'), 'application/x-ndjson');
  t.same(
    (await lines.text())
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
    [
      { seq: 0, ring: RING.id },
      { seq: 4, dropped_records: 4, dropped_bytes: 40 },
      { seq: 4, stream: 'stdout', unix_ms: 1, data: 'b3V0Cg==' },
      { seq: 5, stream: 'stderr', unix_ms: 2, data: 'ZXJyCg==' },
      { seq: 9, dropped_records: 3, dropped_bytes: 30 },
      { seq: 9, stream: 'stdout', unix_ms: 3, data: 'bGFzdA==' },
    ],
  );
  t.match(requests.pop(), { ring: RING.id, fromSeq: 4, isFollowing: false, isWaiting: false });
  t.match(await ask(app, 'GET', `${path}?ring=x`), { status: 400, error: /ring must be/ });
  for (const query of ['from_seq=-1', 'from_seq=x', 'max_bytes=0', 'max_bytes=1.5']) {
    t.match(
      await ask(app, 'GET', `${path}?${query}`),
      { status: 400, error: /must be a whole number/ },
      query,
    );
  }
  script = (events) => events.end({ ring: RING, nextSeq: 2 });
  t.same((await ask(app, 'GET', `${path}?from_seq=2`)).body, { records: null, next_seq: 2, first_seq: 0 });
  script = (events) => events.failed(new AppError('conflict', 'no service is configured'));
  t.equal((await ask(app, 'GET', path)).status, 409);
  t.equal((await ask(app, 'GET', `${path}?from_seq=0`)).status, 409);
});

t.test('the durable log', async (t) => {
  const queries: LogQuery[] = [];
  const gone = 'sbx_vvvvvvvvvvvvv';
  const logs = {
    read: async (id: string, query: LogQuery) => {
      queries.push(query);
      const record = { source: 'exec', stream: 'event', timeMs: 5, text: 'exit 0' } as const;
      return id === gone ? { nextOffset: 70, records: [record] } : undefined;
    },
  };
  const { app, sandboxes } = makeApp({ logs });
  t.same((await ask(app, 'GET', `/sandboxes/${gone}/logs?since=12&source=exec`)).body, {
    next_offset: 70,
    records: [{ source: 'exec', stream: 'event', text: 'exit 0', time_ms: 5 }],
  });
  await ask(app, 'GET', `/sandboxes/${gone}/logs?since=-1&source=all`);
  t.same(queries, [{ since: 12, source: 'exec' }, {}]);
  t.equal((await ask(app, 'GET', `/sandboxes/${UNKNOWN_ID}/logs`)).status, 404);
  const { id } = sandboxes.add();
  t.same((await ask(app, 'GET', `/sandboxes/${id}/logs`)).body, { next_offset: 0, records: [] });
  for (const query of ['since=-2', 'since=abc', 'source=nothing']) {
    t.equal((await ask(app, 'GET', `/sandboxes/${id}/logs?${query}`)).status, 400, query);
  }
  t.equal((await ask(app, 'GET', '/sandboxes/x/logs')).status, 400);
  t.equal((await ask(makeApp().app, 'GET', `/sandboxes/${gone}/logs`)).status, 501);
});
