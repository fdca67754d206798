// `sandboxd secrets`: beside a daemon or before the first one, with the key that the daemon seals with, and no value in
// any output.
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Sealer } from '../../../../host-agent/src/lib/seal.ts';
import { markSealKey, SecretSources, SecretStore } from '../../../../host-agent/src/secrets/index.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { DAEMON_PROGRAM } from '../../../support/leftovers.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(300_000));
const VALUE = 'ghp_an-example-of-a-value';

async function makeDir(t: Test): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'secrets-command-'));
  t.teardown(() => rm(dir, { recursive: true }));
  return dir;
}

function run(dir: string, words: readonly string[], input = '') {
  return new Promise<{ code: number; stdout: string; stderr: string }>((settle) => {
    const all = ['secrets', ...words, '--data-dir', dir];
    const child = execFile(DAEMON_PROGRAM, all, (error, stdout, stderr) =>
      settle({ code: Number(error?.code ?? 0), stdout, stderr }),
    );
    child.stdin?.on('error', () => undefined);
    child.stdin?.end(input);
  });
}

async function openStore(t: Test, dir: string, sealer = new Sealer({ dataDir: dir })) {
  const store = await Store.open(join(dir, 'state.lmdb'));
  t.teardown(() => store.close());
  const sources = new SecretSources({ files: new Map(), commands: new Map(), credentials: new Map() });
  return {
    store,
    sealer,
    secrets: new SecretStore({ store, sealer, sources, log: pino({ level: 'silent' }) }),
  };
}

t.test('set, list and remove, and the daemon has it', async (t) => {
  const dir = await makeDir(t);
  const set = ['set', 'acme/github', '--host', 'api.github.com', '--host', '*.github.com'];
  t.match(await run(dir, set, `${VALUE}\n`), { code: 0, stdout: 'acme/github: stored\n', stderr: '' });
  const file = join(dir, 'value');
  await writeFile(file, `${VALUE}-own`);
  t.match(await run(dir, ['set', 'own', '--host', 'a.test', '--file', file]), { stdout: 'own: stored\n' });
  const { store, sealer, secrets } = await openStore(t, dir);
  markSealKey(store, sealer);
  t.equal((await secrets.content('acme', 'github'))?.value?.toString(), VALUE);
  t.equal((await secrets.content('', 'own'))?.value?.toString(), `${VALUE}-own`);
  secrets.noteUse('acme', 'github');
  await secrets.close();
  const listed = await run(dir, ['list', '--json']);
  t.match(JSON.parse(listed.stdout), [
    { name: 'own', hosts: ['a.test'], uses: 0 },
    { name: 'github', tenant: 'acme', hosts: ['api.github.com', '*.github.com'], uses: 1 },
  ]);
  t.match(
    (await run(dir, ['list'])).stdout,
    /acme\/github: [0-9a-f]{12}, for api.github.com, .*used last at /,
  );
  t.match(await run(dir, set, `${VALUE}-2`), { stdout: 'acme/github: changed\n' });
  t.equal((await secrets.content('acme', 'github'))?.value?.toString(), `${VALUE}-2`);
  t.match(await run(dir, ['remove', 'acme/github', 'own']), {
    stdout: 'acme/github: removed\nown: removed\n',
  });
  t.strictSame(secrets.scopes(), []);
  t.match(await run(dir, ['remove', 'acme/github']), { code: 1, stderr: /does not exist/ });
  t.notOk((await readFile(join(dir, 'state.lmdb'))).includes(VALUE));
});

t.test('what makes no sense is refused without the value', async (t) => {
  const dir = await makeDir(t);
  for (const [words, input, problem] of [
    [['set', 'x', '--host', 'nowhere'], VALUE, /hosts/],
    [['set', 'x', '--host', 'a.test'], `${VALUE}\nmore`, /printable ASCII/],
    [['set', 'x', '--host', 'a.test'], 'v'.repeat(70_000), /more than 65536/],
    [['set', 'A!/b', '--host', 'a.test'], VALUE, /tenant/],
  ] as const) {
    const answer = await run(dir, words, input);
    t.match(answer, { code: 2, stdout: '', stderr: problem }, words.join(' '));
    t.notMatch(answer.stderr, VALUE);
  }
});

t.test('with another key than the daemon has, nothing is stored', async (t) => {
  const [dir, keys] = [await makeDir(t), await makeDir(t)];
  await writeFile(join(keys, 'secrets-key'), 'k'.repeat(32), { mode: 0o600 });
  const { store, sealer, secrets } = await openStore(
    t,
    dir,
    new Sealer({ dataDir: dir, credentialsDir: keys }),
  );
  markSealKey(store, sealer);
  await secrets.put('', 'gh', { value: VALUE, hosts: ['a.test'] });
  const refused = await run(dir, ['set', 'gh', '--host', 'a.test'], `${VALUE}-2`);
  t.match(refused, { code: 1, stderr: /seals secrets with another key/ });
  t.equal((await secrets.content('', 'gh'))?.value?.toString(), VALUE);
  const config = join(keys, 'config.json');
  await writeFile(config, JSON.stringify({ secrets_key_file: join(keys, 'secrets-key') }));
  const named = await run(dir, ['set', 'gh', '--host', 'a.test', '--config', config], `${VALUE}-2`);
  t.match(named, { code: 0, stdout: 'gh: changed\n' });
  t.equal((await secrets.content('', 'gh'))?.value?.toString(), `${VALUE}-2`);
});
