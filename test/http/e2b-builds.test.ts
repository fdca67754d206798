// Builds of E2B's templates whose steps run: what a program in the guest, or a key, may make of them.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { type Json, serveE2b } from './e2b-front.ts';
import type { Script } from './fake-exec.ts';
import { FILE, outflow } from './fake-sandboxes.ts';
import { openKeyring } from './keyed.ts';
import { makeApp } from './support.ts';

async function start(t: Test) {
  const keyring = await openKeyring(t);
  const fixture = makeApp({ authenticator: keyring.authenticator });
  const e2b = await serveE2b(t, { ...fixture, keyring });
  const made = await keyring.registry.create({ name: 'one', tenant: 'a' }, 'e2b');
  const [key, keyId] = [made.text, made.key.id];
  const begin = async (body: object): Promise<Json> => {
    const { json: ids } = await e2b.ask('POST', '/v3/templates', { key, body: { name: 'mine' } });
    const at = `/v2/templates/${ids.templateID}/builds/${ids.buildID}`;
    const { status, text } = await e2b.ask('POST', at, { key, body: { fromTemplate: 'base', ...body } });
    t.equal(status, 202, text);
    return ids;
  };
  const end = async ({ templateID, buildID }: Json): Promise<Json> => {
    const endMs = performance.now() + 30_000;
    for (;;) {
      const { json } = await e2b.ask('GET', `/templates/${templateID}/builds/${buildID}/status`, { key });
      if (json.status === 'ready' || json.status === 'error') return json;
      if (performance.now() > endMs) throw new Error('the build did not end');
      await sleep(20);
    }
  };
  const build = async (body: object): Promise<Json> => await end(await begin(body));
  return { ...fixture, keyring, e2b, key, keyId, begin, end, build };
}

const printing =
  (text: string): Script =>
  (exec) => {
    exec.events.started?.(7);
    if (exec.request.cmd.at(-1) === 'env') exec.output('stdout', text);
    exec.exit();
  };

const env = (...args: readonly string[]) => ({ type: 'ENV', args });

t.test('values that name each other do not grow without bound', async (t) => {
  const { build } = await start(t);
  const long = 'x'.repeat(60_000);
  for (const steps of [
    [env('A', long), env('B', '$A'.repeat(200))],
    [env('A', long), env('B', '$A'.repeat(30_000))],
    [env('A', 'x'.repeat(200)), env('A', '$A'.repeat(200)), env('B', '$A')],
    [env('A', 'x'.repeat(40_000), 'B', 'x'.repeat(40_000))],
  ]) {
    const { status, reason } = await build({ steps });
    t.match([status, reason?.message], ['error', /characters/]);
    t.equal(reason?.step, String(steps.length === 3 ? 3 : steps.length));
  }
});

t.test('the variables of the guest are read within bounds', async (t) => {
  const { build, sandboxes } = await start(t);
  sandboxes.script = printing('X=1\nEMPTY=\nnoise\n__proto__=2\n');
  t.equal(
    (await build({ steps: [env('A', '$X-$EMPTY-$constructor', 'B', '\\$X'), { type: 'RUN', args: ['x'] }] }))
      .status,
    'ready',
  );
  t.match(sandboxes.execs.at(-1)?.request.env, { A: '1--', B: '$X' });

  const flood: string[] = [];
  sandboxes.script = (exec) => {
    exec.events.started?.(7);
    if (exec.request.cmd.at(-1) !== 'env') return exec.exit();
    t.equal(exec.request.timeout_s, 30);
    const write = (): void => {
      if (exec.isCancelled) return;
      exec.output('stdout', 'yes\n'.repeat(4000));
      flood.push('');
      setImmediate(write);
    };
    write();
  };
  const { status, reason } = await build({ steps: [env('A', '$X')] });
  t.match([status, reason], ['error', { step: '1', message: /printed more than/ }]);
  t.ok(flood.length < 1000, `${flood.length}`);
});

t.test('the ready command has what is left of its time', async (t) => {
  const { build, sandboxes } = await start(t);
  const limits: (number | undefined)[] = [];
  sandboxes.script = (exec) => {
    exec.events.started?.(7);
    if (exec.request.cmd.at(-1) === 'ready') limits.push(exec.request.timeout_s);
    exec.exit({ exitCode: limits.length === 1 ? 1 : 0 });
  };
  t.equal((await build({ readyCmd: 'ready' })).status, 'ready');
  t.equal(limits[0], 300);
  t.ok((limits[1] ?? 301) <= 300);
});

t.test('a build ends when its key is revoked, also in the midst of a step', async (t) => {
  const { e2b, keyring, keyId, begin, sandboxes } = await start(t);
  sandboxes.script = (exec) => exec.events.started?.(7);
  const ids = await begin({ steps: [{ type: 'RUN', args: ['sleep'] }] });
  await until(() => sandboxes.execs.length > 0);
  await keyring.registry.revoke(keyId);
  await until(() => sandboxes.execs.at(-1)?.isCancelled === true);
  const { text: key } = await keyring.registry.create({ name: 'two', tenant: 'a' }, 'e2b');
  const at = `/templates/${ids.templateID}/builds/${ids.buildID}/status`;
  await until(() => !e2b.builder.isHidden(sandboxes.execs.at(-1)?.id ?? ''));
  let last: Json;
  for (last = {}; last.status !== 'error'; await sleep(20)) last = (await e2b.ask('GET', at, { key })).json;
  t.match(last.reason.message, /key of the build is not valid/);
});

t.test('an upload ends with its build, is audited, and its address does not last', async (t) => {
  const { e2b, key } = await start(t);
  const { json: ids } = await e2b.ask('POST', '/v3/templates', { key, body: { name: 'mine' } });
  const hash = 'a'.repeat(64);
  const { url } = (await e2b.ask('GET', `/templates/${ids.templateID}/files/${hash}`, { key })).json;
  const token = url.split('/').at(-1);
  const nowMs = Date.now();
  const what = `${ids.templateID} ${hash}`;
  t.ok(e2b.records.uploaderOf(what, token, nowMs + 3_500_000));
  t.notOk(e2b.records.uploaderOf(what, token, nowMs + 3_700_000));
  const later = token.slice(0, 16) + 'f'.repeat(10) + token.slice(26);
  t.notOk(e2b.records.uploaderOf(what, later, nowMs), 'its end is part of what is signed');

  let sent = 0;
  const body = new ReadableStream({
    pull: async (controller) => {
      await sleep(20);
      sent += 1;
      controller.enqueue(new Uint8Array(10));
      if (sent === 5) await e2b.ask('DELETE', `/templates/${ids.templateID}`, { key });
      if (sent === 500) controller.close();
    },
  });
  const answer = await fetch(url, { method: 'PUT', body, duplex: 'half' } as RequestInit).catch(
    () => undefined,
  );
  t.ok(answer === undefined || answer.status === 404, `${answer?.status}`);
  t.ok(sent < 500, `it is cut after ${sent} pieces`);
  const records = e2b.audited.filter(({ key: name, status }) => name === 'one' && status === 404);
  t.equal(records.length, 1);
  t.notMatch(JSON.stringify(e2b.audited), token, 'its token is in no record');
});

t.test('pages may use processes, although their preflight names no sandbox', async (t) => {
  const { e2b } = await start(t);
  const preflight = async (path: string) =>
    await fetch(`${e2b.url}${path}`, {
      method: 'OPTIONS',
      headers: {
        origin: 'https://other.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'x-access-token, e2b-sandbox-id',
      },
    });
  for (const path of ['/process.Process/Start', '/filesystem.Filesystem/Stat', '/files', '/envs', '/metrics'])
    t.match(await preflight(path), { status: 204 }, path);
  for (const path of ['/sandboxes', '/process.Process', '/templates'])
    t.equal((await preflight(path)).status, 403);
});

t.test('copies of a snapshot of a copy have the user and directory of the template', async (t) => {
  const { e2b, key, build, sandboxes } = await start(t);
  sandboxes.onRead = async () => {
    const passwd = 'root:x:0:0::/root:/bin/sh\nann:x:1:1::/home/ann:/bin/sh\n';
    return { body: outflow(passwd), sizeBytes: passwd.length, contentBytes: passwd.length, entry: FILE };
  };
  const steps = [
    { type: 'USER', args: ['ann'] },
    { type: 'WORKDIR', args: ['/srv'] },
  ];
  t.equal((await build({ steps })).status, 'ready');
  const create = async (templateID: string) =>
    (await e2b.ask('POST', '/v2/sandboxes', { key, body: { templateID } })).json.sandboxID;
  const copy = await create('mine');
  const taken = await e2b.ask('POST', `/sandboxes/${copy}/snapshots`, { key, body: {} });
  const again = await create(taken.json.snapshotID);
  t.match(e2b.records.find(again.replace('sbx', 'sbx_'))?.defaults, { user: 'ann', workdir: '/srv' });
});
