// What the interface says of itself: the document, its examples, the page.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ROUTES, type Route } from '@sandboxd/api';
import t from 'tap';
import { OPERATOR } from '../../host-agent/src/keys/index.ts';
import type { SandboxService } from '../../host-agent/src/sandboxes/service.ts';
import { lintDocument } from '../../scripts/interface-document.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { makeApp } from './support.ts';

t.setTimeout(120_000);
const routes: readonly (readonly [string, Route])[] = Object.entries(ROUTES);

t.test('the document that is served is valid, and the one in docs', async (t) => {
  const { app } = makeApp();
  const response = await app.request('/openapi.json');
  const text = await response.text();
  t.match(response.headers.get('content-type'), /^application\/json/);
  t.same(await lintDocument(text), []);
  const written = readFileSync(resolve(import.meta.dirname, '../../docs/openapi.json'), 'utf8');
  t.equal(text, JSON.stringify(JSON.parse(written)), 'scripts/interface-document.ts writes it');
  const operations = Object.values<object>(JSON.parse(text).paths).flatMap((path) => Object.values(path));
  t.same(operations.map(({ operationId }) => operationId).sort(), routes.map(([name]) => name).sort());
});

t.test('a JSON body that needs no field may be null, as it may be left out', async (t) => {
  const { app } = makeApp();
  const document = (await (await app.request('/openapi.json')).json()) as {
    paths: Record<string, Record<string, { operationId: string; requestBody?: Described }>>;
  };
  type Described = { required: boolean; content: Record<string, { schema?: { anyOf?: object[] } }> };
  const bodies = Object.values(document.paths).flatMap((path) =>
    Object.values(path).flatMap(({ operationId, requestBody }) => {
      const media = requestBody?.content['application/json'];
      if (requestBody === undefined || media === undefined) return [];
      const isNullable = media.schema?.anyOf?.some((one) => 'type' in one && one.type === 'null') === true;
      t.equal(isNullable, !requestBody.required, operationId);
      return [operationId];
    }),
  );
  t.ok(bodies.includes('createSandbox') && bodies.includes('exec'));
});

t.test('the linter reports an invalid document', async (t) => {
  const { app } = makeApp();
  const text = await (await app.request('/openapi.json')).text();
  const broken = [
    text.replace('#/components/schemas/ExecReq', '#/components/schemas/Nothing'),
    text.replace('"exit_code":3', '"exit_code":"three"'),
    text.replace('"in":"path"', '"in":"pat"'),
  ];
  for (const each of broken) t.ok((await lintDocument(each)).length > 0);
});

t.test('every route but a WebSocket has an example, which is taken as it is', async (t) => {
  const { journal: events } = await startMemoryDaemon(t);
  const logs = { read: async () => ({ nextOffset: 0, records: [] }) };
  const egressLog = { ...logs, isKept: true, isOpen: () => false, onMore: () => () => undefined };
  const { app, sandboxes } = makeApp({ events, logs, egressLog });
  const status = async () => ({ state: 'running' }) as Awaited<ReturnType<SandboxService['status']>>;
  sandboxes.serviceCalls = {
    status,
    configure: status,
    start: status,
    stop: status,
    restart: status,
    output: (_, events) => {
      queueMicrotask(() =>
        events.end({
          ring: { id: 'r', firstSeq: 0, nextSeq: 0, droppedRecords: 0, droppedBytes: 0 },
          nextSeq: 0,
        }),
      );
      return { consumed: () => {}, cancel: () => {} };
    },
  } satisfies Partial<SandboxService>;
  for (const [name, { method, path, transport, answers, tag, example, body }] of routes) {
    if (transport === 'websocket') continue;
    if (example === undefined) {
      t.fail(`${name} has no example`);
      continue;
    }
    const { id: sandbox } = sandboxes.add();
    const { id: snapshot } = await sandboxes.snapshot(sandbox);
    const id = path.startsWith('/snapshots') ? snapshot : sandbox;
    const params: Readonly<Record<string, string>> = { ...example.params, id };
    const target = path.replace(/:(\w+)(?:\{.+\})?/g, (_, parameter) => params[parameter] ?? '');
    if (name === 'exportSandbox') await sandboxes.as(OPERATOR).get(id).pause(true);
    const own: Readonly<Record<string, unknown>> = {
      rollbackSandbox: { snapshot_id: snapshot },
      diffSnapshots: { with: snapshot },
    };
    const sent = own[name] ?? example.body ?? {};
    const accept = answers[0]?.content?.['application/json'] ? 'application/json' : '*/*';
    const response = await app.request(`${target}?${new URLSearchParams(example.query)}`, {
      method,
      headers: { accept },
      ...(body?.kind === 'json' && { body: JSON.stringify(sent) }),
    });
    // Without images, an ingress and a connection of its own.
    const isMissing = tag === 'images' || path.includes('/links') || transport === 'tunnel';
    t.equal(response.status, isMissing ? 501 : answers[0]?.status, `${name}: ${await response.text()}`);
  }
});

t.test('the page shows every route and loads nothing', async (t) => {
  const { app } = makeApp();
  const response = await app.request('/docs');
  const page = await response.text();
  t.match(response.headers.get('content-type'), /^text\/html/);
  for (const [name, { path }] of routes) {
    t.ok(page.includes(`id="${name}"`), name);
    t.ok(page.includes(path.replace(/:(\w+)(\{.+\})?/g, '{$1}')), path);
  }
  t.notMatch(page, /<script|\ssrc=|\son\w+=|@import|url\(/i);
  t.same(
    [...page.matchAll(/\shref="(?!#)([^"]*)"/g)].map(([, target]) => target),
    ['openapi.json'],
  );
  const targets = new Set([...page.matchAll(/\sid="([^"]+)"/g)].map(([, id]) => id));
  for (const [, target] of page.matchAll(/\shref="#([^"]+)"/g)) t.ok(targets.has(target), `#${target}`);
  const style = /<style>([\s\S]*)<\/style>/.exec(page)?.[1] ?? '';
  const hash = createHash('sha256').update(style).digest('base64');
  const policy = response.headers.get('content-security-policy') ?? '';
  t.match(policy, "default-src 'none'");
  t.ok(policy.includes(`style-src 'sha256-${hash}'`), 'the policy lets its own style through');
});
