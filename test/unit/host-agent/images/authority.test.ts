// Registries off loopback that show a certificate of an authority of their own. In a network and a mount namespace, where this
// host has a public address and its /etc is a copy.
import '../../../support/network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import t, { type Test } from 'tap';
import { type MadeImage, type OpenedImages, stored, World } from './world.ts';

const ADDRESS = '45.33.10.20';
const SMALL: MadeImage = { layers: [[{ name: 'hello', content: 'hello' }]] };

const world = new World(t);
run('ip', 'link', 'set', 'lo', 'up');
run('ip', 'address', 'add', `${ADDRESS}/32`, 'dev', 'lo');
const etc = world.path('etc');
run('cp', '-a', '/etc', etc);
run('mount', '--bind', etc, '/etc');
t.teardown(() => run('umount', '/etc'));

const authority = makeAuthority();

function run(program: string, ...args: readonly string[]): void {
  execFileSync(program, args, { stdio: 'pipe' });
}

/** An authority, and a certificate for that address which it signed. */
function makeAuthority() {
  const dir = world.path('authority');
  mkdirSync(dir);
  const path = (name: string) => `${dir}/${name}`;
  const ours = { ca: path('ca.crt'), cert: path('cert.pem'), key: path('key.pem') };
  const common = ['-newkey', 'rsa:2048', '-nodes', '-days', '2'];
  run(
    'openssl',
    ...['req', '-x509', ...common, '-subj', '/CN=authority', '-keyout', path('ca.key'), '-out', ours.ca],
  );
  run(
    'openssl',
    ...['req', '-x509', ...common, '-subj', '/CN=registry', '-CA', ours.ca, '-CAkey', path('ca.key')],
    ...['-addext', `subjectAltName=IP:${ADDRESS}`, '-addext', 'basicConstraints=CA:FALSE'],
    ...['-keyout', ours.key, '-out', ours.cert],
  );
  return ours;
}

/** Trusts `ca` for that registry, as the administrator of a host does. */
function trust(directory: string, registry: string, ca: string): void {
  mkdirSync(`${directory}/${registry}`, { recursive: true });
  copyFileSync(ca, `${directory}/${registry}/ca.crt`);
}

async function refuses(t: Test, images: OpenedImages, name: string, message: RegExp): Promise<void> {
  await t.rejects(images.pull(name, 'missing'), { code: 'upstream', message });
}

for (const directory of ['/etc/containers/certs.d', '/etc/docker/certs.d'])
  t.test(`an authority in ${directory} is trusted, for its registry only`, async (t) => {
    const registry = await world.startRegistry({ tls: authority, address: ADDRESS });
    const other = await world.startRegistry({ tls: authority, address: ADDRESS });
    for (const each of [registry, other]) world.push(`${each}/app`, SMALL);
    const dataDir = world.path('data');
    const images = await world.openImages(dataDir);
    const untrusted =
      /^cannot pull 45\.33\.10\.20:\d+\/app:latest: .*x509: certificate signed by unknown authority/;
    await refuses(t, images, `${registry}/app`, untrusted);
    t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
    trust(directory, registry, authority.ca);
    t.equal((await images.pull(`${registry}/app`, 'missing')).entries, 1);
    await refuses(t, images, `${other}/app`, untrusted);
    rmSync(`${directory}/${registry}`, { recursive: true });
    await images.close();
  });

t.test('with a password, which `docker login` of root wrote', async (t) => {
  const passwords = world.path('passwords');
  writeFileSync(passwords, execFileSync('htpasswd', ['-nbB', 'me', 'secret']));
  const registry = await world.startRegistry({ tls: authority, passwords, address: ADDRESS });
  world.push(`${registry}/app`, SMALL, ['--dest-creds', 'me:secret']);
  trust('/etc/containers/certs.d', registry, authority.ca);
  const images = await world.openImages(world.path('data'));
  const home = world.path('home');
  mkdirSync(`${home}/.docker`, { recursive: true });
  const before = process.env.HOME;
  process.env.HOME = home;
  t.teardown(() => {
    process.env.HOME = before;
  });
  const login = (password: string) =>
    writeFileSync(
      `${home}/.docker/config.json`,
      JSON.stringify({ auths: { [registry]: { auth: Buffer.from(`me:${password}`).toString('base64') } } }),
    );
  await refuses(t, images, `${registry}/app`, /unauthorized|authentication required/);
  login('wrong');
  await refuses(t, images, `${registry}/app`, /unauthorized|authentication required/);
  login('secret');
  t.equal((await images.pull(`${registry}/app`, 'missing')).entries, 1);
  await images.close();
});

t.test('off loopback nothing is fetched over plain HTTP', async (t) => {
  const registry = await world.startRegistry({ address: ADDRESS });
  world.push(`${registry}/app`, SMALL);
  const images = await world.openImages(world.path('data'));
  await refuses(t, images, `${registry}/app`, /server gave HTTP response to HTTPS client/);
  await images.close();
});
