// Names, labels and states of sandboxes on the command line.
import { Client } from '@sandboxd/client';
import t, { type Test } from 'tap';
import type { Images } from '../../../host-agent/src/images/index.ts';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import { runCommand } from '../../support/command.ts';
import { FakeImages } from '../fake-images.ts';
import { serve, UNKNOWN_ID } from '../support.ts';

t.setTimeout(120_000);

async function connect(t: Test) {
  const { url, sandboxes } = await serve(t);
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: t.testdir() };
  const { id } = sandboxes.add();
  return { sandboxes, id, run: (words: readonly string[]) => runCommand(words, env) };
}

t.test('a name is taken wherever an id is', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  const info = sandboxes.get(id).info;
  Object.assign(info, { name: 'web', labels: { team: 'a' } });
  const other = sandboxes.add();
  t.same(JSON.parse((await run(['inspect', 'web'])).stdout)[0].id, id);
  t.match(await run(['exec', 'web', 'true']), { code: 0 });
  t.match(await run(['ls', 'web:/srv']), { code: 0 });
  t.match(await run(['inspect', 'api']), {
    code: 1,
    stderr: /there is no sandbox or snapshot with the name api/,
  });
  t.equal((await run(['ps', '-q', '--label', 'team=a', '--state', 'running'])).stdout, `${id}\n`);
  t.match(
    await run(['update', 'web', '--label', 'b=c', '--label', 'team-', '--timeout', '1h', '--no-name']),
    {
      code: 0,
      stdout: `${id}\n`,
    },
  );
  t.match(sandboxes.patches, [{ name: null, labels: { b: 'c', team: null }, timeoutS: 3600 }]);
  t.match(await run(['update', 'web']), { code: 2, stderr: /a flag is missing/ });
  Object.assign(other, { name: 'web' });
  t.match(await run(['inspect', 'web']), {
    code: 2,
    stderr: /several sandboxes or snapshots have the name web: sbx_.*; give an id/,
  });
  Object.assign(other, { name: 'api' });
  t.match(await run(['rm', 'nosuch', 'api']), { code: 1, stdout: `${other.id}\n`, stderr: /name nosuch/ });
  await run(['run', '-d', '--name', 'new', '--label', 'a=b', 'base']);
  t.match(sandboxes.created.at(-1), { name: 'new', labels: { a: 'b' } });
});

t.test('pause, resume and ps say of each sandbox what became of it', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  Object.assign(sandboxes.get(id).info, { name: 'web' });
  const states = async () =>
    JSON.parse((await run(['ps', '--json'])).stdout).map(({ state }: { state: string }) => state);
  t.match(await run(['pause', 'web', UNKNOWN_ID]), { code: 1, stdout: `${id}\n`, stderr: /does not exist/ });
  t.same(await states(), ['paused']);
  t.match((await run(['ps'])).stdout, new RegExp(`^${id} +web +paused +base `, 'm'));
  t.equal((await run(['ps', '-q', '--state', 'paused'])).stdout, `${id}\n`);
  t.match(await run(['resume', 'web']), { code: 0, stdout: `${id}\n`, stderr: '' });
  t.same(await states(), ['running']);
  t.match(
    await run([
      'run',
      '--timeout',
      '1h',
      '--timeout-action',
      'pause',
      '--idle-timeout',
      '1m',
      '--idle-action',
      'pause',
      'base',
    ]),
    { code: 0 },
  );
  t.match(sandboxes.created.at(-1), {
    timeoutS: 3600,
    timeoutAction: 'pause',
    idle: { timeoutS: 60, action: 'pause' },
  });
  t.match(await run(['update', '--idle-action', 'pause', 'web']), { code: 0 });
  t.match(sandboxes.patches.at(-1), { idleAction: 'pause' });
});

t.test('snapshots and images have labels, names and comments, too', async (t) => {
  const images = new FakeImages();
  const { url, sandboxes } = await serve(t, { images: images.store as Images });
  const env = { SANDBOXD_HOST: url, XDG_CONFIG_HOME: t.testdir(), OWN: 'of here' };
  const run = (...words: string[]) => runCommand(words, env);
  const { id } = sandboxes.add();
  const taken = await run('snapshot', '--name', 'gold', '-l', 'stage=raw', '--comment', 'first', id);
  const snapshot = taken.stdout.trim();
  t.match(
    await run('update', 'gold', '-l', 'stage=ready', '-l', 'app.example/x=', '--comment', 'two words'),
    {
      code: 0,
      stdout: `${snapshot}\n`,
    },
  );
  const labels = { stage: 'ready', 'app.example/x': '' };
  t.match(sandboxes.snapshots.get(snapshot), { name: 'gold', comment: 'two words', labels });
  t.equal((await run('snapshots', '-q', '-l', 'stage=ready', '-l', 'app.example/x')).stdout, `${snapshot}\n`);
  t.equal((await run('snapshots', '-q', '-l', 'stage=raw')).stdout, '');
  t.match(
    await run('fork', '--name', 'copy', '-l', 'a=b', '-l', 'stage-', '-e', 'A=1=2', '-e', 'OWN', 'gold'),
    { code: 0 },
  );
  t.same(sandboxes.forked.at(-1), {
    name: 'copy',
    labels: { a: 'b', stage: null },
    env: { A: '1=2', OWN: 'of here' },
  });
  t.match(await run('update', '--no-name', '--no-comment', '-l', 'stage-', snapshot), { code: 0 });
  t.notOk('comment' in (sandboxes.snapshots.get(snapshot) ?? {}));
  t.match(await run('update', '--image', '-l', 'stage=tested', 'nginx:alpine'), {
    code: 0,
    stdout: /^sha256:/,
  });
  t.same(images.labels, { stage: 'tested' });
  t.equal((await run('images', '-q', '-l', 'stage=tested')).stdout, 'nginx:alpine\n');
  for (const [words, stderr] of [
    [[snapshot, '--timeout', '1h'], /--timeout is not for snapshots, which have --name/],
    [[id, '--comment', 'x'], /--comment is not for sandboxes/],
    [['--image', 'nginx', '--name', 'x'], /--name is not for images, which have --label/],
    [[snapshot, '--comment', 'x', '--no-comment'], /--comment and --no-comment exclude each other/],
    [[snapshot], /a flag is missing: --name/],
    [['gold', '-l', 'x'], /there is no sandbox or snapshot|--label must be key=value/],
  ] as const)
    t.match(await run('update', ...words), { stderr }, words.join(' '));
  Object.assign(sandboxes.get(id).info, { name: 'both' });
  await run('update', '--name', 'both', snapshot);
  t.match(await run('rm', 'both'), { code: 1, stderr: /several sandboxes or snapshots have the name both/ });
  t.equal(sandboxes.list().length + sandboxes.snapshots.size, 3, 'nothing was removed by a guess');
});

t.test('ps lists, and rm removes, the sandboxes that match all filters', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  const ids = [id, ...Array.from({ length: 3 }, () => sandboxes.add().id)].sort();
  const [web = '', job = '', old = '', nginx = ''] = ids;
  const rootfs = { kind: 'image', name: 'nginx:alpine', imageDigest: `sha256:${'a'.repeat(64)}` };
  Object.assign(sandboxes.get(web).info, { name: 'web', labels: { team: 'a' } });
  Object.assign(sandboxes.get(job).info, { labels: { team: 'b' } });
  Object.assign(sandboxes.get(old).info, { labels: { team: 'b' }, state: 'failed' });
  Object.assign(sandboxes.get(nginx).info, { rootfs });
  const list = async (...flags: string[]) =>
    (await run(['ps', '-q', ...flags])).stdout.split('\n').slice(0, -1);
  t.same(await list('--name', 'web'), [web]);
  t.same(await list('--profile', 'base'), [web, job, old]);
  t.same(await list('--image', 'nginx:alpine'), [nginx]);
  t.same(await list('--image', rootfs.imageDigest), [nginx]);
  t.same(await list('--limit', '2'), [web, job]);
  t.same(await list('--limit', '9'), ids);
  t.same(await list('--label', 'team=b', '--state', 'running', '--limit', '1'), [job]);
  t.same(await list('--name', 'nosuch'), []);
  for (const [words, stderr] of [
    [['ps', '--limit', 'x'], /--limit must be a whole number, not "x"/],
    [['ps', '--name', ''], /--name must not be empty/],
    [['rm'], /an argument is missing/],
    [['rm', '--label', ''], /--label must not be empty/],
    [['rm', '--state='], /--state must not be empty/],
    [['rm', '--label', 'team', web], /filters choose the sandboxes/],
    [['rm', '-a', '--label', 'team'], /filters choose the sandboxes/],
    [['rm', '-r', '--profile', 'base'], /filters choose the sandboxes/],
  ] as const)
    t.match(await run(words), { code: 2, stdout: '', stderr }, words.join(' '));
  for (const [words, stderr] of [
    [['ps', '--limit', '0'], /query limit must be/],
    [['ps', '--state', 'asleep'], /query state must be one of/],
    [['rm', '--label', '='], /query label must be key or key=value/],
    [['rm', '--state', 'asleep'], /query state must be one of/],
  ] as const)
    t.match(await run(words), { code: 1, stdout: '', stderr }, words.join(' '));
  t.same(await list(), ids, 'nothing was removed');
  t.same(await run(['rm', '--label', 'team=b', '--state', 'failed']), {
    code: 0,
    stdout: `${old}\n`,
    stderr: '',
  });
  t.same(await run(['rm', '--name', 'nosuch']), { code: 0, stdout: '', stderr: '' });
  t.same(JSON.parse((await run(['rm', '--image', 'nginx:alpine', '--json'])).stdout), {
    removed: 1,
    deleted: [nginx],
    failed: [],
  });
  t.same(await list(), [web, job]);
  sandboxes.deleteAll = async () => ({
    deleted: [web],
    failed: [{ id: job, error: new AppError('internal', 'the VMM does not exit') }],
  });
  const failure = 'the VMM does not exit';
  t.same(await run(['rm', '-l', 'team']), {
    code: 1,
    stdout: `${web}\n`,
    stderr: `sandbox: ${job}: ${failure}\n`,
  });
  const { code, stdout, stderr } = await run(['rm', '-l', 'team', '--json']);
  t.same([code, stderr], [1, '']);
  t.same(JSON.parse(stdout), {
    removed: 1,
    deleted: [web],
    failed: [{ id: job, error: failure, code: 'internal' }],
  });
});

t.test('the library lists at most as many as it is asked for, over several pages', async (t) => {
  const { url, sandboxes } = await serve(t);
  const ids = Array.from({ length: 1203 }, () => sandboxes.add().id).sort();
  const client = new Client({ host: url });
  for (const limit of [1, 500, 501, 1000, 1203, 5000]) {
    const found = await client.sandboxes.list({ limit });
    t.same(
      found.map(({ id }) => id),
      ids.slice(0, limit),
      String(limit),
    );
  }
  t.equal((await client.sandboxes.list()).length, ids.length);
  for (const limit of [0, -1, 1.5])
    await t.rejects(client.sandboxes.list({ limit }), { name: 'BadRequestError' }, String(limit));
  await t.rejects(client.sandboxes.deleteAll({}), { name: 'BadRequestError' }, 'needs a filter');
  await t.rejects(client.sandboxes.deleteAll({ label: [] }), { name: 'BadRequestError' });
  t.equal(sandboxes.list().length, ids.length);
});
