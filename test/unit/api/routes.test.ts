// The table against the interface's document and against what the daemon serves.
import {
  errorsOf,
  INTERFACE_LIMITS,
  OPERATION_ERRORS,
  OPERATIONS,
  ROUTES,
  type Route,
  routesWithin,
  toJsonSchema,
} from '@sandboxd/api';
import t from 'tap';
import { toErrorAnswer } from '../../../host-agent/src/http/errors.ts';
import { AppError, type ErrorCode } from '../../../host-agent/src/lib/errors.ts';
import { makeApp } from '../../http/support.ts';
import { refuse } from './support/ask.ts';

const routes: readonly (readonly [string, Route])[] = Object.entries(ROUTES);

/** Method, path, what a policy must allow, status of success. */
const DOCUMENTED = [
  ['GET', '/healthz', 'public', 200],
  ['GET', '/profiles', 'view', 200],
  ['GET', '/whoami', 'any-key', 200],
  ['GET', '/hosts', 'metrics', 200],
  ['POST', '/mcp', 'any-key', 200],
  ['GET', '/metrics', 'metrics', 200],
  ['GET', '/host/checks', 'metrics', 200],
  ['GET', '/openapi.json', 'public', 200],
  ['GET', '/docs', 'public', 200],
  ['GET', '/console', 'public', 200],
  ['GET', '/console/:file', 'public', 200],
  ['GET', '/events', 'view', 200],
  ['GET', '/images', 'view', 200],
  ['POST', '/images', 'images', 201],
  ['POST', '/images/import', 'images', 201],
  ['GET', '/images/:ref{.+}', 'view', 200],
  ['PATCH', '/images/:ref{.+}', 'images', 200],
  ['DELETE', '/images/:ref{.+}', 'images', 204],
  ['GET', '/sandboxes', 'view', 200],
  ['POST', '/sandboxes', 'create', 201],
  ['GET', '/sandboxes/:id', 'view', 200],
  ['POST', '/sandboxes/:id/pause', 'exec', 200],
  ['POST', '/sandboxes/:id/resume', 'exec', 200],
  ['PATCH', '/sandboxes/:id', 'create', 200],
  ['DELETE', '/sandboxes', 'delete', 200],
  ['DELETE', '/sandboxes/:id', 'delete', 204],
  ['GET', '/sandboxes/:id/stats', 'view', 200],
  ['POST', '/sandboxes/:id/exec', 'exec', 200],
  ['GET', '/sandboxes/:id/exec', 'exec', 101],
  ['GET', '/sandboxes/:id/commands', 'read', 200],
  ['GET', '/sandboxes/:id/commands/:cid', 'read', 200],
  ['GET', '/sandboxes/:id/commands/:cid/wait', 'read', 200],
  ['GET', '/sandboxes/:id/commands/:cid/output', 'read', 200],
  ['POST', '/sandboxes/:id/commands/:cid/attach', 'exec', 200],
  ['GET', '/sandboxes/:id/commands/:cid/attach', 'exec', 101],
  ['POST', '/sandboxes/:id/commands/:cid/stdin', 'exec', 200],
  ['POST', '/sandboxes/:id/commands/:cid/signal', 'exec', 200],
  ['POST', '/sandboxes/:id/commands/:cid/resize', 'exec', 200],
  ['DELETE', '/sandboxes/:id/commands/:cid', 'exec', 200],
  ['GET', '/sandboxes/:id/files', 'read', 200],
  ['POST', '/sandboxes/:id/files', 'exec', 200],
  ['PATCH', '/sandboxes/:id/files', 'exec', 200],
  ['DELETE', '/sandboxes/:id/files', 'exec', 200],
  ['GET', '/sandboxes/:id/files/stat', 'read', 200],
  ['GET', '/sandboxes/:id/files/list', 'read', 200],
  ['GET', '/sandboxes/:id/files/watch', 'read', 200],
  ['GET', '/sandboxes/:id/files/content', 'read', 200],
  ['PUT', '/sandboxes/:id/files/content', 'exec', 200],
  ['POST', '/sandboxes/:id/files/mkdir', 'exec', 201],
  ['POST', '/sandboxes/:id/files/move', 'exec', 200],
  ['POST', '/sandboxes/:id/files/copy', 'exec', 201],
  ['GET', '/sandboxes/:id/logs', 'read', 200],
  ['GET', '/sandboxes/:id/ports', 'view', 200],
  ['POST', '/sandboxes/:id/ports', 'connect', 200],
  ['DELETE', '/sandboxes/:id/ports/:port', 'connect', 204],
  ['POST', '/sandboxes/:id/ports/:port/publish', 'create', 200],
  ['DELETE', '/sandboxes/:id/ports/:port/publish/:host_port', 'create', 204],
  ['GET', '/sandboxes/:id/ports/:port/links', 'view', 200],
  ['POST', '/sandboxes/:id/ports/:port/links', 'connect', 201],
  ['DELETE', '/sandboxes/:id/ports/:port/links/:link', 'connect', 204],
  ['POST', '/sandboxes/:id/ports/:port/connect', 'connect', 200],
  ['GET', '/sandboxes/:id/ports/:port/connect', 'connect', 101],
  ['GET', '/sandboxes/:id/network', 'view', 200],
  ['PATCH', '/sandboxes/:id/network', 'network', 200],
  ['PUT', '/sandboxes/:id/network', 'network', 200],
  ['POST', '/sandboxes/:id/network/check', 'view', 200],
  ['GET', '/sandboxes/:id/egress', 'read', 200],
  ['GET', '/network/presets', 'view', 200],
  ['GET', '/secrets', 'secrets', 200],
  ['GET', '/secrets/:name', 'secrets', 200],
  ['PUT', '/secrets/:name', 'secrets', 200],
  ['DELETE', '/secrets/:name', 'secrets', 204],
  ['GET', '/sandboxes/:id/service', 'read', 200],
  ['PUT', '/sandboxes/:id/service', 'exec', 200],
  ['POST', '/sandboxes/:id/service/start', 'exec', 200],
  ['POST', '/sandboxes/:id/service/stop', 'exec', 200],
  ['POST', '/sandboxes/:id/service/restart', 'exec', 200],
  ['GET', '/sandboxes/:id/service/logs', 'read', 200],
  ['POST', '/sandboxes/:id/snapshot', 'snapshot', 201],
  ['POST', '/sandboxes/:id/fork', 'fork', 201],
  ['POST', '/sandboxes/:id/rollback', 'exec', 200],
  ['GET', '/snapshots', 'view', 200],
  ['GET', '/snapshots/:id', 'view', 200],
  ['GET', '/snapshots/:id/tree', 'view', 200],
  ['POST', '/snapshots/:id/diff', 'read', 200],
  ['GET', '/snapshots/:id/export', 'snapshot', 200],
  ['GET', '/sandboxes/:id/export', 'snapshot', 200],
  ['POST', '/snapshots/import', 'snapshot', 201],
  ['PATCH', '/snapshots/:id', 'snapshot', 200],
  ['DELETE', '/snapshots/:id', 'delete', 204],
  ['POST', '/snapshots/:id/fork', 'fork', 201],
] as const;

/** Codes that http/ has of its own, beside those of AppError. */
t.test('it has every documented route and no other', (t) => {
  const found = routes.map(([, { method, path, access, answers }]) => [
    method,
    path,
    access,
    answers[0]?.status,
  ]);
  t.strictSame(found.toSorted(byText), DOCUMENTED.toSorted(byText));
  const experimental = routes.filter(([, { isExperimental }]) => isExperimental).map(([name]) => name);
  t.strictSame(experimental.sort(), ['configureService', 'importImage', 'pullImage', 'readServiceLogs']);
  t.same(ROUTES.createSandbox.alsoNeeds.operation, 'exec');
  t.end();
});

t.test('what the daemon serves is in it, and all of it but images is served', (t) => {
  const served = makeApp().app.routes.filter(({ method }) => method !== 'ALL');
  const key = ({ method, path }: { method: string; path: string }) => `${method} ${path}`;
  const listed = new Set(routes.map(([, route]) => key(route)));
  t.same(
    served.map(key).filter((route) => !listed.has(route)),
    [],
  );
  const missing = routes.filter(([, route]) => !served.map(key).includes(key(route)));
  t.ok(
    missing.every(([, { tag }]) => tag === 'images'),
    missing.map(([name]) => name).join(),
  );
  t.end();
});

t.test('each entry agrees with itself', (t) => {
  for (const [name, route] of routes) {
    const { method, path, params, body, transport, upward, summary, access, answers } = route;
    const named = [...path.matchAll(/:(\w+)/g)].map(([, parameter]) => parameter);
    t.same(
      params ? Object.keys(toJsonSchema(params).properties ?? {}) : [],
      named,
      `${name} has a schema for its path`,
    );
    if (method === 'GET' && transport !== 'websocket') t.notOk(body, `${name} has no body`);
    const hasFrames =
      transport === 'duplex' || (transport === 'websocket' && name !== 'connectPortWebSocket');
    t.equal(upward !== undefined, hasFrames, name);
    t.match(summary, /^[A-Z].*[^.]$/, name);
    t.ok(access === 'public' || access === 'any-key' || OPERATIONS.includes(access), name);
    for (const { status, content } of answers)
      t.equal(content === undefined, [202, 204, 304].includes(status), name);
  }
  t.end();
});

t.test('errors: those of every route, of its kind, and its own', (t) => {
  const statuses = (name: keyof typeof ROUTES) => Object.keys(errorsOf(ROUTES[name])).map(Number);
  t.same(statuses('health'), [400, 403, 500, 503]);
  t.same(statuses('listSandboxes'), [400, 401, 403, 500, 503]);
  t.same(statuses('createSandbox'), [400, 401, 403, 404, 408, 409, 413, 415, 422, 500, 501, 502, 503]);
  t.ok(statuses('execWebSocket').includes(426));
  t.ok(statuses('readLogs').includes(501));
  t.ok(statuses('readEgress').includes(501));
  for (const [name, route] of routes) {
    const errors = errorsOf(route);
    // A PUT of a name makes it.
    if (route.params && name !== 'putSecret') t.ok(errors[404], `${name} may be of something unknown`);
    if (route.tag === 'images') t.ok(errors[501], name);
    for (const when of Object.values(errors)) t.match(when, /^[a-z].*[^.]$/i, name);
  }
  t.end();
});

t.test("the daemon's errors have the statuses of the catalogue", (t) => {
  for (const [code, { status }] of Object.entries(OPERATION_ERRORS)) {
    t.equal(toErrorAnswer(new AppError(code as ErrorCode, 'x'), 'id').status, status, code);
  }
  t.end();
});

t.test("a daemon's own limits are in its routes", (t) => {
  const { createSandbox, forkSnapshot } = routesWithin({
    vcpus: 2,
    memoryMib: 256,
    diskBytes: 2 ** 30,
    fork: 3,
  });
  const create = createSandbox.body.schema;
  t.equal(refuse(create, { vcpus: 3 }), 'vcpus must be an integer from 1 to 2, got 3');
  t.match(refuse(create, { memory_mib: 512 }), /from 128 to 256, got 512$/);
  t.match(refuse(forkSnapshot.body.schema, { count: 4 }), /from 0 to 3 /);
  t.match(toJsonSchema(create).properties, {
    memory_mib: { default: 256 },
    disk_bytes: { default: 2 ** 30 },
  });
  t.strictSame(Object.keys(routesWithin(INTERFACE_LIMITS)), Object.keys(ROUTES));
  t.end();
});

function byText(a: readonly unknown[], b: readonly unknown[]): number {
  return a.join(' ') < b.join(' ') ? -1 : 1;
}
