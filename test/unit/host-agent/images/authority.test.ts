// Registries off loopback that show a certificate of an authority of their own. In a network and a mount namespace, where this
// host has a public address and its /etc is a copy.
import '../../../support/network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import t, { type Test } from 'tap';
import { scaled } from '../../../support/time-scale.ts';
import { type MadeImage, type OpenedImages, stored, World } from './world.ts';

const ADDRESS = '45.33.10.20';
const SMALL: MadeImage = { layers: [[{ name: 'hello', content: 'hello' }]] };

t.setTimeout(scaled(300_000));
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

t.test(
  'a policy of the host refuses images, and a registry that its settings block is not asked',
  async (t) => {
    const registry = await world.startRegistry({ tls: authority, address: ADDRESS });
    world.push(`${registry}/app`, SMALL);
    trust('/etc/containers/certs.d', registry, authority.ca);
    const dataDir = world.path('data');
    const images = await world.openImages(dataDir);
    const set = async (path: string, text: string, message: RegExp) => {
      const before = readFileSync(path);
      writeFileSync(path, text);
      await refuses(t, images, `${registry}/app`, message);
      writeFileSync(path, before);
    };
    const policy = (docker: object) =>
      JSON.stringify({ default: [{ type: 'insecureAcceptAnything' }], transports: { docker } });
    const signed = { type: 'signedBy', keyType: 'GPGKeys', keyPath: authority.ca };
    const path = '/etc/containers/policy.json';
    await set(path, policy({ [registry]: [{ type: 'reject' }] }), /: .*rejected by policy/);
    await set(path, policy({ [registry]: [signed] }), /: .*(?:signature|public key)/i);
    await set(path, 'no policy', /: .*policy/);
    const blocked = `[[registry]]\nprefix = "${registry}"\nlocation = "${registry}"\nblocked = true\n`;
    await set('/etc/containers/registries.conf', blocked, /: .*is blocked in/);
    t.same(stored(dataDir), { blobs: 0, rootfs: 0, work: 0 });
    t.equal((await images.pull(`${registry}/app`, 'missing')).entries, 1, 'and with neither it is pulled');
    await images.close();
  },
);

t.test('a mirror is asked first, and the registry itself for what the mirror lacks', async (t) => {
  const [mirror, origin] = [await world.startRegistry(), await world.startRegistry()];
  world.push(`${mirror}/both`, SMALL);
  world.push(`${origin}/both`, { layers: [...SMALL.layers, [{ name: 'of-the-origin', content: '' }]] });
  world.push(`${origin}/one`, SMALL);
  const [path, before] = ['/etc/containers/registries.conf', readFileSync('/etc/containers/registries.conf')];
  const insecure = (location: string) => `location = "${location}"\ninsecure = true\n`;
  writeFileSync(
    path,
    `[[registry]]\nprefix = "registry.test"\n${insecure(origin)}[[registry.mirror]]\n${insecure(mirror)}`,
  );
  t.teardown(() => writeFileSync(path, before));
  const images = await world.openImages(world.path('data'));
  t.match(await images.pull('registry.test/both', 'missing'), {
    entries: 1,
    sourceRef: 'registry.test/both:latest',
  });
  t.equal((await images.pull('registry.test/one', 'missing')).entries, 1);
  await images.close();
});

t.test('a proxy of the daemon is asked for what is not on loopback', async (t) => {
  const registry = await world.startRegistry({ tls: authority, address: ADDRESS });
  world.push(`${registry}/app`, SMALL);
  trust('/etc/containers/certs.d', registry, authority.ca);
  const asked: string[] = [];
  const proxy = createServer().on('connect', ({ url = '' }, client, head) => {
    asked.push(url);
    const [host, port] = url.split(':');
    const onward = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      onward.write(head);
      client.pipe(onward).pipe(client);
    });
    for (const socket of [client, onward]) socket.on('error', () => onward.destroy());
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  process.env.HTTPS_PROXY = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  t.teardown(() => {
    delete process.env.HTTPS_PROXY;
    proxy.close();
  });
  const images = await world.openImages(world.path('data'));
  t.equal((await images.pull(`${registry}/app`, 'missing')).entries, 1);
  t.same([...new Set(asked)], [registry]);
  await images.close();
});

t.test('off loopback nothing is fetched over plain HTTP', async (t) => {
  const registry = await world.startRegistry({ address: ADDRESS });
  world.push(`${registry}/app`, SMALL);
  const images = await world.openImages(world.path('data'));
  await refuses(t, images, `${registry}/app`, /server gave HTTP response to HTTPS client/);
  await images.close();
});
