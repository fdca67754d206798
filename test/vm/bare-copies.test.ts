// Creates that are copies of a guest which was saved before it had a root: no profile and no image needs a boot of its own.
import { execFile, execFileSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import t from 'tap';
import type { SandboxJson } from '../support/api.ts';
import {
  BAKED_DATA_DIR,
  type Daemon,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
} from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { makeLayout, skopeo, World } from '../unit/host-agent/images/world.ts';

t.setTimeout(scaled(400_000));

/** Root filesystems of the templates that a daemon made; `agent` is the one that all share. */
const rootsMade = (daemon: Daemon) =>
  daemon.log.filter(({ msg }) => msg === 'template made').map(({ rootfs }) => String(rootfs));
const origins = (daemon: Daemon) =>
  daemon.log
    .filter(({ msg, template }) => msg === 'sandbox created' && template === undefined)
    .map(({ origin }) => origin);

const directories = await makeDirectories({ templates: 'own' });
const profiles = join(directories.dataDir, 'profiles');
await rm(profiles);
await mkdir(profiles);
for (const name of ['base', 'python-3.11'])
  await symlink(join(BAKED_DATA_DIR, 'profiles', name), join(profiles, name));
const daemon = await spawnDaemon(directories);
t.teardown(async () => {
  const code = await daemon.end();
  const left = await leftovers(directories);
  await removeDirectories(directories);
  if (code !== 0 || left.length > 0)
    throw new Error(`the daemon ended with ${code} and left: ${left.join(', ') || 'nothing'}`);
});
const { api } = daemon;
const base = await api.create();
// The template that all root filesystems share is made behind the first create.
await until(() => rootsMade(daemon).includes('agent'), 'the generic template', 240_000);
t.same(origins(daemon), ['boot']);
t.same(rootsMade(daemon), ['base', 'agent']);

t.test('the first create of another profile takes no boot, and is in its root', async (t) => {
  const python = await api.create({ profile: 'python-3.11', disk_bytes: 2 ** 30 });
  t.equal(origins(daemon).at(-1), 'saved', 'it is a copy of a guest without a root');
  t.same(rootsMade(daemon), ['base', 'agent']);
  for (const { id } of [base, python]) {
    t.equal(
      await api.sh(id, 'cat /etc/hostname; hostname'),
      `${id.replace('_', '-')}\n${id.replace('_', '-')}`,
    );
    t.equal(await api.sh(id, 'ls -A / | grep -c "^[.]\\(lower\\|layer\\|root\\)$"; true'), '0');
    const mounts = (await api.sh(id, 'cut -d" " -f2,3 /proc/mounts')).split('\n');
    t.equal(mounts.filter((line) => line.startsWith('/ ')).join(), '/ overlay');
    t.same(
      mounts.filter((line, at) => mounts.indexOf(line) !== at),
      [],
      'nothing is mounted twice',
    );
    t.equal(
      await api.sh(id, 'mkdir /a && mv /opt /a/b && echo more >> /etc/hosts && sync && echo fine'),
      'fine',
    );
  }
  t.match(await api.sh(python.id, 'python3 --version'), /^Python 3/);
  t.match(await api.sh(base.id, 'python3 --version 2>&1; true'), /not found/);
  t.ok(Number(await api.sh(python.id, 'df -B1 --output=size / | tail -1')) > 0.8 * 2 ** 30);
  const snapshot = await api.call<{ id: string }>('POST', `/sandboxes/${python.id}/snapshot`);
  const forked = await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${snapshot.id}/fork`);
  const [fork] = forked.sandboxes;
  t.equal(await api.sh(fork!.id, 'grep more /etc/hosts; ls /a; python3 -c "print(6*7)"'), 'more\nb\n42');
  for (const { id } of [python, fork!]) await api.delete(id);
  await api.call('DELETE', `/snapshots/${snapshot.id}`);
});

/** As a bake leaves it: that of the base profile with one file more. */
async function bakeFresh(profiles: string): Promise<void> {
  const base = join(BAKED_DATA_DIR, 'profiles', 'base');
  const [digest = ''] = (await readdir(base)).filter((name) => /^[0-9a-f]{16}$/.test(name));
  const manifest = JSON.parse(await readFile(join(base, digest, 'manifest.json'), 'utf8'));
  const fresh = randomBytes(32).toString('hex');
  const directory = join(profiles, 'fresh', fresh.slice(0, 16));
  await mkdir(directory, { recursive: true });
  const rootfs = join(directory, 'rootfs.ext4');
  await copyFile(join(base, digest, 'rootfs.ext4'), rootfs);
  await writeFile(join(directory, 'word'), 'baked just now\n');
  await promisify(execFile)('debugfs', ['-w', '-R', `write ${join(directory, 'word')} /word`, rootfs]);
  await rm(join(directory, 'word'));
  const hash = createHash('sha256');
  await pipeline(createReadStream(rootfs), hash);
  const { mtimeMs } = await stat(rootfs);
  await writeFile(
    join(directory, 'manifest.json'),
    JSON.stringify({
      ...manifest,
      name: 'fresh',
      digest: fresh,
      rootfsSha256: hash.digest('hex'),
      rootfsMtimeMs: Math.round(mtimeMs),
    }),
  );
  await writeFile(join(profiles, 'fresh', 'current'), `${fresh}\n`);
}

t.test(
  'a profile that appeared a moment ago, and an image that was imported then, take no boot',
  async (t) => {
    const earlier = origins(daemon).length;
    await bakeFresh(profiles);
    const fresh = await api.create({ profile: 'fresh' });
    t.equal(await api.sh(fresh.id, 'cat /word'), 'baked just now');
    t.match(await api.sh(base.id, 'cat /word 2>&1; true'), /No such file/);

    await t.test('the image', async (t) => {
      const world = new World(t);
      const [source, program, archive] = ['it.c', 'it', 'saved.tar'].map((name) => world.path(name)) as [
        string,
        string,
        string,
      ];
      await writeFile(
        source,
        '#include <stdio.h>\nint main(int n, char **w) { puts(w[n - 1]); return 0; }\n',
      );
      execFileSync('gcc', ['-static', '-o', program, source]);
      const it = { name: 'it', mode: 0o755, content: await readFile(program) };
      const layout = makeLayout(world.path('layout'), { layers: [[it]], config: { Env: ['A=b', 'PATH=/'] } });
      skopeo('copy', `oci:${layout}:latest`, `docker-archive:${archive}:fresh/it:v1`);
      const body = await readFile(archive);
      t.equal((await api.fetch('/images/import', { method: 'POST', body })).status, 201);
      const { id } = await api.ask('createSandbox', {
        body: { image: { oci: 'fresh/it:v1' }, pull: 'never' },
      });
      t.equal((await api.exec(id, ['it', 'here'])).stdout, 'here\n', 'its agent is joined above it');
      t.equal((await api.exec(id, ['/it', 'there'])).stdout, 'there\n');
      const snapshot = await api.ask('takeSnapshot', { params: { id } });
      const { sandboxes } = await api.ask('forkSnapshot', { params: { id: snapshot.id } });
      const copy = sandboxes?.[0]?.id ?? '';
      t.equal((await api.exec(copy, ['it', 'a copy'])).stdout, 'a copy\n');
      for (const each of [id, copy]) await api.delete(each);
      await api.ask('deleteSnapshot', { params: { id: snapshot.id } });
    });
    t.same(rootsMade(daemon), ['base', 'agent'], 'none was booted for the other two');
    t.same(origins(daemon).slice(earlier), ['saved', 'saved', 'saved']);
    await api.delete(fresh.id);
  },
);
