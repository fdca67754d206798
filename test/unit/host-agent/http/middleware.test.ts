// What is known of each request beside its answer: its line in the log, its numbers, its part of a trace, its lines of audit.
import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { PassThrough } from 'node:stream';
import { pino } from 'pino';
import t from 'tap';
import type { AuditEntry } from '../../../../host-agent/src/audit/index.ts';
import { Authenticator } from '../../../../host-agent/src/http/authentication.ts';
import { HttpError, toErrorAnswer } from '../../../../host-agent/src/http/errors.ts';
import { auditRefusal, resolveRequestId } from '../../../../host-agent/src/http/middleware.ts';
import { findRoute, toPath } from '../../../../host-agent/src/http/serve-routes.ts';
import type { HttpServices } from '../../../../host-agent/src/http/services.ts';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import type { RequestFacts } from '../../../../host-agent/src/telemetry/telemetry.ts';
import { makeApp, UNKNOWN_ID } from '../../../http/support.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { CALLER, keysOf } from './callers.ts';

/** The app with everything that looks at requests; what each of them was told. */
function watched(changes: Partial<HttpServices> = {}) {
  const audited: AuditEntry[] = [];
  const counted: unknown[] = [];
  const spans: unknown[] = [];
  const app = makeApp({
    audit: { write: (entry) => void audited.push(entry) },
    metrics: {
      open: {
        inc: ({ operation }: { operation: string }) => counted.push(`+${operation}`),
        dec: ({ operation }: { operation: string }) => counted.push(`-${operation}`),
      },
      answered: (operation: string, status: number, seconds: number) => {
        if (!(seconds >= 0 && seconds < 60)) throw new Error(`${seconds} s`);
        counted.push(`${operation} ${status}`);
      },
    } as unknown as HttpServices['metrics'],
    telemetry: {
      begin: ({ header, ...facts }: RequestFacts) => {
        spans.push({ ...facts, parent: header('traceparent') });
        return {
          traceId: facts.path === '/untraced' ? '' : 'ab12',
          within: <T>(work: () => T): T => {
            spans.push('within');
            return work();
          },
          end: (status: number) => spans.push(status),
        };
      },
    } as unknown as HttpServices['telemetry'],
    ...changes,
  });
  return { ...app, audited, counted, spans };
}

/** As if there were a server. */
function connection(headers: Record<string, string> = {}) {
  const socket = Object.assign(new PassThrough(), { remoteAddress: '192.0.2.7' });
  const outgoing = new EventEmitter();
  return { incoming: { headers, socket } as unknown as IncomingMessage, outgoing, socket };
}

t.test('an answer that does not stream is one line of each kind', async (t) => {
  const { app, audited, counted, spans, lines, sandboxes } = watched();
  const { id } = sandboxes.add();
  const { incoming, outgoing } = connection({ 'x-request-id': 'mine', traceparent: '00-x' });
  await app.request(`/sandboxes/${id}?secret=1`, {}, { incoming, outgoing } as never);
  t.match(audited, [
    {
      event: 'request',
      request: 'mine',
      address: '192.0.2.7',
      route: 'getSandbox',
      operation: 'view',
      ids: [id],
      decision: 'allowed',
      status: 200,
    },
  ]);
  t.same(
    ['key', 'key_id', 'tenant', 'made', 'effective', 'reason'].filter((name) => name in (audited[0] ?? {})),
    [],
  );
  t.same(counted, ['+getSandbox', '-getSandbox', 'getSandbox 200']);
  t.same(spans, [
    {
      method: 'GET',
      route: '/sandboxes/:id',
      operation: 'getSandbox',
      path: `/sandboxes/${id}`,
      requestId: 'mine',
      address: '192.0.2.7',
      parent: '00-x',
    },
    'within',
    200,
  ]);
  const last = lines.at(-1) as Record<string, unknown>;
  t.match(last, {
    level: 30,
    msg: 'request',
    requestId: 'mine',
    traceId: 'ab12',
    method: 'GET',
    path: `/sandboxes/${id}`,
    status: 200,
  });
  t.notOk('reason' in last || 'err' in last);
  for (const ms of [last.ms, Reflect.get(audited[0] ?? {}, 'ms')])
    t.ok(
      Number(ms) >= 0 && Number(ms) < 60_000 && Number.isInteger(Math.round(Number(ms) * 1e6) / 1e5),
      `${ms}`,
    );
});

t.test(
  'a streaming response is logged at its start and at the end of its connection; a refusal once',
  async (t) => {
    for (const isTaken of [false, true]) {
      const { app, audited, counted, spans, sandboxes } = watched();
      const { id } = sandboxes.add();
      const { incoming, outgoing, socket } = connection();
      const takeover = isTaken ? { takeover: { incoming, socket, head: Buffer.alloc(0), lingerMs: 1 } } : {};
      const path = isTaken ? `/sandboxes/${id}/exec` : `/sandboxes/${id}/files?path=/a`;
      const name = findRoute('GET', toPath(path))?.name;
      const response = await app.request(path, {}, { incoming, outgoing, ...takeover } as never);
      t.equal(response.status, 200, path);
      t.match(audited, [{ event: 'begun', route: name }]);
      t.equal(audited.length, 1);
      t.same(counted, [`+${name}`]);
      t.equal(spans.at(-1), 'within');
      (isTaken ? socket : outgoing).emit('close');
      (isTaken ? socket : outgoing).emit('close');
      t.same(
        audited.map(({ event }) => event),
        ['begun', 'request'],
      );
      t.same(counted.slice(1), [`-${name}`, `${name} 200`]);
      t.equal(spans.at(-1), 200);
      counted.length = 0;
      await app.request(path.replace(id, UNKNOWN_ID), {}, { incoming, outgoing, ...takeover } as never);
      t.match(audited.slice(2), [{ event: 'request', status: 404 }]);
      t.same(counted, [`+${name}`, `-${name}`, `${name} 404`]);
      t.equal(spans.at(-1), 404);
    }
    const { app, audited, counted, sandboxes } = watched();
    const { id } = sandboxes.add();
    await app.request(`/sandboxes/${id}/files?path=/a`);
    t.match([audited.map(({ event }) => event), counted.length], [['request'], 3], 'without a server');
  },
);

t.test('unknown paths are one operation, public routes are not in the trail', async (t) => {
  const { app, audited, counted, spans, lines } = watched();
  await app.request('/untraced');
  t.match(audited, [{ event: 'request', status: 404, decision: 'allowed', address: 'local' }]);
  t.notOk(audited.some((entry) => 'route' in entry || 'operation' in entry || 'ids' in entry));
  t.same(counted, ['+unknown', '-unknown', 'unknown 404']);
  t.match(spans[0], { operation: undefined, route: undefined, path: '/untraced' });
  t.notOk('traceId' in (lines.at(-1) ?? {}));
  t.match(lines.at(-1), { level: 30, reason: /no such path/ });
  await app.request('/healthz');
  t.equal(audited.length, 1);
  t.match(lines.at(-1), { level: 20, path: '/healthz' });
  await app.request('/profiles/sbk_0123456789abcdef');
  t.equal(lines.at(-1)?.path, '/profiles/sbk_…');
  t.match(spans.at(-3), { path: '/profiles/sbk_…' });
  t.match(lines.at(-1)?.reason, /sbk_…/);
  const bare = watched({ telemetry: undefined });
  t.equal((await bare.app.request('/sandboxes')).status, 200);
});

t.test('a failure of the daemon is an error in the log, an expected one is not', async (t) => {
  const { app, sandboxes, lines, audited } = watched();
  const { id } = sandboxes.add();
  for (const [error, level, told] of [
    [new Error('secret'), 50, { err: { message: 'secret' } }],
    [new AppError('internal', 'broke'), 50, { err: { message: 'broke' } }],
    [new AppError('guest_unreachable', 'lost'), 50, { err: { message: 'lost' } }],
    [new AppError('exhausted', 'full'), 30, { reason: 'full' }],
    [new AppError('cancelled', 'left'), 30, { reason: 'left' }],
    [new AppError('unsupported', 'none'), 30, { reason: 'none' }],
    [new AppError('conflict', 'held'), 30, { reason: 'held' }],
  ] as const) {
    sandboxes.onDelete = () => Promise.reject(error);
    const response = await app.request(`/sandboxes/${id}`, { method: 'DELETE' });
    t.match(lines.at(-1), { level, status: response.status, ...told });
    t.equal('err' in (lines.at(-1) ?? {}), level === 50);
    t.match(audited.at(-1), { status: response.status, decision: 'allowed' });
    t.notOk('reason' in (audited.at(-1) ?? {}), 'it may quote what it was sent');
  }
});

t.test('how long a request took, in the unit of each', async (t) => {
  const seconds: number[] = [];
  const open = { inc: () => undefined, dec: () => undefined };
  const answered = (_operation: string, _status: number, took: number) => seconds.push(took);
  const { app, sandboxes, lines, audited } = watched({
    metrics: { open, answered } as unknown as HttpServices['metrics'],
  });
  const { id } = sandboxes.add();
  const clock = new FakeClock(t);
  sandboxes.onDelete = async () => {
    clock.nowMs += 12.34;
  };
  await app.request(`/sandboxes/${id}`, { method: 'DELETE' });
  t.same([lines.at(-1)?.ms, Reflect.get(audited[0] ?? {}, 'ms')], [12.3, 12.3]);
  t.equal(seconds[0]?.toFixed(6), '0.012340');
});

t.test('the trail has what was created, by which key, and why a request was refused', async (t) => {
  const { keys, uses } = keysOf({
    good: { state: 'valid', principal: CALLER },
    plain: {
      state: 'valid',
      principal: { kind: 'key', id: 'k2', key: 'plain', policy: { operations: ['read'] } },
    },
  });
  const authenticator = new Authenticator(keys, pino({ level: 'silent' }));
  const { app, audited, sandboxes } = watched({ authenticator });
  const { id } = sandboxes.add();
  const ask = (method: string, path: string, key?: string) =>
    app.request(path, { method, headers: key === undefined ? {} : { authorization: `Bearer ${key}` } });
  const made = (await (await ask('POST', `/sandboxes/${id}/snapshot`, 'good')).json()) as { id: string };
  t.match(audited.at(-1), { key: 'ci', key_id: 'k1', tenant: 'acme', made: [made.id], ids: [id] });
  t.same(uses, [[CALLER, 'local']]);
  t.equal(sandboxes.callers.at(-1), CALLER);
  t.equal((await ask('DELETE', `/sandboxes/${id}`, 'plain')).status, 403);
  t.match(audited.at(-1), { key: 'plain', decision: 'denied', reason: /./, operation: 'delete' });
  t.equal((await ask('GET', '/whoami', 'plain')).status, 200);
  t.notOk('operation' in (audited.at(-1) ?? {}), 'any key may');
  t.equal((await ask('GET', '/sandboxes')).status, 401);
  t.match(audited.at(-1), { decision: 'unauthenticated', reason: /^no key came/ });
  t.notOk('key' in (audited.at(-1) ?? {}));
  t.equal((await ask('GET', '/nothing')).status, 401, 'whatever the path');
  t.equal((await ask('GET', '/healthz')).status, 200);
  const long = `/sandboxes/${Array.from({ length: 9 }, (_, at) => `sbx_000000000000${at}`).join('snap_')}`;
  await ask('GET', long, 'good');
  const { ids } = audited.at(-1) as { ids: readonly string[] };
  t.same([ids.length, ids[0], ids[7]], [8, 'sbx_0000000000000', 'sbx_0000000000007']);
  const before = audited.length;
  const request = { method: 'DELETE', url: `/sandboxes/${id}?x`, socket: {} } as IncomingMessage;
  const sink = { write: (entry: AuditEntry) => void audited.push(entry) };
  auditRefusal(sink, request, new AppError('forbidden', 'n'.repeat(2000)), 'req_1');
  t.match(audited.slice(before), [
    {
      event: 'refused',
      request: 'req_1',
      address: 'local',
      route: 'deleteSandbox',
      operation: 'delete',
      ids: [id],
      decision: 'denied',
      reason: 'n'.repeat(1000),
      status: 403,
      ms: 0,
    },
  ]);
  auditRefusal(
    sink,
    { socket: { remoteAddress: '::1' } } as IncomingMessage,
    new HttpError('malformed', 'q'),
    'r',
  );
  t.match(audited.at(-1), { address: '::1', decision: 'allowed', status: 400 });
  t.notOk('route' in (audited.at(-1) ?? {}) || 'reason' in (audited.at(-1) ?? {}));
});

t.test('the id of a request is its client’s when it is a sane one', (t) => {
  for (const id of ['a', 'req:1.2-3_4', 'x'.repeat(128)]) t.equal(resolveRequestId(id), id);
  for (const id of [undefined, '', 'a b', 'ä', 'x'.repeat(129), 'a\n'])
    t.match(resolveRequestId(id), /^req_[0-9a-v]{13}$/);
  t.end();
});

t.test('a route is found by method and path, HEAD as GET; a target may name a host', (t) => {
  t.equal(findRoute('HEAD', '/sandboxes')?.name, 'listSandboxes');
  t.equal(findRoute('POST', '/sandboxes')?.name, 'createSandbox');
  t.equal(findRoute('PATCH', '/sandboxes'), undefined);
  t.equal(findRoute('GET', '/sandboxes/'), undefined);
  for (const [target, path] of [
    ['/a?b?c', '/a'],
    ['http://x/a', '/a'],
    ['HTTPS://x:1/a?b', '/a'],
    ['http://x?b', ''],
    ['/http://x/a', '/http://x/a'],
    ['x-http://y/a', 'x-http://y/a'],
    [undefined, ''],
  ])
    t.equal(toPath(target), path);
  t.end();
});

t.test('a failure as HTTP: its status, the fields of its kind, and no internals of a fault', (t) => {
  const answer = (error: unknown) => toErrorAnswer(error, 'req_1');
  t.same(answer(new HttpError('method_not_allowed', 'no', { Allow: 'GET' })), {
    status: 405,
    headers: { Allow: 'GET' },
    body: { error: 'no', code: 'method_not_allowed' },
  });
  t.same(answer(new HttpError('malformed', 'no')).headers, {});
  t.same(answer(new AppError('unauthenticated', 'no')).headers, { 'WWW-Authenticate': 'Bearer' });
  t.same(answer(new AppError('exhausted', 'no')).headers, { 'Retry-After': '5' });
  t.same(answer(new AppError('cancelled', 'no', { retryAfterS: 0 })).headers, { 'Retry-After': '0' });
  t.same(answer(new AppError('conflict', 'no', { retryAfterS: 3 })), {
    status: 409,
    headers: {},
    body: { error: 'no', code: 'conflict' },
  });
  const fault = answer(new Error('secret'));
  t.match(fault, { status: 500, headers: {}, body: { error: /request id req_1$/, code: 'internal' } });
  t.notMatch(fault.body.error, /secret/);
  t.equal(new HttpError('malformed', 'no').name, 'HttpError');
  t.end();
});

t.test('a line of the log is short, however long the path was', async (t) => {
  const { app, lines } = makeApp();
  for (const [method, path] of [
    ['GET', `/${'x'.repeat(14_000)}`],
    ['GET', `/images/${'a/'.repeat(7000)}`],
    ['GET', `/sandboxes/${'%41'.repeat(4500)}`],
    ['DELETE', `/sandboxes/${'y'.repeat(14_000)}/exec`],
  ] as const) {
    const before = lines.length;
    await app.request(path, { method });
    t.equal(lines.length, before + 1);
    t.ok(JSON.stringify(lines.at(-1)).length < 4000, `${JSON.stringify(lines.at(-1)).length} characters`);
  }
});
