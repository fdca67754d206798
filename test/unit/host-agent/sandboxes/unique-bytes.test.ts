// Snapshots on a file system that shares blocks between files (XFS): what they share is counted for none of them, and
// belongs to the last one that has it. Left out where mkfs.xfs or XFS is missing.
import '../../../support/network/own-network.ts';
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';

const MIB = 2 ** 20;
const root = mkdtempSync(join(tmpdir(), 'unique-'));
const reason = mountXfs(join(root, 'disk'), root);
t.teardown(() => {
  spawnSync('umount', [root]);
  rmSync(root, { recursive: true, force: true });
});

/** Mounts a new file system, in this process's own mount namespace. Returns why it cannot. */
function mountXfs(disk: string, target: string): string | undefined {
  writeFileSync(disk, '');
  truncateSync(disk, 2048 * MIB);
  const steps = [
    ['mkfs.xfs', '-q', '-m', 'reflink=1', disk],
    ['mount', '-o', 'loop', disk, target],
  ];
  for (const [program = '', ...args] of steps) {
    const { status, stderr, error } = spawnSync(program, args, { encoding: 'utf8' });
    if (status !== 0) return `${program}: ${error?.message ?? stderr}`;
  }
  return undefined;
}

async function fill(path: string, offset: number, length: number): Promise<void> {
  await using file = await open(path, 'r+');
  await file.write(randomBytes(length), 0, length, offset);
  await file.sync();
}

t.test('two snapshots of a disk that changes', { skip: reason ?? false }, async (t) => {
  process.env.TMPDIR = root;
  const home = await makeHome(t);
  const { manager } = await startMemoryDaemon(t, { home });
  const { id } = await manager.create({});
  const layer = join(home.dataDir, 'sandboxes', id, 'layer.ext4');
  await fill(layer, 0, 8 * MIB);
  const first = await manager.get(id).snapshot();
  const measure = async (snapshot: string) => {
    const { diskBytes, uniqueBytes } = await manager.snapshots.measure(snapshot);
    return { disk: diskBytes / MIB, unique: uniqueBytes / MIB };
  };
  const own = await measure(first.id);
  t.ok(own.disk >= 8 && own.unique < 1, `shared with the sandbox: ${JSON.stringify(own)}`);
  await fill(layer, 2 * MIB, 3 * MIB);
  const second = await manager.get(id).snapshot();
  const later = await measure(first.id);
  t.ok(
    later.unique >= 3 && later.unique < 4,
    `what the disk has no more is its own: ${JSON.stringify(later)}`,
  );
  t.ok((await measure(second.id)).unique < 1);
  await manager.delete(id);
  // XFS frees the blocks of a file behind its removal.
  while ((await measure(second.id)).unique < 3) await sleep(50);
  await manager.deleteSnapshot(first.id);
  while ((await measure(second.id)).unique < 8) await sleep(50);
  const last = await measure(second.id);
  t.ok(last.unique <= last.disk, `nothing shares with the last: ${JSON.stringify(last)}`);
});
