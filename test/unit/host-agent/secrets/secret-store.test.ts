// Stored secrets: sealed in the registry, apart by tenant, and read from sources that the operator named.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { Sealer } from '../../../../host-agent/src/lib/seal.ts';
import { SecretSources, SecretStore } from '../../../../host-agent/src/secrets/index.ts';
import { readCommand } from '../../../../host-agent/src/secrets/sources.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { until } from '../../../support/until.ts';

const VALUE = 'ghp_an-example-of-a-value';
const HOSTS = ['api.github.com'];

async function open(t: Test, sources: Partial<ConstructorParameters<typeof SecretSources>[0]> = {}) {
  const dataDir = mkdtempSync(join(tmpdir(), 'secrets-store-'));
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }));
  const path = join(dataDir, 'state.lmdb');
  const store = await Store.open(path);
  t.teardown(() => store.close());
  const none = { files: new Map(), commands: new Map(), credentials: new Map() };
  const secrets = new SecretStore({
    store,
    sealer: new Sealer({ dataDir }),
    sources: new SecretSources({ ...none, ...sources }),
    log: pino({ level: 'silent' }),
  });
  return { dataDir, path, store, secrets };
}

const textOf = async (secrets: SecretStore, scope: string, name: string) =>
  (await secrets.content(scope, name))?.value?.toString() ?? null;

t.test('a value comes back for its scope alone, and the registry has it in no form', async (t) => {
  const { path, secrets, store } = await open(t);
  t.match(await secrets.put('acme', 'github', { value: VALUE, hosts: HOSTS }), {
    name: 'github',
    isNew: true,
  });
  t.equal(await textOf(secrets, 'acme', 'github'), VALUE);
  for (const scope of ['', 'other', 'acme/github'])
    t.equal(await secrets.content(scope, 'github'), undefined);
  await store.table('secrets').flush();
  const file = readFileSync(path);
  for (const form of [
    VALUE,
    Buffer.from(VALUE).toString('base64').slice(0, 20),
    Buffer.from(VALUE).toString('hex'),
  ])
    t.equal(file.indexOf(form), -1);
  const [shown] = secrets.list('acme');
  t.match(shown, { name: 'github', hosts: HOSTS, digest: /^[0-9a-f]{12}$/ });
  t.notMatch(JSON.stringify(shown), /sealed|valueBytes/);
});

t.test('a change has a new digest, keeps its age, and is told to listeners', async (t) => {
  const { secrets } = await open(t);
  const changes: string[] = [];
  secrets.onChange(async (scope, name) => {
    // A change is answered when those who use it know.
    await new Promise((done) => setTimeout(done, 20));
    changes.push(`${scope}:${name}`);
  });
  const first = await secrets.put('', 'a', { value: VALUE, hosts: HOSTS });
  t.equal(changes.length, 1);
  const next = await secrets.put('', 'a', { value: `${VALUE}2`, hosts: ['b.example'] });
  t.match(next, { isNew: false, hosts: ['b.example'], createdAtMs: first.createdAtMs });
  t.not(next.digest, first.digest);
  t.equal(await textOf(secrets, '', 'a'), `${VALUE}2`);
  await secrets.remove('', 'a');
  t.strictSame(changes, [':a', ':a', ':a']);
  t.equal(await secrets.content('', 'a'), undefined);
  await t.rejects(secrets.remove('', 'a'), { code: 'not_found' });
});

t.test('names of one tenant are not those of another whose name is longer', async (t) => {
  const { secrets } = await open(t);
  for (const scope of ['', 'a', 'a.b', 'ab']) await secrets.put(scope, 'x', { value: VALUE, hosts: HOSTS });
  for (const scope of ['', 'a', 'a.b', 'ab']) t.equal(secrets.list(scope).length, 1, scope);
});

t.test('a tenant has at most so many bytes of values', async (t) => {
  const { secrets } = await open(t);
  const value = 'v'.repeat(65_536);
  for (let n = 0; n < 64; n++) await secrets.put('acme', `s${n}`, { value, hosts: HOSTS });
  await t.rejects(secrets.put('acme', 'more', { value: VALUE, hosts: HOSTS }), { code: 'conflict' });
  await secrets.put('acme', 's0', { value, hosts: HOSTS });
  await secrets.put('other', 'more', { value: VALUE, hosts: HOSTS });
});

t.test('sources: only those that the operator named, each for its tenant', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'secrets-sources-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const [file, command, credential] = [join(dir, 'file'), join(dir, 'command'), join(dir, 'gh')];
  writeFileSync(file, `${VALUE}\n`);
  writeFileSync(command, `#!/bin/sh\nprintf '%s-by-command' '${VALUE}'\n`);
  chmodSync(command, 0o755);
  writeFileSync(credential, VALUE);
  const { secrets } = await open(t, {
    files: new Map([['acme/gh', { path: file }]]),
    commands: new Map([['vault', { path: command }]]),
    credentials: new Map([['gh', { path: '' }]]),
    credentialsDir: dir,
  });
  await secrets.put('acme', 'from-file', { source: { file: 'gh' }, hosts: HOSTS });
  t.equal(await textOf(secrets, 'acme', 'from-file'), VALUE);
  await secrets.put('', 'from-command', { source: { command: 'vault' }, hosts: HOSTS });
  t.equal(await textOf(secrets, '', 'from-command'), `${VALUE}-by-command`);
  await secrets.put('', 'from-credential', { source: { credential: 'gh' }, hosts: HOSTS });
  t.equal(await textOf(secrets, '', 'from-credential'), VALUE);
  for (const [scope, source] of [
    ['', { file: 'gh' }],
    ['other', { file: 'gh' }],
    ['acme', { command: 'vault' }],
    ['acme', { credential: 'gh' }],
    ['', { credential: '../etc/shadow' }],
    ['', { file: file }],
  ] as const)
    await t.rejects(secrets.put(scope, 'x', { source, hosts: HOSTS }), { code: 'forbidden' });
});

t.test(
  'a source that fails says so without what it wrote, and never gives an old value for ever',
  async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'secrets-sources-'));
    t.teardown(() => rmSync(dir, { recursive: true, force: true }));
    const [command, file] = [join(dir, 'command'), join(dir, 'file')];
    writeFileSync(command, `#!/bin/sh\necho '${VALUE}' >&2; echo '${VALUE}'; exit 3\n`);
    chmodSync(command, 0o755);
    writeFileSync(file, 'short');
    const { secrets } = await open(t, {
      commands: new Map([['vault', { path: command }]]),
      files: new Map([['f', { path: file }]]),
    });
    const failure = await secrets
      .put('', 'x', { source: { command: 'vault' }, hosts: HOSTS })
      .catch((error) => error);
    t.match(failure, { code: 'internal', message: /from command vault: it failed/ });
    t.notMatch(`${failure.message} ${String(failure.cause)} ${failure.stack}`, VALUE);
    await t.rejects(secrets.put('', 'x', { source: { file: 'f' }, hosts: HOSTS }), {
      message: /printable ASCII characters/,
    });
  },
);

t.test(
  'a source that is read slowly never gives its value to a secret that has another one now',
  async (t) => {
    const dir = mkdtempSync(join(tmpdir(), 'secrets-sources-'));
    t.teardown(() => rmSync(dir, { recursive: true, force: true }));
    const [slow, file, gate] = [join(dir, 'slow'), join(dir, 'file'), join(dir, 'gate')];
    writeFileSync(
      slow,
      `#!/bin/sh\nwhile [ ! -e ${gate} ]; do sleep 0.02; done\nprintf %s '${VALUE}-slow'\n`,
    );
    chmodSync(slow, 0o755);
    writeFileSync(file, VALUE);
    const options = {
      commands: new Map([['slow', { path: slow }]]),
      files: new Map([['f', { path: file }]]),
    };
    const { secrets, store } = await open(t, options);
    await secrets.put('', 'x', { source: { file: 'f' }, hosts: ['a.example'] });
    const table = store.table<Record<string, unknown>>('secrets');
    const [{ id = '', record = {} } = {}] = table.all();
    await table.put(id, { ...record, source: { command: 'slow' }, changedAtMs: 1 });
    const early = secrets.content('', 'x');
    await secrets.put('', 'x', { source: { file: 'f' }, hosts: ['b.example'] });
    writeFileSync(gate, '');
    for (const content of [await early, await secrets.content('', 'x')]) {
      t.strictSame(content?.hosts, ['b.example']);
      t.equal(content?.value?.toString(), VALUE);
    }
  },
);

t.test('a command runs once at a time, whatever asks for it, and gets no input', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'secrets-sources-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const [command, starts] = [join(dir, 'command'), join(dir, 'starts')];
  writeFileSync(command, `#!/bin/sh\ncat\necho x >> ${starts}\nsleep 0.3\nprintf %s '${VALUE}'\n`);
  chmodSync(command, 0o755);
  const { secrets } = await open(t, { commands: new Map([['c', { path: command }]]) });
  const names = Array.from({ length: 40 }, (_, n) => `s${n}`);
  await Promise.all(names.map((name) => secrets.put('', name, { source: { command: 'c' }, hosts: HOSTS })));
  t.equal(readFileSync(starts, 'utf8'), 'x\n');
  for (const name of names) t.equal(await textOf(secrets, '', name), VALUE);
  t.equal(readFileSync(starts, 'utf8'), 'x\n');
});

t.test('what a command started ends with its time', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'secrets-sources-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const [command, pid] = [join(dir, 'command'), join(dir, 'pid')];
  writeFileSync(command, `#!/bin/sh\nsleep 600 &\necho $! > ${pid}\nwait\n`);
  chmodSync(command, 0o755);
  await t.rejects(readCommand(command, { maxBytes: 10, timeoutMs: 500 }), { message: 'it took too long' });
  const child = Number(readFileSync(pid, 'utf8'));
  await until(() => !isRunning(child));
  await t.rejects(readCommand('/dev/zero', { maxBytes: 10, timeoutMs: 500 }));
  writeFileSync(command, '#!/bin/sh\nexec cat /dev/zero\n');
  await t.rejects(readCommand(command, { maxBytes: 10, timeoutMs: 20_000 }), {
    message: /more than 10 bytes/,
  });
});

t.test('a source that is bound to hosts gives its value to no other', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'secrets-sources-'));
  t.teardown(() => rmSync(dir, { recursive: true, force: true }));
  const file = join(dir, 'file');
  writeFileSync(file, VALUE);
  const files = new Map([['gh', { path: file, hosts: ['api.github.com', '*.files.test'] }]]);
  const { secrets } = await open(t, { files });
  const put = (hosts: string[]) => secrets.put('', 'x', { source: { file: 'gh' }, hosts });
  for (const hosts of [['evil.test'], ['api.github.com', 'evil.test'], ['**.files.test'], ['github.com']]) {
    const refused = await put(hosts).catch((error) => error);
    t.match(refused, {
      code: 'forbidden',
      message: /has bound file gh to api.github.com, \*.files.test, and hosts\[/,
    });
    t.notMatch(refused.message, /evil|\*\*/, 'not what was asked for, which may be a value');
  }
  t.match(await put(['api.github.com', 'a.files.test']), { hosts: ['api.github.com', 'a.files.test'] });
  t.equal(await textOf(secrets, '', 'x'), VALUE);
  files.set('gh', { path: file, hosts: ['*.files.test'] });
  t.match(await secrets.content('', 'x'), { hosts: ['a.files.test'] }, 'narrowed by the operator since');
  t.strictSame(secrets.hostsOf('', 'x'), ['a.files.test']);
  t.match(secrets.get('', 'x'), { hosts: ['a.files.test'] });
  files.delete('gh');
  t.match(await secrets.content('', 'x'), { hosts: [], value: null }, 'not there any more');
});

t.test('uses are counted, stay through a restart, and end with the secret', async (t) => {
  const { secrets, store, dataDir } = await open(t);
  await secrets.put('acme', 'gh', { value: VALUE, hosts: HOSTS });
  t.equal(secrets.get('acme', 'gh').use, undefined);
  const before = Date.now();
  for (let n = 0; n < 5; n++) secrets.noteUse('acme', 'gh');
  for (let n = 0; n < 2000; n++) secrets.noteUse('acme', `none-${n}`);
  const { use } = secrets.get('acme', 'gh');
  t.equal(use?.count, 5);
  t.ok((use?.lastAtMs ?? 0) >= before);
  await secrets.close();
  t.equal(store.table('secret_uses').all().length, 1, 'of secrets that exist alone');
  const log = pino({ level: 'silent' });
  const none = { files: new Map(), commands: new Map(), credentials: new Map() };
  const sealer = new Sealer({ dataDir });
  const next = new SecretStore({ store, sealer, sources: new SecretSources(none), log });
  t.equal(next.list('acme')[0]?.use?.count, 5);
  await next.put('acme', 'gh', { value: `${VALUE}2`, hosts: HOSTS });
  t.equal(next.get('acme', 'gh').use?.count, 5, 'a rotation keeps it');
  await next.remove('acme', 'gh');
  await next.put('acme', 'gh', { value: VALUE, hosts: HOSTS });
  t.equal(next.get('acme', 'gh').use, undefined);
});

t.test('a command beside the daemon: its change is seen at once, and is passed on once', async (t) => {
  const { secrets, store, dataDir } = await open(t);
  const none = { files: new Map(), commands: new Map(), credentials: new Map() };
  const [sources, log] = [new SecretSources(none), pino({ level: 'silent' })];
  const beside = new SecretStore({ store, sealer: new Sealer({ dataDir }), sources, log, by: 'admin' });
  await secrets.put('acme', 'gh', { value: VALUE, hosts: HOSTS });
  const told: string[] = [];
  secrets.onChange(async (scope, name) => void told.push(`${scope}/${name}`));
  await beside.put('acme', 'gh', { value: `${VALUE}2`, hosts: HOSTS });
  await beside.put('', 'own', { value: VALUE, hosts: HOSTS });
  await beside.remove('', 'own');
  t.equal(await textOf(secrets, 'acme', 'gh'), `${VALUE}2`);
  t.strictSame(told, []);
  const changes: object[] = [];
  await secrets.takeChanges((change) => void changes.push(change));
  await secrets.takeChanges((change) => void changes.push(change));
  t.match(changes, [
    { change: 'changed', scope: 'acme', name: 'gh', by: 'admin' },
    { change: 'created', scope: '', name: 'own' },
    { change: 'removed', scope: '', name: 'own' },
  ]);
  t.strictSame(told.sort(), ['/own', '/own', 'acme/gh']);
  t.notMatch(JSON.stringify(changes), VALUE);
  t.strictSame(beside.scopes(), ['acme']);
});

t.test('a change of a command whose record cannot be removed is told once', async (t) => {
  const { secrets, store, dataDir } = await open(t);
  const none = { files: new Map(), commands: new Map(), credentials: new Map() };
  const [sources, log] = [new SecretSources(none), pino({ level: 'silent' })];
  const beside = new SecretStore({ store, sealer: new Sealer({ dataDir }), sources, log, by: 'admin' });
  await beside.put('acme', 'gh', { value: VALUE, hosts: HOSTS });
  const changes: object[] = [];
  const take = () => secrets.takeChanges((change) => void changes.push(change));
  const tables = Object.getPrototypeOf(store.table('secret_changes'));
  const { remove } = tables;
  t.teardown(() => Object.assign(tables, { remove }));
  Object.assign(tables, { remove: () => Promise.reject(new Error('no space left on device')) });
  await t.rejects(take(), /no space left/);
  await t.rejects(take(), /no space left/);
  Object.assign(tables, { remove });
  await take();
  await take();
  t.equal(changes.length, 1);
});

/** One that ended may wait for its parent to notice. */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}
