// Builds of E2B's templates whose steps run: what a program in the guest, or a key, may make of them.
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type Json, serveE2b } from './e2b-front.ts';
import type { Script } from './fake-exec.ts';
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
