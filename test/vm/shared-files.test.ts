// What a VMM that a guest took over has of others: it can change neither the memory that copies share nor their root filesystem.
import { execFileSync } from 'node:child_process';
import { mkdtemp, readdir, readlink, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import type { SandboxJson } from '../support/api.ts';
import { startDaemon } from '../support/daemon.ts';
import { compileGuestProgram } from '../support/guest-program.ts';
import { scaled } from '../support/time-scale.ts';
import { uidOf, vmmPids } from '../support/vmms.ts';

t.setTimeout(scaled(400_000));
const { api } = await startDaemon(t);
const dir = await mkdtemp(join(tmpdir(), 'attack-'));
t.teardown(() => rm(dir, { recursive: true, force: true }));
await compileGuestProgram('write-attack', dir);

type Opened = { readonly pid: number; readonly fd: string; readonly name: string };

/**
 * Descriptors of its VMM that name a file, or memory, which is not the sandbox's own: its jail gave those that are to the user that
 * the VMM runs as. Its log is the daemon's, and there for it to write.
 */
async function sharedFiles({ id, workdir }: SandboxJson): Promise<Opened[]> {
  const [pid = 0] = await vmmPids(id);
  const uid = uidOf(pid);
  t.not(uid, 0);
  const found: Opened[] = [];
  for (const fd of await readdir(`/proc/${pid}/fd`)) {
    const file = await stat(`/proc/${pid}/fd/${fd}`);
    const name = await readlink(`/proc/${pid}/fd/${fd}`);
    if (file.isFile() && file.uid !== uid && name !== join(workdir, 'vmm.log')) found.push({ pid, fd, name });
  }
  return found;
}

const attack = ({ pid, fd }: Opened): string =>
  execFileSync(join(dir, 'write-attack'), [String(pid), fd], { encoding: 'utf8' });

t.test('what a VMM has open of others cannot be changed through it, not even by root', async (t) => {
  const [one, other] = [await api.create(), await api.create()];
  const digest = 'cat /usr/bin/* 2> /dev/null | sha256sum';
  const before = await api.sh(other.id, digest);
  await api.sh(one.id, 'echo before > /dev/shm/file');
  const taken = await api.call<{ id: string; dir: string }>('POST', `/sandboxes/${one.id}/snapshot`);
  const { sandboxes } = await api.call<{ sandboxes: SandboxJson[] }>(
    'POST',
    `/snapshots/${taken.id}/fork?count=2`,
  );
  const [child, sibling] = sandboxes;
  for (const sandbox of [one, child!]) {
    const files = await sharedFiles(sandbox);
    t.ok(files.length >= 2, 'its memory and its root filesystem');
    for (const file of files) t.equal(attack(file), 'over\n', file.name);
    t.same(
      files.filter(({ name }) => /\/(?:templates|snapshots)\/.*(?:disk|manifest)/.test(name)),
      [],
    );
  }
  t.equal(await api.sh(other.id, digest), before, 'others are as they were');
  t.equal(await api.sh(sibling!.id, 'cat /dev/shm/file'), 'before');
  const later = await api.create();
  t.equal(await api.sh(later.id, digest), before, 'and so are those that come');

  await t.test('a copy outlives what it is a copy of, and can be saved again', async (t) => {
    await api.sh(child!.id, 'echo after > /dev/shm/file');
    await api.call('DELETE', `/snapshots/${taken.id}`);
    await api.delete(one.id);
    t.equal(await api.sh(sibling!.id, 'cat /dev/shm/file'), 'before');
    const again = await api.call<{ id: string }>('POST', `/sandboxes/${child!.id}/snapshot`);
    const grand = await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${again.id}/fork?count=1`);
    t.equal(await api.sh(grand.sandboxes[0]!.id, 'cat /dev/shm/file'), 'after');
  });
});
