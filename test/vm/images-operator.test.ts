// `sandboxd images`: what the operator does on the host, beside a daemon that runs from the same directory.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { compileProgram } from '../support/image-program.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { scaled } from '../support/time-scale.ts';
import { type MadeImage, makeLayout, skopeo, stored, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);
const registry = await world.startRegistry();
const { api, directories } = await startDaemon(t, { flags: ['--template-disk-bytes', '0'] });
const { dataDir } = directories;
const program = compileProgram('gcc', '-static');
const makeImage = (version: string): MadeImage => ({
  layers: [[{ name: 'it', mode: 0o755, content: program }], [{ name: 'version', content: version }]],
  config: { Entrypoint: ['/it'] },
});

type Ran = { readonly code: number; readonly stdout: string; readonly stderr: string };
function images(words: readonly string[], input = ''): Promise<Ran> {
  const running = promisify(execFile)(DAEMON_PROGRAM, ['images', ...words, '--data-dir', dataDir]);
  running.child.stdin?.end(input === '' ? undefined : readFileSync(input));
  return running.then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code, stdout, stderr }) => ({ code, stdout, stderr }),
  );
}
const lines = (text: string) => text.split('\n').filter((line) => line !== '');
const known = async () => ((await api.ask('listImages')).images ?? []).map(({ digest }) => digest);

t.test('list, pull, import, rm and prune, and a daemon that sees each at once', async (t) => {
  t.same(await images(['list']), { code: 0, stdout: '', stderr: '' });
  const names = ['one', 'two'].map((name) => `${registry}/${name}`);
  for (const name of names) world.push(name, makeImage(name));
  const pulled = await images(['pull', ...names]);
  t.equal(pulled.code, 0, pulled.stderr);
  t.match(pulled.stderr, /^pulling \S+\/one:latest\n(.+\n)*converted 2 of 2 layers\n/);
  t.equal(lines(pulled.stdout).length, 2);
  t.match(lines(pulled.stdout)[0], /^sha256:[\da-f]{12} {2} +\d.* {2}\S+\/one:latest$/);
  t.equal((await images(['list'])).stdout, pulled.stdout);
  const listed = JSON.parse((await images(['list', '--json'])).stdout);
  t.match(listed, [{ convertMode: 'erofs' }, { convertMode: 'erofs' }]);
  t.same(
    await known(),
    listed.map(({ digest }: { digest: string }) => digest),
    'the daemon has them',
  );

  const saved = world.path('saved.tar');
  const layout = makeLayout(world.path('layout'), makeImage('three'));
  skopeo('copy', `oci:${layout}:latest`, `docker-archive:${saved}:saved/three:v1`);
  t.match(await images(['import', saved]), { code: 0, stdout: / {2}saved\/three:v1\n$/ });
  t.match(await images(['import', '-', '--tag', 'saved/three:v1'], saved), { code: 0 });
  t.equal((await known()).length, 3, 'the same again is the same');
  const [, , three = ''] = await known();

  const { id } = await api.ask('createSandbox', { body: { image: { oci: three }, pull: 'never' } });
  t.same(await images(['rm', `${registry}/one`]), { code: 0, stdout: '', stderr: '' });
  t.match(await images(['rm', `${registry}/one`]), { code: 1, stdout: '', stderr: /one is not here/ });
  t.equal((await known()).length, 2);
  t.same(await images(['prune']), { code: 0, stdout: '', stderr: '' }, 'both have a name');
  const pruned = await images(['prune', '--all']);
  t.match(lines(pruned.stdout), [listed[1].digest], 'what a sandbox runs from stays');
  t.same(await known(), [three]);
  t.match((await api.exec(id, ['/it', 'x'])).stdout, /^x uid=0/);
  await api.ask('deleteSandbox', { params: { id } });
});

t.test('what is wrong is one sentence, and leaves nothing', async (t) => {
  const before = stored(dataDir);
  const fails = async (words: readonly string[], code: number, stderr: RegExp) =>
    t.match(await images(words), { code, stdout: '', stderr }, words.join(' '));
  await fails(['pull', `${registry}/none`], 1, /cannot pull \S+\/none:latest: .*unknown/);
  await fails(['pull', 'No Such'], 1, /^(?!pulling).*No Such/);
  await fails(['import', '/dev/null'], 1, /empty/);
  await fails(['import', '/no/such'], 1, /no such file/);
  await fails(['rm', 'nothing'], 1, /image nothing is not here/);
  for (const verb of ['pull', 'import', 'rm']) await fails([verb], 2, /an argument is missing/);
  await fails(['frobnicate'], 2, /frobnicate/);
  t.same(stored(dataDir), before);
});
