// The tests' own clients: an answer that the table of routes does not have fails whoever asked.
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toOpenApi } from '@sandboxd/api';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { serveCat } from '../../http/cat.ts';
import { makeApp, UNKNOWN_ID } from '../../http/support.ts';
import { checkAnswer } from '../../support/answers.ts';
import { checkedUrl } from '../../support/checked-proxy.ts';
import { runCommand } from '../../support/command.ts';

const ID = 'sbx_0123456789abc';
const SANDBOX = {
  id: ID,
  created_at: '2024-05-06T07:08:09.010Z',
  labels: {},
  state: 'running',
  last_used_at: '2024-05-06T07:08:09.010Z',
  timeout_s: 0,
  idle_timeout_s: 0,
  idle_action: 'delete',
  timeout_action: 'delete',
  auto_resume: true,
  disk_bytes: 2 ** 32,
  memory_mib: 512,
  vcpus: 1,
  profile: 'base',
  workdir: '/x',
};

/** All schemas of a part of the document. */
function schemasOf(part: unknown): object[] {
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) =>
    key === 'schema' ? [value as object] : schemasOf(value),
  );
}

t.test('all schemas of the document are valid, which no answer is checked for', (t) => {
  const document = toOpenApi();
  const ajv = new Ajv2020({ strict: false });
  const all = [...Object.values(document.components.schemas), ...schemasOf(document.paths)];
  t.ok(all.length > 200);
  for (const schema of all) t.equal(ajv.validateSchema(schema), true, JSON.stringify(schema));
  t.equal(ajv.validateSchema({ anyOf: [{ type: 'strin' }] }), false, 'another would be found');
  t.end();
});

t.test('status, fields and values are those of the table', (t) => {
  checkAnswer('GET', `/sandboxes/${ID}`, 200, SANDBOX);
  checkAnswer('POST', '/sandboxes?x=1', 201, SANDBOX);
  checkAnswer('GET', '/nowhere', 404, { error: 'no such path', code: 'unknown_path' });
  const { workdir: _, ...less } = SANDBOX;
  for (const [method, path, status, body] of [
    ['GET', `/sandboxes/${ID}`, 200, less],
    ['GET', `/sandboxes/${ID}`, 200, { ...SANDBOX, more: 1 }],
    ['GET', `/sandboxes/${ID}`, 200, { ...SANDBOX, vcpus: '1' }],
    ['GET', '/sandboxes', 200, { sandboxes: [{ ...SANDBOX, more: 1 }] }],
    ['POST', '/sandboxes', 202, SANDBOX],
    ['DELETE', `/sandboxes/${ID}`, 204, {}],
    ['GET', '/nowhere', 200, {}],
    ['GET', '/sandboxes', 500, { message: 'x' }],
    ['GET', '/sandboxes', 500, { error: 'x' }],
    ['GET', '/sandboxes', 500, { error: 'x', code: 'unheard_of' }],
  ] as const)
    t.throws(() => checkAnswer(method, path, status, body), `${method} ${path} ${JSON.stringify(body)}`);
  t.end();
});

t.test('the app of test/http is checked so', async (t) => {
  const { app, sandboxes } = makeApp();
  const { id } = sandboxes.add();
  sandboxes.serviceCalls.status = async () => ({ state: 'idle', pid: -1 });
  await t.rejects(async () => app.request(`/sandboxes/${id}/service`), /against the document/);
});

t.test('what a client of any kind is answered is checked on its way', async (t) => {
  const lines = (...all: unknown[]) => all.map((line) => `${JSON.stringify(line)}\n`).join('');
  const health = { status: 'ok', version: '1' };
  const cases: [boolean, string, string, number, string, string][] = [
    [true, 'GET', '/healthz', 200, 'application/json', JSON.stringify(health)],
    [false, 'GET', '/healthz', 200, 'application/json', JSON.stringify({ ...health, more: 1 })],
    [false, 'GET', '/healthz', 200, 'application/json', '{'],
    [true, 'POST', '/images', 200, 'application/x-ndjson', lines({ progress: 'a' }, { progress: 'b' })],
    [false, 'POST', '/images', 200, 'application/x-ndjson', lines({ progress: 'a' }, { other: 'b' })],
    [false, 'GET', '/events', 200, 'text/event-stream', 'id: 1\ndata: {"id":1}\n\n'],
    [false, 'GET', '/healthz', 200, 'text/plain', 'nothing was checked'],
  ];
  for (const [isFine, method, path, status, type, text] of cases) {
    const server = createServer((_, outgoing) => {
      outgoing.writeHead(status, { 'content-type': type });
      outgoing.end(text);
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    let end: () => unknown = () => undefined;
    const { port } = server.address() as AddressInfo;
    const url = await checkedUrl(
      { teardown: (handler) => (end = handler as () => unknown) },
      `http://127.0.0.1:${port}`,
    );
    t.equal(await (await fetch(`${url}${path}`, { method })).text(), text, 'it comes through');
    const ended = Promise.resolve(end());
    await (isFine ? ended : t.rejects(ended, Error, text));
    server.closeAllConnections();
    server.close();
  }
});

t.test('interactive commands come through, too, and what refuses one is checked', async (t) => {
  const { url, id } = await serveCat(t);
  const teardowns: (() => unknown)[] = [];
  const host = await checkedUrl({ teardown: (handler) => teardowns.push(handler as () => unknown) }, url);
  const env = { SANDBOXD_HOST: host, XDG_CONFIG_HOME: t.testdir({}) };
  const text = 'x'.repeat(300_000);
  t.match(await runCommand(['exec', '-i', id, 'cat'], env, text), { code: 4, stdout: text, stderr: '' });
  t.match(await runCommand(['exec', '-i', UNKNOWN_ID, 'cat'], env), { stdout: '', stderr: /does not exist/ });
  for (const end of teardowns) await end();

  const server = createServer((_, outgoing) => {
    const text = '{"message":"none"}';
    outgoing.writeHead(404, { 'content-type': 'application/json', 'content-length': text.length });
    outgoing.end(text);
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  t.teardown(() => void server.close());
  const wrong = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  let end: () => unknown = () => undefined;
  const other = await checkedUrl({ teardown: (handler) => (end = handler as () => unknown) }, wrong);
  await runCommand(['exec', '-i', UNKNOWN_ID, 'cat'], { ...env, SANDBOXD_HOST: other });
  server.closeAllConnections();
  await t.rejects(async () => end(), /against the document/);
});
