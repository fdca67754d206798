// From an image with a web server to a running one that the world reaches, and to copies of it.
import '../support/network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import t from 'tap';
import { poll } from '../../host-agent/src/lib/wait.ts';
import { startDaemon } from '../support/daemon.ts';
import { openInternet } from '../support/internet/index.ts';
import { scaled } from '../support/time-scale.ts';
import { skopeo, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const internet = await openInternet(t);
const { host, neighbour } = internet.machines;
const world = new World(t);
const registry = await world.startRegistry();
const { api } = await startDaemon(t, { flags: internet.daemonFlags });

/** Debian's busybox with its libraries, which umoci makes an image of. */
function makeImage(name: string): void {
  const root = world.path('root');
  const put = (path: string, text?: string) => {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    if (text === undefined) copyFileSync(path, join(root, path));
    else writeFileSync(join(root, path), text);
  };
  const libraries = execFileSync('ldd', ['/bin/busybox'], { encoding: 'utf8' }).match(/\/\S+/g) ?? [];
  for (const path of ['/bin/busybox', ...libraries]) put(path);
  put('/etc/passwd', 'root:x:0:0::/:/\nweb:x:33:33::/:/\n');
  put('/srv/index.html', 'from the image');
  const layout = world.path('layout');
  const image = `${layout}:v1`;
  const umoci = (...args: readonly string[]) => execFileSync('umoci', args, { stdio: 'pipe' });
  umoci('init', '--layout', layout);
  umoci('new', '--image', image);
  umoci('insert', '--image', image, root, '/');
  const words = ['/bin/busybox', 'httpd', '-f', '-v', '-p', '8080', '-h', '/srv'];
  const entrypoint = words.map((word) => `--config.entrypoint=${word}`);
  umoci('config', '--image', image, ...entrypoint, '--config.user=web', '--config.exposedports=8080/tcp');
  skopeo('copy', '--dest-tls-verify=false', `oci:${image}`, `docker://${name}`);
}

const get = (port: number, from = host) =>
  from.sh(`curl -sf --max-time 20 http://${from === host ? '127.0.0.1' : host.address}:${port}/`);
/** Also a server that just began needs a moment until it listens. */
const page = (port: number, from = host) =>
  poll(() => get(port, from).catch(() => undefined), 200, AbortSignal.timeout(scaled(60_000)));

t.test('a published web server of an image, and three copies on ports of their own', async (t) => {
  const name = `${registry}/web:v1`;
  makeImage(name);
  const made = await api.ask('createSandbox', {
    body: {
      image: { oci: name },
      network: { enabled: true, allowlist: ['web.test'] },
      publish: [{ host_port: 8080, guest_port: 8080 }],
    },
  });
  t.match(await api.ask('getService', { params: { id: made.id } }), {
    state: 'running',
    spec: { user: 'web' },
  });
  t.match(await api.ask('getImage', { params: { ref: name } }), { exposed_ports: ['8080/tcp'] });
  t.equal(await page(8080), 'from the image');
  t.equal(await page(8080, neighbour), 'from the image', 'also for others');
  const write = (id: string, text: string) =>
    api.exec(id, ['/bin/busybox', 'sh', '-c', `printf '%s' '${text}' > /srv/index.html`]);
  await write(made.id, 'of the source');
  const snapshot = await api.ask('takeSnapshot', { params: { id: made.id } });
  const copies: { id: string; port: number }[] = [];
  for (const port of [8081, 8082, 8083]) {
    const body = { count: 1, publish: [{ host_port: port, guest_port: 8080 }] };
    const { sandboxes } = await api.ask('forkSnapshot', { params: { id: snapshot.id }, body });
    copies.push({ id: sandboxes?.[0]?.id ?? '', port });
  }
  for (const { port } of copies) t.equal(await get(port), 'of the source', 'the process went on listening');
  for (const { id, port } of copies) await write(id, `of ${id} on ${port}`);
  for (const { id, port } of copies) {
    t.equal(await get(port), `of ${id} on ${port}`);
    t.equal(await get(port, neighbour), `of ${id} on ${port}`);
    t.match(await api.ask('getService', { params: { id } }), { state: 'running' });
  }
  t.equal(await get(8080), 'of the source');
  const { records } = await api.ask('readLogs', { params: { id: made.id }, query: { source: 'service' } });
  t.ok(
    records.some(({ text }) => /response:200/.test(text)),
    'what it says is in the log',
  );
  for (const { id } of [made, ...copies]) await api.ask('deleteSandbox', { params: { id } });
  for (const port of [8080, 8081, 8082, 8083]) await t.rejects(get(port), `${port} is free`);
  await api.ask('deleteSnapshot', { params: { id: snapshot.id } });
});
