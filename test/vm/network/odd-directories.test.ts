// Directories whose names have characters that mean something to a shell, to a list of options or to a line of text.
import '../../support/network/own-network.ts';
import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { leftovers, makeDirectories, removeDirectories, spawnDaemon } from '../../support/daemon.ts';
import { sh } from '../../support/network/lab.ts';
import { scaled } from '../../support/time-scale.ts';
import { archive } from '../../unit/guest-agent/support/tar-blocks.ts';
import { makeLayoutOf } from '../../unit/host-agent/images/world.ts';

t.setTimeout(scaled(600_000));
const ODD = `o d'"%20,,:\\\n\t$x;*=[{]#?é`;
/** Of this network, and of mounts in a directory: those of other tests come and go. */
const state = async (dir: string) => {
  const network = await sh('ip -br link; nft list ruleset; cat /proc/sys/net/ipv4/ip_forward; ip route');
  const mounts = readFileSync('/proc/self/mounts', 'latin1').split('\n');
  return [network, ...mounts.filter((line) => line.includes(dir))];
};

t.test('a daemon works in directories of any name, and leaves nothing', async (t) => {
  await sh('ip link set lo up');
  const plain = await makeDirectories();
  t.teardown(() => removeDirectories(plain));
  const directories = { dataDir: join(plain.dataDir, ODD), runDir: join(plain.runDir, ODD) };
  const images = join(plain.runDir, `images ${ODD.replace(':', '')}`);
  const baked = readdirSync(plain.dataDir);
  for (const dir of [directories.dataDir, directories.runDir, images]) mkdirSync(dir);
  for (const name of baked) symlinkSync(join(plain.dataDir, name), join(directories.dataDir, name));
  const layout = makeLayoutOf(join(images, 'layout'), {
    layers: [archive([{ name: 'mark', content: 'of the image' }])],
    config: {},
  });
  const before = await state(plain.runDir);
  const flags = ['--image-path-allow', images];
  const first = await spawnDaemon(directories, { flags, onExit: 'keep' });
  const network = { enabled: true, allowlist: ['web.example'] };
  const publish = [{ host_port: 8080, guest_port: 8000 }];
  const service = { cmd: ['python3', '-u', '-m', 'http.server', '8000'] };
  const options = { profile: 'python-3.11', network, publish, service };
  const { id } = await first.api.ask('createSandbox', { body: options });
  t.match(await (await fetchPatiently('http://127.0.0.1:8080/')).text(), 'Directory listing');
  t.equal(await first.end(), 0);
  const daemon = await spawnDaemon(directories, { flags });
  const { api } = daemon;
  t.equal((await api.exec(id, ['echo', 'kept'])).stdout, 'kept\n', 'it was found again');
  const { id: snapshotId } = await api.ask('takeSnapshot', { params: { id } });
  const forked = await api.ask('forkSnapshot', { params: { id: snapshotId }, query: { count: 1 } });
  t.equal((await api.exec(forked.sandboxes[0]?.id ?? '', ['echo', 'there'])).stdout, 'there\n');
  const { id: other } = await api.ask('createSandbox', { body: { image: { path: layout } } });
  const mark = await api.fetch(`/sandboxes/${other}/files?path=/mark`);
  t.equal(await mark.text(), 'of the image');
  t.equal(await daemon.end(), 0);
  t.same(await state(plain.runDir), before);
  t.same(await leftovers(directories), []);
});

async function fetchPatiently(url: string): Promise<Response> {
  for (let tries = 0; ; tries++)
    try {
      return await fetch(url);
    } catch (error) {
      if (tries > 100) throw error;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
}
