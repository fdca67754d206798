// Templates of clients of E2B in the snapshot store: each is built on one host of a fleet, and outlives it.
import { mkdir, rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { SHARED_HEADER } from '../../host-agent/src/e2b/index.ts';
import { writeQuestion } from '../../host-agent/src/fleet/client-header.ts';
import { newId } from '../../host-agent/src/lib/ids.ts';
import { serveE2bDoor } from '../support/fleet/doors.ts';
import { type FleetHost, type HostOptions, startFleet } from '../support/fleet/fleet.ts';
import { makeHome } from '../support/memory-host/daemon.ts';
import { MemoryEngine } from '../support/memory-host/engine.ts';
import { oneEngine } from '../support/one-engine.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';
import type { Json } from './e2b-front.ts';
import { openKeyring } from './keyed.ts';
import { eventually } from './store-hosts.ts';

/** Of the whole file. */
t.setTimeout(scaled(240_000));

const OFFLINE = { allow_internet_access: false };

async function start(t: Test) {
  const fleet = await startFleet(t);
  for (const tenant of ['acme', 'other']) fleet.api.namespaces.add(`sandboxd-${tenant}`);
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const keyring = await openKeyring(t);
  const { text: key } = await keyring.registry.create({ name: 'one', tenant: 'acme' }, 'e2b');
  const { text: other } = await keyring.registry.create({ name: 'two', tenant: 'other' }, 'e2b');
  const { authenticator } = keyring;
  const host = async (name: string, more: HostOptions = {}): Promise<FleetHost> => {
    const { store } = openTestStore(t, settings);
    const shared = { snapshotStore: store, templateStore: store };
    const made = await fleet.host(name, {
      ...{ authenticator, e2b: keyring, bootTimeoutMs: scaled(30_000), ...shared },
      ...more,
    });
    made.daemon.host.agentFaults = { hasNoFiles: true };
    return made;
  };
  const askAt = async (at: string | URL, method: string, path: string, body?: object, as = key) => {
    const response = await fetch(new URL(path, at), {
      method,
      headers: { 'x-api-key': as, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const json: Json = /^[[{]/.test(text) ? JSON.parse(text) : undefined;
    return { status: response.status, headers: response.headers, text, json };
  };
  const gateway = async () => {
    const url = await serveE2bDoor(t, await fleet.gateway());
    const ask = (method: string, path: string, body?: object, as?: string) =>
      askAt(url, method, path, body, as);
    const create = (templateID: string, as?: string) =>
      ask('POST', '/sandboxes', { ...OFFLINE, templateID }, as);
    const build = async (name: string, more: object = {}, steps: object = {}): Promise<Json> => {
      const asked = await ask('POST', '/v3/templates', { name, ...more });
      t.equal(asked.status, 202, asked.text);
      const path = `${asked.json.templateID}/builds/${asked.json.buildID}`;
      const begun = await ask('POST', `/v2/templates/${path}`, { fromTemplate: 'base', ...steps });
      t.equal(begun.status, 202, begun.text);
      for (const endMs = performance.now() + scaled(60_000); ; await sleep(20)) {
        const { json } = await ask('GET', `/templates/${path}/status`);
        if (json.status === 'ready') return asked.json;
        if (json.status === 'error') throw new Error(json.reason.message);
        if (performance.now() > endMs) throw new Error('the build did not end');
      }
    };
    return { ask, create, build };
  };
  const lose = async ({ name, daemon, crash }: FleetHost, isForGood = true) => {
    await crash();
    if (!isForGood) return;
    await rm(daemon.home.dataDir, { recursive: true });
    await mkdir(daemon.home.dataDir);
    fleet.api.objects.delete('nodes', '', name, 0);
    await eventually(() => fleet.api.objects.list('nodes').every((each) => each.metadata.name !== name));
  };
  const fetched = () => s3.count('GET', /chunks\//);
  const snapshotsOf = ({ daemon }: FleetHost) => daemon.manager.snapshots.list(() => true);
  return { fleet, s3, settings, key, other, host, askAt, gateway, lose, fetched, snapshotsOf };
}

t.test('a template outlives its host, and others fetch it once', async (t) => {
  const { fleet, key, host, askAt, gateway, lose, fetched, other } = await start(t);
  const first = await host('h0');
  await fleet.ready(1);
  const { ask, create, build } = await gateway();
  const { templateID } = await build('app', { tags: ['v1', 'best'], memoryMB: 256 }, { readyCmd: 'true' });
  const second = await host('h1');
  await fleet.ready(2);
  for (const { e2b } of [first, second])
    t.match((await askAt(e2b!.url, 'GET', '/templates')).json, [{ templateID, names: ['app'] }]);
  t.equal((await ask('GET', '/templates')).json.length, 1, 'it is listed once');
  const question = '/sandboxd/templates/app';
  const [header = '', proof = ''] = writeQuestion(question, fleet.seal);
  const facts = async (headers: Readonly<Record<string, string>> = {}): Promise<Json> => {
    const asked = { 'x-api-key': key, [header]: proof, ...headers };
    return await (await fetch(new URL(question, second.e2b!.url), { headers: asked })).json();
  };
  t.match(await facts({ [SHARED_HEADER]: '1' }), { template: { id: templateID, isHere: false } });
  t.same(await facts(), {}, 'gateways of an earlier version see it where it was built');
  await lose(first);

  const nothing = fetched();
  for (const text of ['app:v1', `${templateID}:best`]) {
    const made = await create(text);
    t.equal(made.status, 201, `${text}: ${made.text}`);
    t.match((await ask('GET', `/sandboxes/${made.json.sandboxID}`)).json, { memoryMB: 256 });
  }
  t.equal(second.daemon.manager.list().length, 2);
  const once = fetched();
  t.ok(once > nothing);
  t.equal((await create('app:v1')).status, 201);
  t.equal(fetched(), once, 'the next create fetches nothing');

  t.match(await create('app'), { status: 404, text: /no build with the tag default/ });
  t.match((await ask('GET', `/templates/${templateID}`)).json, { names: ['app'], builds: [{}] });
  t.equal((await ask('POST', '/templates/tags', { target: 'app:v1', tags: ['new'] })).status, 201);
  t.equal((await ask('DELETE', '/templates/tags', { name: 'app', tags: ['best'] })).status, 204);
  t.same((await ask('GET', '/templates', undefined, other)).json, []);
  t.equal((await ask('GET', `/templates/${templateID}`, undefined, other)).status, 404);
  t.equal((await ask('DELETE', `/templates/${templateID}`, undefined, other)).status, 404);
  for (const text of ['app:v1', `${templateID}:v1`])
    t.not((await create(text, other)).status, 201, `${text} of another tenant`);

  const again = await build('app', { tags: ['v2'] }, { fromTemplate: 'app:new' });
  t.equal(again.templateID, templateID, 'a further build, from the one before');
  // A host without a directory of data.
  const third = await host('h2');
  await fleet.ready(2);
  const tags = async () => {
    const shown = await askAt(third.e2b!.url, 'GET', `/templates/${templateID}/tags`);
    return (shown.json ?? []).map(({ tag }: Json) => tag).sort();
  };
  await eventually(async () => (await tags()).join() === 'new,v1,v2');
});

t.test(
  'of two templates with one name a tag moves from one to the other, and no other tag is lost',
  async (t) => {
    const { fleet, settings, host, askAt, gateway } = await start(t);
    const at = (await host('h0')).e2b!.url;
    await fleet.ready(1);
    const { build } = await gateway();
    const { templateID } = await build('app', { tags: ['default', 'kept'] });
    const { store } = openTestStore(t, settings);
    const { template: first } = (await store.templates.read(templateID))!;
    const [made] = first.builds;
    const id = `tpl${'0'.repeat(24)}`;
    const older = { ...made!, id: 'older', snapshotId: newId('snap'), createdAtMs: 1, tags: ['v1'] };
    t.equal(await store.templates.write({ ...first, id, builds: [older], tagTimes: {} }, undefined), true);
    const tagsOf = async (of: string): Promise<Json> =>
      (await askAt(at, 'GET', `/templates/${of}/tags`)).json.map(({ tag }: Json) => tag);
    await eventually(async () => (await askAt(at, 'GET', `/templates/${id}`)).status === 200);
    const moved = await askAt(at, 'POST', '/templates/tags', { target: 'app:v1', tags: ['default'] });
    t.match(moved, { status: 201, json: { buildID: 'older' } });
    t.same([(await tagsOf(id)).sort(), await tagsOf(templateID)], [['default', 'v1'], ['kept']]);
  },
);

t.test('while a build is not uploaded, other hosts create from the one before', async (t) => {
  const { fleet, s3, host, askAt, gateway, lose } = await start(t);
  const first = await host('h0');
  await fleet.ready(1);
  const { create, build } = await gateway();
  const { templateID, buildID: before } = await build('app');
  s3.fault = (method, key) =>
    method === 'PUT' && /\/(?:chunks|snapshots)\//.test(key)
      ? { status: 403, code: 'AccessDenied' }
      : undefined;
  const { buildID: next } = await build('app');
  const second = await host('h1');
  await fleet.ready(2);
  await lose(first, false);
  t.equal((await askAt(second.e2b!.url, 'GET', '/templates/app')).status, 200);
  await eventually(async () => (await create('app')).status === 201);

  s3.fault = () => undefined;
  await host('h0', { home: first.daemon.home });
  const stored = () => [...s3.objects.keys()].filter((key) => key.includes('/snapshots/')).length;
  const shown = async (): Promise<Json> =>
    (await askAt(second.e2b!.url, 'GET', `/templates/${templateID}`)).json.builds;
  await eventually(async () => (await shown())[0]?.buildID === next);
  await eventually(() => stored() === 1);
  t.not(next, before);
  t.equal((await shown()).length, 1);
});

t.test('a delete reaches a host that was off', async (t) => {
  const { fleet, s3, host, askAt, gateway, lose, snapshotsOf } = await start(t);
  const first = await host('h0');
  await fleet.ready(1);
  const { ask, create, build } = await gateway();
  const { templateID } = await build('app');
  const second = await host('h1');
  await fleet.ready(2);
  await lose(first, false);
  await eventually(async () => (await create('app')).status === 201);
  t.equal((await ask('DELETE', `/templates/${templateID}`)).status, 204);
  t.same(snapshotsOf(second), []);
  t.notOk([...s3.objects.keys()].some((key) => key.includes('/snapshots/')));

  const again = await host('h0', { home: first.daemon.home });
  const shown = () => askAt(again.e2b!.url, 'GET', `/templates/${templateID}`);
  await eventually(async () => (await shown()).status === 404);
  await eventually(() => snapshotsOf(again).length === 0);
  t.same((await ask('GET', '/templates')).json, []);
  t.match(await create('app'), { status: 404 });
});

t.test('a host that it does not fit fetches nothing, and another one is chosen', async (t) => {
  const { fleet, host, gateway, lose, fetched } = await start(t);
  const first = await host('h0');
  await fleet.ready(1);
  const { create, build } = await gateway();
  await build('app');
  const home = await makeHome(t);
  const engines = oneEngine(new MemoryEngine(home.host, { engine: 'memory 2' }));
  const foreign = await host('h1', { home, engines });
  await fleet.ready(2);
  await lose(first);
  const nothing = fetched();
  t.match(await create('app'), { status: 409, text: /engine was memory 1, is memory 2/ });
  t.equal(fetched(), nothing);
  const fitting = await host('h2');
  await fleet.ready(2);
  for (let n = 0; n < 3; n++) t.equal((await create('app')).status, 201);
  t.equal(foreign.daemon.manager.list().length, 0);
  t.equal(fitting.daemon.manager.list().length, 3);
});

t.test('what a bucket that does not answer may have is not taken for anything else', async (t) => {
  const { fleet, s3, host, askAt, gateway, lose } = await start(t);
  const first = await host('h0');
  await fleet.ready(1);
  const { create, build } = await gateway();
  await build('app');
  const known = await host('h1');
  t.equal((await askAt(known.e2b!.url, 'GET', '/templates/app')).status, 200);
  s3.fault = () => ({ status: 403, code: 'AccessDenied' });
  const late = await host('h2');
  await fleet.ready(3);
  const asked = await askAt(late.e2b!.url, 'GET', '/templates/aliases/app');
  t.match(asked, { status: 502, text: /snapshot store does not answer, and may have the template app/ });
  t.equal((await askAt(late.e2b!.url, 'GET', '/templates/aliases/base')).status, 200);
  t.equal((await create('base')).status, 201);
  t.equal((await create('app')).status, 201, 'where its files are');
  await lose(first);
  t.match(await create('app'), { status: 502 });
  s3.fault = () => undefined;
  await eventually(async () => (await create('app')).status === 201);
});
