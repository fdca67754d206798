// The front for clients of E2B of a gateway whose hosts answer with what no host should, and whose clients send what no
// SDK does.

import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import { MAX_KEYED_REQUESTS_OF_EACH } from '@sandboxd/api';
import t, { type Test } from 'tap';
import { FleetSeal, HostConnections } from '../../host-agent/src/fleet/index.ts';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import { serveE2bDoor } from '../support/fleet/doors.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import type { Json } from './e2b-front.ts';

/** Of the whole file. */
t.setTimeout(scaled(120_000));

const TEMPLATE = `tpl${'a'.repeat(24)}`;
const HASH = 'a'.repeat(64);
const FILES = `/templates/${TEMPLATE}/files/${HASH}`;

type Answer = {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
  readonly text?: string;
};
/** Undefined: as a host that has nothing. */
type Answers = (path: string, request: IncomingMessage) => Answer | 'never' | undefined;

const NOTHING: Answers = () => undefined;

function answerAsEmpty(path: string, method = 'GET'): Answer {
  if (path === '/whoami') return { body: { tenant: 'acme' } };
  if (path.startsWith('/sandboxd/templates/')) return { body: {} };
  if (path.startsWith('/snapshots?name=')) return { body: { snapshots: [] } };
  if (method === 'GET' && /^\/(?:v2\/)?(?:templates|sandboxes|snapshots)(?:\?|$)/.test(path))
    return { body: [] };
  return { status: 404, body: { code: 404, message: 'not found' } };
}

async function serveHost(t: Test, name: string, answers: Answers) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = request.url ?? '/';
    asked.push(`${request.method} ${path}`);
    request.resume().once('end', () => {
      const answer = answers(path, request) ?? answerAsEmpty(path, request.method);
      if (answer === 'never') return;
      const { status = 200, headers = {}, body, text } = answer;
      response.writeHead(status, { 'content-type': 'application/json', ...headers });
      response.end(text ?? JSON.stringify(body));
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return { name, url, doors: { e2b: url }, isReady: true, unplaced: [], asked };
}

/** Each answers as given, beside what an empty host answers. */
async function start(t: Test, ...all: readonly Answers[]) {
  const hosts = await Promise.all(all.map((answers, at) => serveHost(t, `h${at}`, answers)));
  const places: Json[] = [];
  const catalogue = {
    place: async (place: Json) => {
      places.push(place);
      throw new AppError('exhausted', 'no place');
    },
    find: async () => undefined,
  };
  const map = {
    hosts: () => hosts,
    host: (name: string) => hosts.find((each) => each.name === name),
    find: () => undefined,
    settle: async () => undefined,
    all: () => [],
    mayHave: () => false,
    isCurrent: true,
  };
  const connections = new HostConnections({});
  t.teardown(() => connections.close());
  const seal = new FleetSeal(Buffer.alloc(32, 7));
  const url = await serveE2bDoor(t, { catalogue, map, connections, seal } as never);
  const ask = async (
    method: string,
    path: string,
    body?: string | object,
    headers = {},
    signal?: AbortSignal,
  ) => {
    const text = typeof body === 'object' ? JSON.stringify(body) : body;
    const response = await fetch(new URL(path, url), {
      ...{ method, ...(signal && { signal }) },
      headers: { 'x-api-key': 'key', 'content-type': 'application/json', ...headers },
      ...(text !== undefined && { body: text }),
    });
    const answer = await response.text();
    return { status: response.status, headers: response.headers, text: answer };
  };
  return { hosts, places, ask, url };
}

t.test('names that are no text are for a host to refuse', async (t) => {
  const { ask } = await start(t, NOTHING);
  const odd = ['{"toString":1,"valueOf":1}', `${'['.repeat(50_000)}${']'.repeat(50_000)}`, '7', 'null'];
  for (const value of odd)
    for (const [method, path, field] of [
      ['POST', '/v3/templates', 'name'],
      ['POST', '/v2/templates', 'alias'],
      ['POST', '/templates/tags', 'target'],
      ['DELETE', '/templates/tags', 'name'],
    ] as const)
      t.equal(
        (await ask(method, path, `{"${field}":${value}}`)).status,
        404,
        `${path} ${value.slice(0, 30)}`,
      );
});

t.test('a host that answers with anything is one that does not answer', async (t) => {
  const odd: Answer[] = [
    { text: '{' },
    { body: [7] },
    { body: { template: { id: 7 }, snapshots: 7 } },
    { body: [{ createdAt: 'never', sandboxID: 'x', startedAt: 'never' }] },
    { body: { template: { id: TEMPLATE, createdAtMs: 1, builds: [{ ...build(1), vcpus: 0.5 }] } } },
    { body: { template: { id: TEMPLATE, createdAtMs: 1, builds: [{ ...build(1), memoryMib: 10 ** 12 }] } } },
    { text: '['.repeat(100_000) },
  ];
  for (const answer of odd) {
    const what = JSON.stringify(answer).slice(0, 80);
    const { ask, hosts, places } = await start(
      t,
      (path) => (path === '/whoami' ? undefined : answer),
      NOTHING,
    );
    hosts.reverse();
    for (const path of ['/templates', '/v2/sandboxes', '/snapshots']) {
      const listed = await ask('GET', path);
      t.not(listed.status, 500, `${path} ${what}`);
    }
    for (const path of [`/templates/app`, `/templates/${TEMPLATE}`]) {
      const found = await ask('GET', path);
      t.not(found.status, 500, `${path} ${what}`);
    }
    const made = await ask('POST', '/sandboxes', { templateID: 'app' });
    t.match(made, { status: 502, text: /h0/ }, what);
    t.equal(places.length, 0, what);
    const snapshot = await ask('POST', '/sandboxes', { templateID: `snap_${'0'.repeat(13)}` });
    t.not(snapshot.status, 500, `snapshot ${what}`);
    t.equal(places.length, 0, what);
  }
});

t.test('the tenant of a key is asked of another host when one answers with anything', async (t) => {
  for (const answer of [{ text: '{' }, { body: { tenant: 7 } }, { body: [] }]) {
    const { ask } = await start(t, (path) => (path === '/whoami' ? answer : undefined), NOTHING);
    for (let n = 0; n < 4; n++) t.equal((await ask('GET', '/templates', undefined)).status, 200);
  }
});

t.test('what a host answers to a request of a build is checked', async (t) => {
  for (const text of ['{', '{"templateID":7}', '[]']) {
    const { ask } = await start(t, (path) => (path === '/v3/templates' ? { status: 202, text } : undefined));
    t.match(await ask('POST', '/v3/templates', { name: 'app' }), { status: 502, text: /h0/ }, text);
  }
  for (const text of ['{', '{"url":7}', '{"url":"no url"}']) {
    const { ask } = await start(t, (path) => (path === FILES ? { status: 201, text } : undefined));
    t.match(await ask('GET', FILES), { status: 502, text: /h0/ }, text);
  }
});

t.test('a host has only what could be a place, and only for what it refuses', async (t) => {
  for (const [status, wanted] of [
    [409, '33 512'],
    [409, '1 65537'],
    [409, '0 512'],
    [409, '1 0'],
    [200, '1 512'],
    [500, '1 512'],
  ] as const) {
    const answer = { status, headers: { 'sandboxd-wanted-place': wanted }, body: { code: status } };
    const { ask, places } = await start(t, (path) => (path.includes('/builds/') ? answer : undefined));
    t.equal((await ask('POST', `/v2/templates/${TEMPLATE}/builds/x`, {})).status, status);
    t.same(places, [], `${status} ${wanted}`);
  }
});

t.test('requests that go on without their client are limited', async (t) => {
  const { ask } = await start(t, (path) => (path === '/v3/templates' ? 'never' : undefined));
  const left = new AbortController();
  t.teardown(() => left.abort());
  const statuses: number[] = [];
  const all = Array.from({ length: MAX_KEYED_REQUESTS_OF_EACH + 10 }, async (_, n) => {
    const keyed = { 'idempotency-key': `k${n}` };
    const { status } = await ask('POST', '/v3/templates', { name: 'app' }, keyed, left.signal);
    statuses.push(status);
  });
  for (const each of all) each.catch(() => undefined);
  await until(() => statuses.length === 10, 'those that are too many');
  t.same(new Set(statuses), new Set([503]));
});

t.test('a host does not take the id of a template that another one has', async (t) => {
  const facts = (createdAtMs: number) => ({ body: { template: { id: TEMPLATE, createdAtMs, builds: [] } } });
  const shown: Answers = (path) => (path === `/templates/${TEMPLATE}` ? { body: {} } : undefined);
  const { ask, hosts } = await start(
    t,
    (path, request) => (path === `/sandboxd/templates/${TEMPLATE}` ? facts(1) : shown(path, request)),
    (path) => (path.startsWith('/sandboxd/templates/evil') ? facts(2) : undefined),
  );
  t.equal((await ask('GET', `/templates/${TEMPLATE}`)).status, 200);
  await ask('GET', '/templates/evil');
  t.equal((await ask('GET', `/templates/${TEMPLATE}`)).status, 200, 'it is where it was');
  t.equal(hosts[1]!.asked.filter((each) => each === `GET /templates/${TEMPLATE}`).length, 0);
});

t.test('a name that two hosts have is found by its tag', async (t) => {
  const tagged = (id: string, createdAtMs: number, tag: string): Answers => {
    const builds = [{ ...build(createdAtMs), tags: [tag] }];
    const facts = { body: { template: { id, createdAtMs, builds } } };
    return (path) => {
      if (path === '/sandboxd/templates/app') return facts;
      return path.startsWith('/templates/aliases/') ? { body: { templateID: id } } : undefined;
    };
  };
  const [a, b] = [`tpl${'a'.repeat(24)}`, `tpl${'b'.repeat(24)}`];
  const { ask } = await start(t, tagged(a, 1, 'old'), tagged(b, 2, 'new'));
  for (const [name, id] of [
    ['app:old', a],
    ['app:new', b],
    ['app', b],
    ['app:none', b],
  ] as const)
    t.match((await ask('GET', `/templates/aliases/${name}`)).text, id, name);
});

/** As a host answers about a template. */
function having(more: object | undefined, runs: readonly string[] = []): Answers {
  const builds = [{ ...build(1), ...more }];
  const template = more && { id: TEMPLATE, createdAtMs: 1, builds, isHere: false, runs };
  return (path) => (path.startsWith('/sandboxd/templates/') ? { body: { template } } : undefined);
}

t.test('a create goes to hosts that share the template and that it fits', async (t) => {
  const shared = { snapshotId: `snap_${'0'.repeat(13)}` };
  const misfit = { ...shared, problem: 'cpu was a, is b' };
  const create = async (...all: (object | undefined)[]) => {
    const { ask, places } = await start(t, ...all.map((each) => having(each)));
    return { ...(await ask('POST', '/sandboxes', { templateID: 'app' })), places };
  };
  const { places } = await create(shared, misfit, undefined, shared);
  t.match(places, [{ not: ['h1', 'h2'], prefers: `snapshot ${shared.snapshotId}`, memoryMib: 512 }]);
  t.equal(places[0].on, undefined);
  t.match((await create(undefined, shared)).places, [{ on: 'h1' }], 'one alone');
  t.match((await create(undefined, {})).places, [{ on: 'h1' }], 'one that is not shared');
  const none = await create(misfit, misfit);
  t.match(none, { status: 409, text: /fits no host that answers: h0: cpu was a, is b/ });
  t.same(none.places, []);
});

t.test('a host does not share a template that another one has alone', async (t) => {
  const evil = { snapshotId: `snap_${'0'.repeat(13)}`, createdAtMs: 9 };
  let isSilent = true;
  const { ask, places } = await start(t, having({}), (path, request) =>
    isSilent ? undefined : having(evil)(path, request),
  );
  await ask('POST', '/sandboxes', { templateID: 'app' });
  isSilent = false;
  await ask('POST', '/sandboxes', { templateID: 'app' });
  t.match(places, [{ on: 'h0' }, { on: 'h0' }]);
});

t.test('what a host that has not read the bucket may have, one that has read it knows', async (t) => {
  const reading = (hasRead: boolean): Answers => {
    return (path) => (path.startsWith('/sandboxd/templates/') ? { body: { hasRead } } : undefined);
  };
  const create = async (...all: boolean[]) =>
    await (await start(t, ...all.map(reading))).ask('POST', '/sandboxes', { templateID: 'python:3.12' });
  t.match(await create(false, true), { status: 503, text: /no place/ });
  t.match(await create(false, false), { status: 502, text: /h0 does not answer/ });
});

t.test('the status of a build is asked of the host that has it', async (t) => {
  const shared = { snapshotId: `snap_${'0'.repeat(13)}` };
  const id = `${'0'.repeat(8)}-0000-4000-8000-${'0'.repeat(12)}`;
  const path = `/templates/${TEMPLATE}/builds/${id}/status`;
  const { ask, hosts } = await start(t, having(shared), having(shared, [id]));
  for (let n = 0; n < 2; n++) await ask('GET', path);
  t.same(
    hosts.map(({ asked }) => asked.filter((each) => each === `GET ${path}`).length),
    [0, 2],
  );
  t.equal(hosts[0]!.asked.filter((each) => each.includes('/sandboxd/')).length, 1, 'it is known then');
});

t.test('an address of an upload is that of the gateway alone, for its own host', async (t) => {
  const answers: Answers = (path, { method }) => {
    if (path === FILES) return { status: 201, body: { present: false, url: `http://x${FILES}/token` } };
    return method === 'PUT' ? { body: {} } : undefined;
  };
  const { ask, hosts } = await start(t, answers, answers);
  const { url } = JSON.parse((await ask('GET', FILES)).text) as { url: string };
  const put = async (to: string) => {
    const answer = await fetch(to, { method: 'PUT', body: 'an archive' });
    return [answer.status, await answer.text()];
  };
  t.equal((await put(url))[0], 200);
  const { searchParams } = new URL(url);
  const [host = ''] = (searchParams.get('host') ?? '').split(' ');
  const other = host === 'h0' ? 'h1' : 'h0';
  const before = hosts.flatMap(({ asked }) => asked).length;
  const bare = url.split('?')[0] ?? '';
  const refusals = [
    await put(bare),
    await put(`${bare}?host=${host}`),
    await put(`${bare}?host=${other}`),
    await put(`${bare}?host=h9`),
    await put(url.replace(`host=${host}`, `host=${other}`)),
    await put(url.replace('/token?', '/tokem?')),
    await put(url.replace(HASH, 'b'.repeat(64))),
  ];
  for (const refusal of refusals) t.same(refusal, refusals[0]);
  t.equal(refusals[0]?.[0], 401);
  t.equal(hosts.flatMap(({ asked }) => asked).length, before, 'no host is asked');
});

function build(createdAtMs: number) {
  return { tags: ['default'], vcpus: 1, memoryMib: 512, createdAtMs };
}
