// `make apt-repo` with a small package: apt of this machine takes it from a web server, and no changed or unsigned one.
import { execFile, execFileSync } from 'node:child_process';
import { createReadStream, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';

t.setTimeout(240_000);
const execFileAsync = promisify(execFile);
/** Its failure is an error whose message is what it has printed. */
const run = (...call: Parameters<typeof execFileAsync>) =>
  execFileAsync(...call).catch((error: { readonly stderr: string }) => {
    throw new Error(error.stderr);
  });
const SCRIPT = resolve(import.meta.dirname, '../../scripts/package/apt-repo.ts');
// Short: sockets of gpg are in it.
const work = mkdtempSync(join(tmpdir(), 'apt-repo-'));
const env = { ...process.env, GNUPGHOME: join(work, 'keys'), LC_ALL: 'C.UTF-8' };
mkdirSync(env.GNUPGHOME, { mode: 0o700 });
t.teardown(() => {
  execFileSync('gpgconf', ['--kill', 'all'], { env });
  rmSync(work, { recursive: true, force: true });
});
for (const name of ['operator@example.com', 'other@example.com'])
  execFileSync('gpg', ['--batch', '--passphrase', '', '--quick-generate-key', name, 'ed25519', 'sign'], {
    env,
    stdio: 'ignore',
  });

function makePackage(version: string, content = version): string {
  const tree = join(work, `tree-${version}`);
  mkdirSync(join(tree, 'DEBIAN'), { recursive: true });
  mkdirSync(join(tree, 'usr/share/sandboxd'), { recursive: true });
  writeFileSync(join(tree, 'usr/share/sandboxd/content'), content);
  const control = [
    'Package: sandboxd',
    `Version: ${version}`,
    'Architecture: amd64',
    'Maintainer: a <a@b.c>',
  ];
  writeFileSync(join(tree, 'DEBIAN/control'), `${[...control, 'Description: a test'].join('\n')}\n`);
  const path = join(work, `${version}-${content}.deb`);
  execFileSync('dpkg-deb', ['--root-owner-group', '--build', tree, path], { stdio: 'ignore' });
  return path;
}

const repo = join(work, 'repo');
const publish = (...words: string[]) => run(process.execPath, [SCRIPT, '--out', repo, ...words], { env });
const KEY = ['--key', 'operator@example.com'];

const server = createServer((request, response) => {
  const file = createReadStream(join(repo, new URL(request.url ?? '/', 'http://a').pathname));
  file.once('error', () => response.writeHead(404).end());
  file.pipe(response);
}).listen(0, '127.0.0.1');
await new Promise((done) => server.once('listening', done));
t.teardown(() => server.close());
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

/** With directories of its own: this machine's lists and packages are left alone. */
async function apt(...words: string[]) {
  const root = join(work, 'apt');
  for (const name of ['lists/partial', 'cache/archives/partial', 'etc', 'down'])
    mkdirSync(join(root, name), { recursive: true });
  writeFileSync(join(root, 'status'), '');
  const source = `deb [arch=amd64 signed-by=${join(repo, 'sandboxd-archive-keyring.gpg')}] ${url} stable main\n`;
  writeFileSync(join(root, 'sources.list'), source);
  const settings = {
    'Dir::State::lists': join(root, 'lists'),
    'Dir::State::status': join(root, 'status'),
    'Dir::Cache': join(root, 'cache'),
    'Dir::Etc::sourcelist': join(root, 'sources.list'),
    'Dir::Etc::sourceparts': join(root, 'etc'),
    'Dir::Etc::preferencesparts': join(root, 'etc'),
    'Dir::Etc::parts': join(root, 'etc'),
    'APT::Architecture': 'amd64',
    'APT::Sandbox::User': 'root',
    'APT::Update::Error-Mode': 'any',
    'Acquire::http::Proxy': 'false',
    'Acquire::Languages': 'none',
  };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`]);
  await run('apt-get', ['-q', ...options, ...words], {
    cwd: join(root, 'down'),
    env: { ...env, http_proxy: '' },
  });
  return (name: string) => readFileSync(join(root, 'down', name));
}

t.test('a package is found and downloaded, and a newer one after it', async (t) => {
  const [first, second] = [makePackage('1.0'), makePackage('1.1')];
  await publish(...KEY, '--url', url, first);
  await apt('update');
  const read = await apt('download', 'sandboxd');
  t.ok(read('sandboxd_1.0_amd64.deb').equals(readFileSync(first)));
  await publish(...KEY, second);
  await apt('update');
  await apt('download', 'sandboxd');
  t.ok(read('sandboxd_1.1_amd64.deb').equals(readFileSync(second)));
  await apt('download', 'sandboxd=1.0');
  t.match(readFileSync(join(repo, 'sandboxd.sources'), 'utf8'), /^Signed-By: \/usr\/share\/keyrings\//m);
});

t.test('a published version does not change', async (t) => {
  await t.rejects(publish(...KEY, makePackage('1.0', 'other')), { message: /give it a new version/ });
});

t.test('lists that were changed, or that another key has signed, are refused', async (t) => {
  const third = makePackage('1.2');
  await publish('--key', 'other@example.com', third);
  // The machine keeps the key that it has.
  execFileSync(
    'gpg',
    [
      '--batch',
      '--yes',
      '--export',
      '--output',
      join(repo, 'sandboxd-archive-keyring.gpg'),
      'operator@example.com',
    ],
    { env },
  );
  await t.rejects(apt('update'), { message: /NO_PUBKEY|not signed|couldn't be verified/ });
  await publish(...KEY, third);
  await apt('update');
  const release = join(repo, 'dists/stable/InRelease');
  writeFileSync(
    release,
    readFileSync(release, 'utf8').replace(/^Date: .*$/m, 'Date: Thu, 01 Jan 2026 00:00:00 GMT'),
  );
  await t.rejects(apt('update'), { message: /BADSIG|not signed|invalid|couldn't be verified/i });
});

t.test('without a key, or with one that gpg does not have, nothing is published', async (t) => {
  await t.rejects(publish(makePackage('2.0')), { message: /usage/ });
  await t.rejects(publish('--key', 'nobody@example.com', makePackage('2.0')), {
    message: /nobody@example.com/,
  });
});
