// Templates: made once, used again, dropped in the right order, never by somebody else's failure.
import { readdirSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { allocatedBytes } from '../../../../host-agent/src/lib/extents.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';

const templatesOf = (dataDir: string): string[] =>
  readdirSync(join(dataDir, 'templates')).filter((name) => !name.startsWith('.'));

async function directoryBytes(dir: string): Promise<number> {
  const sizes = await Promise.all((await readdir(dir)).map((name) => allocatedBytes(join(dir, name))));
  return sizes.reduce((sum, size) => sum + size, 0);
}

t.test('creates that come together wait for one boot', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  await Promise.all(Array.from({ length: 6 }, () => manager.create({})));
  t.equal(host.counts.boots, 1);
  t.equal(host.counts.restores, 6);
});

t.test('the least recently used template goes first', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  await first.manager.create({ rootfs: { kind: 'profile', name: 'base' } });
  const [base = ''] = templatesOf(home.dataDir);
  await first.manager.create({ rootfs: { kind: 'profile', name: 'other' } });
  const [other = ''] = templatesOf(home.dataDir).filter((name) => name !== base);
  // Times of use are those that the file system gives, which are some milliseconds apart at least.
  await new Promise((resolve) => setTimeout(resolve, 50));
  await first.manager.create({ rootfs: { kind: 'profile', name: 'base' } });
  await first.crash();
  const templates = join(home.dataDir, 'templates');
  const sizeBytes = await directoryBytes(join(templates, base));
  const next = await startMemoryDaemon(t, { home, templateBudgetBytes: Math.floor(sizeBytes * 2.5) });
  await next.manager.create({ rootfs: { kind: 'profile', name: 'third' } });
  const kept = templatesOf(home.dataDir);
  t.equal(kept.length, 2);
  t.ok(kept.includes(base), 'what was used again stays');
  t.notOk(kept.includes(other));
});

t.test('a template outlives the daemon, and one of another kernel does not', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  await first.manager.create({});
  await first.crash();
  const second = await startMemoryDaemon(t, { home });
  await second.manager.create({});
  t.equal(home.host.counts.boots, 1, 'the next daemon copies it, too');
  await second.crash();
  const kernel = { vmlinuxPath: '/vmlinux', initramfsPath: '/initramfs', digest: 'another' };
  await startMemoryDaemon(t, { home, kernel });
  t.same(templatesOf(home.dataDir), []);
});

for (const agentFaults of [{ deafFrom: 2 }, { ignores: 'exec' }] as const) {
  t.test(
    `a guest that hangs before it is a template holds up nobody: ${JSON.stringify(agentFaults)}`,
    async (t) => {
      const { host, manager, home, lines } = await startMemoryDaemon(t, { bootTimeoutMs: 500 });
      host.agentFaults = agentFaults;
      const created = await manager.create({});
      t.equal(host.counts.boots, 2, 'it was booted instead');
      t.same(
        host.running.map(({ identity }) => identity),
        [host.of(created.id).identity],
      );
      t.same(readdirSync(join(home.dataDir, 'templates')), []);
      t.ok(lines.some(({ msg }) => msg === 'cannot make a template; booting instead'));
      host.agentFaults = {};
      await manager.create({});
      t.equal(host.counts.boots, 3, 'and for a while it is not tried again');
    },
  );
}
