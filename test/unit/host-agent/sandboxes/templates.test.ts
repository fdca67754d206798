// Templates: made once, used again, evicted in the right order, and not blamed for unrelated failures.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { FirstStartError } from '../../../../host-agent/src/engines/choice.ts';
import { allocatedBytes } from '../../../../host-agent/src/lib/extents.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { MemoryEngine } from '../../../support/memory-host/engine.ts';
import { oneEngine } from '../../../support/one-engine.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

// Several daemons in a row, on a host that may be busy.
t.setTimeout(scaled(180_000));

const MIB = 2 ** 20;
const profile = (name: string) => ({ rootfs: { kind: 'profile', name } as const });

const templatesOf = (dataDir: string): string[] =>
  readdirSync(join(dataDir, 'templates')).filter((name) => !name.startsWith('.'));

/** Templates are saved, published and evicted behind the answers of creates. */
async function hasTemplates(dataDir: string, count: number): Promise<void> {
  await until(() => templatesOf(dataDir).length === count, `${count} templates`);
  // Writing the checksums changes the time of the directory, as a use does.
  const hasChecksums = (key: string) =>
    readFileSync(join(dataDir, 'templates', key, 'manifest.json'), 'utf8').includes('"checksum"');
  await until(() => templatesOf(dataDir).every(hasChecksums), 'the checksums');
}

async function directoryBytes(dir: string): Promise<number> {
  const sizes = await Promise.all((await readdir(dir)).map((name) => allocatedBytes(join(dir, name))));
  return sizes.reduce((sum, size) => sum + size, 0);
}

t.test('concurrent creates wait for one boot', async (t) => {
  const { host, manager } = await startMemoryDaemon(t);
  await Promise.all(Array.from({ length: 6 }, () => manager.create({})));
  t.equal(host.counts.boots, 1);
  t.equal(host.counts.restores, 5, 'the first is answered with the guest that was booted');
});

t.test('the least recently used template is evicted first', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  await first.manager.create({ rootfs: { kind: 'profile', name: 'base' } });
  await hasTemplates(home.dataDir, 1);
  const [base = ''] = templatesOf(home.dataDir);
  await first.manager.create({ rootfs: { kind: 'profile', name: 'other' } });
  await hasTemplates(home.dataDir, 2);
  const [other = ''] = templatesOf(home.dataDir).filter((name) => name !== base);
  // Times of use are those of the file system, which are at least some milliseconds apart.
  await new Promise((resolve) => setTimeout(resolve, 50));
  await first.manager.create({ rootfs: { kind: 'profile', name: 'base' } });
  await first.crash();
  const templates = join(home.dataDir, 'templates');
  const sizeBytes = await directoryBytes(join(templates, base));
  const next = await startMemoryDaemon(t, { home, templateBudgetBytes: Math.floor(sizeBytes * 2.5) });
  await next.manager.create({ rootfs: { kind: 'profile', name: 'third' } });
  await until(() => next.happened.some(({ kind }) => kind === 'template-evicted'));
  await hasTemplates(home.dataDir, 2);
  const retained = templatesOf(home.dataDir);
  t.ok(retained.includes(base), 'what was used again stays');
  t.notOk(retained.includes(other));
});

t.test('odd sizes of one tenant evict its own templates, and not those of others', async (t) => {
  const home = await makeHome(t);
  const first = await startMemoryDaemon(t, { home });
  const as = (tenant: string, { manager }: typeof first) =>
    manager.as({ kind: 'key', id: `id-${tenant}`, key: `key of ${tenant}`, tenant });
  await as('blue', first).create(profile('other'));
  await hasTemplates(home.dataDir, 1);
  const [theirs = ''] = templatesOf(home.dataDir);
  await as('red', first).create({});
  await hasTemplates(home.dataDir, 2);
  await as('blue', first).create({});
  const common = templatesOf(home.dataDir).find((name) => name !== theirs) ?? '';
  const sizeBytes = await directoryBytes(join(home.dataDir, 'templates', theirs));
  await first.crash();
  const next = await startMemoryDaemon(t, { home, templateBudgetBytes: sizeBytes * 8 });
  await as('blue', next).create({});
  const evicted = () => next.happened.filter(({ kind }) => kind === 'template-evicted').length;
  for (let n = 1; n <= 12; n++) {
    await as('red', next).create({ memoryMib: 128 + n });
    await until(() => next.happened.filter(({ kind }) => kind === 'template-made').length === n);
  }
  await until(() => templatesOf(home.dataDir).length === 14 - evicted());
  const retained = templatesOf(home.dataDir);
  t.ok(retained.includes(theirs), 'the longest unused of all, and of another tenant');
  t.ok(retained.includes(common), 'made for red, and used by blue as well');
  t.ok(retained.length < 12, `${retained.length} are left`);
});

t.test('a template outlives the daemon, and one of a different kernel does not', async (t) => {
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

t.test('template lookups are counted, and a create with boot arguments makes none', async (t) => {
  const { host, manager, happened } = await startMemoryDaemon(t);
  const startedAt = performance.now();
  await manager.create({});
  await until(() => happened.some(({ kind }) => kind === 'template-made'));
  const tookMs = performance.now() - startedAt;
  const received = happened.find(({ kind }) => kind === 'template-made');
  if (received?.kind !== 'template-made') throw new Error('there is no such event');
  t.match(received, { rootfs: 'base', hasNetwork: false, pausedMs: 1 });
  t.ok(received.totalMs >= 0 && received.totalMs <= tookMs + 1, `${received.totalMs} of ${tookMs} ms`);
  t.same([host.machines[0]?.agent.execs, host.machines[0]?.agent.hellos], [[], 1]);
  const { lookups } = manager.metricsSource.templates;
  await until(() => lookups.made === 1);
  await manager.create({});
  await manager.create({ bootArgs: 'a=b' });
  t.same([host.counts.boots, host.counts.restores], [2, 1]);
  t.same(lookups, { hit: 1, made: 1, none: 0 });
  t.equal(manager.metricsSource.templates.count, 1);
  t.match(host.running.at(-1), { spec: { bootArgs: 'a=b' }, identity: { memory: { kind: 'anonymous' } } });
});

t.test('without a budget each create boots', async (t) => {
  const { host, manager, home } = await startMemoryDaemon(t, { templateBudgetBytes: 0 });
  for (let count = 0; count < 2; count++) await manager.create({});
  t.same([host.counts.boots, host.counts.restores], [2, 0]);
  t.same(manager.metricsSource.templates.lookups, { hit: 0, made: 0, none: 0 });
  t.notOk(readdirSync(home.dataDir).includes('templates'));
});

/** Two templates and their sizes, the second one used last. */
async function makeTwo(t: Test) {
  const home = await makeHome(t);
  const { manager, crash } = await startMemoryDaemon(t, { home });
  await manager.create(profile('base'));
  await hasTemplates(home.dataDir, 1);
  const [base = ''] = templatesOf(home.dataDir);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await manager.create(profile('other'));
  await hasTemplates(home.dataDir, 2);
  const [other = ''] = templatesOf(home.dataDir).filter((name) => name !== base);
  await crash();
  const bytesOf = async (key: string) => {
    const files = ['memory', 'state', 'disk'].map((name) => join(home.dataDir, 'templates', key, name));
    return (await Promise.all(files.map(allocatedBytes))).reduce((sum, bytes) => sum + bytes, 0);
  };
  return { home, base, other, sizes: { base: await bytesOf(base), other: await bytesOf(other) } };
}

t.test('a template that just fits the budget stays, and one in use always stays', async (t) => {
  const { home, base, other, sizes } = await makeTwo(t);
  const together = sizes.base + sizes.other;
  const fits = await startMemoryDaemon(t, { home, templateBudgetBytes: together });
  t.same(templatesOf(home.dataDir).sort(), [base, other].sort());
  t.notOk(fits.happened.some(({ kind }) => kind === 'template-evicted'));
  await fits.crash();
  const tight = await startMemoryDaemon(t, { home, templateBudgetBytes: together - 1 });
  t.same(templatesOf(home.dataDir), [other]);
  t.match(
    tight.happened.filter(({ kind }) => kind === 'template-evicted'),
    [{ template: base, sizeBytes: sizes.base }],
  );
  await tight.crash();
  const tiny = await startMemoryDaemon(t, { home, templateBudgetBytes: 1 });
  t.same(templatesOf(home.dataDir), []);
  await tiny.manager.create(profile('third'));
  await hasTemplates(home.dataDir, 1);
  await tiny.manager.create(profile('third'));
  t.equal(tiny.host.counts.restores, 1, 'one that is larger than all of it is of use once');
});

t.test('a template of a different engine is removed, with a logged reason', async (t) => {
  const { home } = await makeTwo(t);
  const engine = new MemoryEngine(home.host, { engine: 'memory 2' });
  const { lines } = await startMemoryDaemon(t, { home, engines: oneEngine(engine) });
  t.same(templatesOf(home.dataDir), []);
  t.same(
    lines.filter(({ msg }) => msg === 'template removed at start').map(({ reason }) => reason),
    new Array(2).fill('engine was memory 1, is memory 2'),
  );
});

t.test('a template is made where there is space for its guest and its files', async (t) => {
  for (const isShort of [false, true]) {
    // The reserve, the create itself, the memory and two layers of the template.
    const diskFreeBytes = (256 + 16 + 128 + 32) * MIB - (isShort ? 1 : 0);
    const readCapacity = async () => ({
      memoryTotalBytes: 2 ** 40,
      memoryAvailableBytes: 2 ** 40,
      diskFreeBytes,
    });
    const { host, manager } = await startMemoryDaemon(t, { readCapacity });
    await manager.create({});
    const { lookups } = manager.metricsSource.templates;
    await until(() => lookups.made + lookups.none === 1);
    t.same([lookups.made, host.counts.boots], [isShort ? 0 : 1, 1]);
  }
});

t.test('an engine that starts no guest is not asked for a cold boot after a template', async (t) => {
  const home = await makeHome(t);
  let tries = 0;
  const bootOrReplaceEngine = async (): Promise<never> => {
    tries++;
    throw new FirstStartError(false, new Error('no such machine'));
  };
  const engines = { ...oneEngine(new MemoryEngine(home.host)), bootOrReplaceEngine };
  const { manager, host } = await startMemoryDaemon(t, { home, engines });
  await t.rejects(manager.create({}), { name: 'FirstStartError' });
  t.equal(tries, 1);
  const { id } = await manager.create({ bootArgs: 'a=b' });
  t.equal(tries, 1, 'a client’s boot arguments prove nothing about the engine');
  t.equal(host.counts.boots, 1);
  await manager.delete(id);
});

t.test('a stopping daemon cancels the template in progress, and leaves nothing of it', async (t) => {
  const { host, manager, home } = await startMemoryDaemon(t);
  const { promise, resolve: goOn } = Promise.withResolvers<void>();
  host.onBoot = () => promise;
  const creating = manager.create({});
  creating.catch(() => undefined);
  await until(() => host.counts.boots === 1);
  const stopped = manager.stop('keep');
  goOn();
  await stopped;
  await t.rejects(creating, { code: 'cancelled', message: 'the daemon is stopping' });
  t.equal(host.running.length, 0);
  t.notOk(existsSync(join(home.dataDir, 'templates')));
});
