// Templates: transparent, kept over restarts, within their budget, and never in the way when they are damaged.
import { execFile } from 'node:child_process';
import { mkdtemp, readdir, rm, symlink, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import type { SandboxJson } from '../support/api.ts';
import {
  type Daemon,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { untilOwnTemplate } from '../support/templates.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { listVmms } from '../support/vmms.ts';

t.setTimeout(scaled(400_000));

const templates = async (dataDir: string) =>
  (await readdir(join(dataDir, 'templates')).catch(() => [])).filter((name) => !name.startsWith('.'));
/** Root filesystems of the templates that a daemon made; `agent` is the one that all share where the engine can. */
const rootsMade = (daemon: Daemon) =>
  daemon.log.filter(({ msg }) => msg === 'template made').map(({ rootfs }) => String(rootfs));
const origins = (daemon: Daemon) =>
  daemon.log
    .filter(({ msg, template }) => msg === 'sandbox created' && template === undefined)
    .map(({ origin }) => origin);

t.test('a template is made once, used again after a restart, and replaced when it is damaged', async (t) => {
  const directories = await makeDirectories({ templates: 'own' });
  t.teardown(() => removeDirectories(directories));
  const first = await spawnDaemon(directories);
  // Of several creates at once one boots, and the others are copies of its guest.
  const made = await Promise.all([1, 2, 3].map(() => first.api.create()));
  t.same(origins(first).sort(), ['boot', 'saved', 'saved']);
  const [one, ...others] = await Promise.all(made.map(({ id }) => first.api.sh(id, 'cat /etc/machine-id')));
  t.notOk(others.includes(one!) || others[0] === others[1], 'each is a machine of its own');
  // What is warmed up comes behind the answers, from a copy.
  const isWarm = () => rootsMade(first).filter((name) => name === 'base').length === 2;
  await until(isWarm, 'a template that is warmed up', 240_000);
  await first.api.create({ boot_args: 'mine=1' });
  t.equal(origins(first).at(-1), 'boot', 'with boot_args a sandbox boots');
  await Promise.all(made.map(({ id }) => first.api.delete(id)));
  for (const { id } of await first.api.list()) await first.api.delete(id);
  t.equal(await first.end(), 0);
  const { template } = first.log.findLast(({ msg, rootfs }) => msg === 'template made' && rootfs === 'base')!;
  const key = String(template);
  t.ok((await templates(directories.dataDir)).includes(key));
  t.match(key, /^[0-9a-f]{16}$/);

  const second = await spawnDaemon(directories);
  const again = await second.api.create();
  t.same([origins(second), second.log.filter(({ msg }) => msg === 'template made').length], [['saved'], 0]);
  await truncate(join(directories.dataDir, 'templates', key, 'state'), 100);
  const despite = await second.api.create();
  t.equal(await second.api.sh(despite.id, 'echo fine'), 'fine');
  t.equal(origins(second).at(-1), 'boot', 'the create that found the damage booted');
  const healed = await second.api.create();
  t.equal(origins(second).at(-1), 'saved', 'the next one did not: it had another template, or made it anew');
  for (const { id } of [again, despite, healed]) await second.api.delete(id);
  t.equal(await second.end(), 0);
  t.same(await leftovers(directories), []);
});

t.test('the budget holds, least recently used first out; 0 boots everything', async (t) => {
  const small = await startDaemon(t, { flags: ['--template-disk-bytes', String(300 * 2 ** 20)] });
  for (const memory of [256, 300, 350])
    await small.api.delete((await small.api.create({ memory_mib: memory })).id);
  await until(() => small.log.some(({ msg }) => msg === 'template evicted'), 'an eviction', 240_000);
  const off = await startDaemon(t, { flags: ['--template-disk-bytes', '0'] });
  const { id } = await off.api.create();
  t.same(origins(off), ['boot']);
  const snapshot = await off.api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
  const { sandboxes } = await off.api.call<{ sandboxes: SandboxJson[] }>(
    'POST',
    `/snapshots/${snapshot.id}/fork`,
  );
  t.equal(
    await off.api.sh(sandboxes[0]!.id, 'echo a booted sandbox forks, too'),
    'a booted sandbox forks, too',
  );
  for (const each of [id, sandboxes[0]!.id]) await off.api.delete(each);
  await off.api.call('DELETE', `/snapshots/${snapshot.id}`);
});

t.test('one child that dies takes all of its fork with it', async (t) => {
  const daemon = await startDaemon(t);
  const { api, directories } = daemon;
  // The VMM of one in the making would be taken for a child's.
  await untilOwnTemplate(daemon, { memory_mib: 256 });
  const source = await api.create({ memory_mib: 256 });
  const snapshot = await api.call<{ id: string }>('POST', `/sandboxes/${source.id}/snapshot`);
  /** Resolves with the error, or with the forks if all were there before the kill. */
  const forkAndKill = async (): Promise<unknown> => {
    const forking = api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${snapshot.id}/fork?count=10`);
    let isOver = false;
    const outcome = forking
      .catch((error: unknown) => error)
      .finally(() => {
        isOver = true;
      });
    // The seventh VMM to appear is killed while it starts.
    const seen = new Set<number>();
    while (seen.size < 7 && !isOver) {
      for (const { pid, socketPath } of await listVmms()) {
        const isChild = socketPath.startsWith(`${directories.runDir}/`) && !socketPath.includes(source.id);
        if (!isChild || seen.has(pid)) continue;
        seen.add(pid);
        if (seen.size === 7) process.kill(pid, 'SIGKILL');
      }
      await sleep(2);
    }
    return await outcome;
  };
  let outcome = await forkAndKill();
  for (let tries = 1; tries < 10 && !(outcome instanceof Error); tries++) {
    const { sandboxes } = outcome as { sandboxes: SandboxJson[] };
    for (const { id } of sandboxes) await api.delete(id);
    outcome = await forkAndKill();
  }
  t.match(outcome, { status: 500, message: /SIGKILL/ });
  t.same(
    (await api.list()).map(({ id }) => id),
    [source.id],
  );
  t.same(await leftovers(directories, { isRunning: true, ignore: [source.id] }), []);
  t.equal(await api.sh(source.id, 'echo alive'), 'alive');
  await api.delete(source.id);
  await api.call('DELETE', `/snapshots/${snapshot.id}`);
});

t.test('a disk that becomes full during a save fails the snapshot and nothing else', async (t) => {
  const roomy = await makeDirectories({ templates: 'own' });
  const dataDir = await mkdtemp(join(tmpdir(), 'sbxd-full-'));
  await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', 'size=900m,mode=700', 'tmpfs', dataDir]);
  t.teardown(async () => {
    await promisify(execFile)('umount', [dataDir]);
    await rm(dataDir, { recursive: true });
    await removeDirectories(roomy);
  });
  for (const name of ['profiles', 'kernels', 'layers', 'agents'])
    await symlink(join(roomy.dataDir, name), join(dataDir, name));
  const directories = { dataDir, runDir: roomy.runDir };
  const daemon = await spawnDaemon(directories);
  const { api } = daemon;
  const source = await api.create({ memory_mib: 256 });
  await api.sh(source.id, 'head -c 230000000 /dev/urandom > /root/fill; sync');
  await t.rejects(api.call('POST', `/sandboxes/${source.id}/snapshot`), { status: 503, message: /space/ });
  t.same(await api.call('GET', '/snapshots'), { snapshots: [] });
  t.same(await readdir(join(dataDir, 'snapshots')).catch(() => []), []);
  t.equal(await api.sh(source.id, 'echo alive'), 'alive');
  await api.delete(source.id);
  t.equal(await daemon.end(), 0);
  t.same(await leftovers(directories), []);
});
