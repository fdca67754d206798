// A lost or moved registry must not open a daemon that had keys: which clients are let in, what is logged, and how a
// key is created again.
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rename, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { warnOfNoKeys } from '../../../../host-agent/src/app/open-store.ts';
import { Authenticator } from '../../../../host-agent/src/http/index.ts';
import { KeyRegistry, type KeyRegistryOptions } from '../../../../host-agent/src/keys/index.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';

const ROOT = resolve(import.meta.dirname, '../../../..');
const LISTEN = { host: '127.0.0.1', port: 7878 };

async function makeDir(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'lost-'));
  t.teardown(() => rm(dir, { recursive: true }));
  return { dir, path: join(dir, 'state.lmdb'), mark: join(dir, 'keys-required') };
}

/** How a daemon starts on this registry, until `use` resolves. */
async function start<T>(
  path: string,
  use: (seen: {
    keys: KeyRegistry;
    logged: readonly { level: number; msg: string }[];
    isLetIn: (key?: string) => Promise<boolean>;
  }) => Promise<T>,
  options?: KeyRegistryOptions,
): Promise<T> {
  const store = await Store.open(path);
  try {
    const logged: { level: number; msg: string }[] = [];
    const log = pino({}, { write: (line: string) => void logged.push(JSON.parse(line)) });
    const keys = new KeyRegistry(store, options);
    await keys.ensureMark();
    warnOfNoKeys({ listen: LISTEN, requiresKeys: options?.isRequired === true, fleet: undefined }, keys, log);
    const authenticator = new Authenticator(keys, log);
    const isLetIn = (key?: string) =>
      authenticator
        .authenticate({
          authorization: key === undefined ? undefined : `Bearer ${key}`,
          protocols: undefined,
          address: '127.0.0.1',
        })
        .then(
          () => true,
          () => false,
        );
    return await use({ keys, logged, isLetIn });
  } finally {
    await store.close();
  }
}

const run = async (dir: string, ...words: string[]) => {
  const program = join(ROOT, 'host-agent/src/main.ts');
  const { stdout, stderr } = await promisify(execFile)(process.execPath, [
    program,
    ...words,
    '--data-dir',
    dir,
  ]);
  return { stdout: stdout.trim(), stderr };
};

t.test('a daemon whose registry is gone requires a key until one exists again', async (t) => {
  const { dir, path, mark } = await makeDir(t);
  await start(path, async ({ keys }) => {
    await keys.create({ name: 'alice' });
  });
  t.equal((await stat(mark)).mode & 0o777, 0o600);
  await rename(path, `${path}.away`);
  await start(path, async ({ keys, logged, isLetIn }) => {
    t.ok(keys.isClosed);
    t.notOk(await isLetIn());
    t.match(logged, [{ level: 50, msg: /keys existed before.*no client is accepted.*keys create/ }]);
    t.match(await run(dir, 'keys', 'list'), { stderr: /no client is accepted, because keys existed before/ });
    const { stdout: key } = await run(dir, 'keys', 'create', 'alice');
    t.notOk(await isLetIn());
    t.ok(await isLetIn(key), 'without a restart');
  });
  await start(path, async ({ logged, isLetIn }) => {
    t.same(logged, []);
    t.notOk(await isLetIn());
  });
});

t.test('each start without keys logs a warning', async (t) => {
  const { path, mark } = await makeDir(t);
  for (let n = 0; n < 2; n++)
    await start(path, async ({ logged, isLetIn }) => {
      t.match(logged, [
        {
          level: 40,
          msg: /there are no keys: every client that can reach 127\.0\.0\.1:7878 has full access/,
        },
      ]);
      t.ok(await isLetIn());
    });
  t.notOk(existsSync(mark));
  await start(
    path,
    async ({ logged, isLetIn, keys }) => {
      t.match(logged, [{ level: 40, msg: /require_keys is set: no client is accepted/ }]);
      t.notOk(await isLetIn());
      const { text } = await keys.create({ name: 'first' });
      t.ok(await isLetIn(text));
    },
    { isRequired: true },
  );
});

t.test('a registry older than marks gets one at the next start', async (t) => {
  const { path, mark } = await makeDir(t);
  await start(path, ({ keys }) => keys.create({ name: 'old' }));
  await rm(mark);
  await start(path, async () => t.ok(existsSync(mark)));
  await rename(path, `${path}.away`);
  await start(path, async ({ isLetIn }) => t.notOk(await isLetIn()));
});

t.test('revoked and expired keys count as keys, and an empty registry has none', async (t) => {
  const { path } = await makeDir(t);
  await start(path, async ({ keys }) => {
    await keys.create({ name: 'a' });
    await keys.revoke('a');
  });
  await start(path, async ({ logged, isLetIn }) => {
    t.same(logged, []);
    t.notOk(await isLetIn());
  });
  // An empty file is an empty registry.
  await writeFile(path, '');
  await start(path, async ({ isLetIn }) => t.notOk(await isLetIn()));
});

t.test('a mark that is a dangling link is a mark', async (t) => {
  const { path, mark } = await makeDir(t);
  await symlink('/nowhere/keys-required', mark);
  await start(path, async ({ isLetIn }) => t.notOk(await isLetIn()));
});

t.test('a key that cannot be marked is not created', async (t) => {
  const { path, mark } = await makeDir(t);
  await start(path, async ({ keys }) => {
    await promisify(execFile)('mkdir', [mark]);
    await t.rejects(keys.create({ name: 'a' }));
    t.same(keys.list(), []);
  });
});
