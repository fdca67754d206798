// Imports: exact bounds, reserved capacity, and no work after the end.
import { getEventListeners } from 'node:events';
import { existsSync, readdirSync, readFileSync, statSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { agentRootfs } from '../../../../host-agent/src/images/rootfs-source.ts';
import { type ImportContext, resolveImport } from '../../../../host-agent/src/sandboxes/import-snapshot.ts';
import {
  type ArchiveManifest,
  CHUNK_BYTES,
  MAX_MANIFEST_BYTES,
} from '../../../../host-agent/src/sandboxes/saved/archive/format.ts';
import {
  exportStream,
  writeArchive,
} from '../../../../host-agent/src/sandboxes/saved/archive/write-archive.ts';
import { describeFile, writeManifest } from '../../../../host-agent/src/sandboxes/saved/manifest.ts';
import { SavedGuest } from '../../../../host-agent/src/sandboxes/saved/saved-guest.ts';
import { contentOf, forge, manifestOf, readAll, source, whole } from '../../../support/archives.ts';
import { makeHome, startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { makeSaved, scratch } from '../../../support/saved-guests.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

// Several daemons in a row, on a host that may be busy.
t.setTimeout(scaled(180_000));

const MIB = 2 ** 20;
const { signal } = new AbortController();
const PLAIN = { isDiskOnly: false };
const DISK_ONLY = { isDiskOnly: true };

/** The manifest of another host’s snapshot that is valid here. */
async function goodManifest(t: Test): Promise<ArchiveManifest> {
  const { manager } = await startMemoryDaemon(t);
  const { id } = await manager.create({ memoryMib: 256, timeoutS: 60 });
  const snapshot = await manager.get(id).snapshot();
  return manifestOf(await readAll(manager.exportSnapshot(snapshot.id)));
}

t.test('a value at a bound is accepted, and one beyond it is refused', async (t) => {
  const good = await goodManifest(t);
  const { manager, home } = await startMemoryDaemon(t);
  const imported = (bytes: Buffer) => manager.importSnapshot(source(bytes), PLAIN);
  const parts = (changes: object) => forge({ ...good, parts: { ...good.parts, ...changes } });
  const options = (changes: object) => forge({ ...good, options: { ...good.options, ...changes } });
  const { memory, state, disk } = good.parts;
  const memoryBytes = (256 + 16) * MIB;
  const idle = { timeoutS: 1, action: 'delete' };
  for (const archive of [
    parts({ memory: { ...memory, sizeBytes: memoryBytes, contentBytes: memoryBytes } }),
    parts({ state: { ...state, sizeBytes: 64 * MIB } }),
    parts({ disk: { ...disk, sizeBytes: good.options.diskBytes } }),
    parts({ disk: { ...disk, name: `d${'x-1.'.repeat(7)}abc` } }),
    options({ vcpus: 4, memoryMib: 4096, diskBytes: 1024 * MIB, timeoutS: 0 }),
    options({ idle, network: { allowlist: ['*.example.org'] } }),
    forge(good, { manifestBytes: MAX_MANIFEST_BYTES }),
  ])
    await manager.deleteSnapshot((await imported(archive)).id);
  for (const [archive, message] of [
    [parts({ memory: { ...memory, sizeBytes: memoryBytes + 1 } }), /its memory has/],
    [parts({ memory: { ...memory, sizeBytes: -1 } }), /cannot be read/],
    [parts({ state: { ...state, sizeBytes: 64 * MIB + 1 } }), /its state has/],
    ...['x'.repeat(33), 'Disk', '1disk', 'disk!', '!disk', ''].map(
      (name) => [parts({ disk: { ...disk, name } }), /cannot be read/] as const,
    ),
    ...['rootfs.ext4', 'agent.ext4'].map(
      (name) => [parts({ disk: { ...disk, name } }), /names that they cannot have/] as const,
    ),
    ...[`x${good.sourceId}`, `${good.sourceId}x`, good.sourceId.slice(0, -1), 'sbx_ABCDEFGHIJKLM'].map(
      (sourceId) => [forge({ ...good, sourceId }), /cannot be read/] as const,
    ),
    ...['vcpus', 'memoryMib', 'diskBytes'].map((name) => [options({ [name]: 0 }), /cannot be read/] as const),
    [options({ timeoutS: -1 }), /cannot be read/],
    [forge({ ...good, takenAtMs: -1 }), /cannot be read/],
    [forge(good, { manifestBytes: MAX_MANIFEST_BYTES + 1 }), /its manifest has 1048577 bytes/],
    [forge(good, { wrong: 'memory' }), /its memory is damaged/],
    [forge(good, { wrong: 'state' }), /its state is damaged/],
    [forge(good, { wrong: 'disk' }), /its disk is damaged/],
    [forge(good, { wrong: 'whole' }), /its digest is another/],
  ] as const)
    await t.rejects(imported(archive), { code: 'invalid_argument', message }, String(message));
  const many = Object.fromEntries(Array.from({ length: 2000 }, (_, at) => [`field-${at}`, at]));
  const error = await imported(forge({ ...good, ...many })).catch((error: Error) => error);
  t.ok((error as Error).message.length < 400, 'what a stranger wrote is not told at length');
  t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
});

t.test('an import reserves the space for all that it writes', async (t) => {
  const good = await goodManifest(t);
  const reserve = 256 * MIB;
  let diskFreeBytes = 0;
  const readCapacity = async () => ({
    memoryTotalBytes: 600 * MIB,
    memoryAvailableBytes: 2 ** 40,
    diskFreeBytes,
  });
  const admission = { memoryReserveBytes: 0, memoryOvercommit: 1 };
  const { manager, host } = await startMemoryDaemon(t, { readCapacity, admission });
  const part = (name: string, sizeBytes: number) => ({ name, sizeBytes, contentBytes: sizeBytes });
  const parts = {
    memory: part('memory', 3 * MIB),
    state: part('state', 2 * MIB),
    disk: part('disk', 5 * MIB),
  };
  const archive = (memoryMib = 256) => forge({ ...good, options: { ...good.options, memoryMib }, parts });
  const imported = (bytes: Buffer, options = PLAIN) => manager.importSnapshot(source(bytes), options);
  const noDisk = { code: 'exhausted', message: /no disk space/ };
  diskFreeBytes = reserve + 10 * MIB - 1;
  await t.rejects(imported(archive()), noDisk);
  diskFreeBytes += 1;
  await imported(archive());
  diskFreeBytes = reserve + (2 * 5 + 256) * MIB - 1;
  await t.rejects(imported(archive(), DISK_ONLY), noDisk);
  diskFreeBytes += 1;
  await imported(archive(), DISK_ONLY);
  t.equal(host.counts.boots, 1);
  diskFreeBytes = 2 ** 40;
  await imported(archive(1024));
  const noMemory = { code: 'exhausted', message: /no memory/ };
  await t.rejects(
    imported(archive(1024), DISK_ONLY),
    noMemory,
    'it boots, and one that is only kept does not',
  );
});

t.test('a cold-booted import has the imported disk, and nothing else of its host', async (t) => {
  const good = await goodManifest(t);
  const home = await makeHome(t);
  const { manager, host } = await startMemoryDaemon(t, { home });
  const bytes = Buffer.from('what was on its disk');
  const contentBytes = good.parts.disk.contentBytes + bytes.length;
  const foreign = {
    ...good,
    compatibility: { engine: 'x' },
    options: { ...good.options, bootArgs: 'a=b' },
    parts: { ...good.parts, disk: { ...good.parts.disk, contentBytes } },
  };
  const archive = forge(foreign, { disk: [{ offset: 4096, bytes }] });
  const imported = await manager.importSnapshot(source(archive), DISK_ONLY);
  const disk = readFileSync(imported.rootfsPath);
  t.equal(disk.subarray(4096, 4096 + bytes.length).toString(), `${bytes}`);
  t.match(host.machines[0]?.spec, { bootArgs: '' });
  t.same([host.running.length, readdirSync(join(home.dataDir, 'sandboxes'))], [0, []]);
  t.same(readdirSync(join(home.dataDir, 'logs')), [], 'nobody ever sees that guest, nor its log');
  t.match(await SavedGuest.open(imported.dir), { manifest: { compatibility: { engine: 'memory 1' } } });
});

t.test('a failing import reports the reason, and reads nothing more', async (t) => {
  const good = await goodManifest(t);
  const { manager, host, home } = await startMemoryDaemon(t);
  let reads = 0;
  const bytes = forge(good);
  const full = Object.assign(new Error('write failed'), { code: 'ENOSPC' });
  host.onBoot = () => {
    throw full;
  };
  const imported = manager.importSnapshot(source(bytes), DISK_ONLY);
  await t.rejects(imported, { code: 'exhausted', message: /no space left/ });
  host.onSave = () => {
    throw new Error('it broke');
  };
  host.onBoot = () => undefined;
  await t.rejects(manager.importSnapshot(source(bytes), DISK_ONLY), {
    code: 'internal',
    message: 'cannot import the snapshot: it broke',
  });
  host.onSave = () => {
    throw full;
  };
  await t.rejects(manager.importSnapshot(source(bytes), DISK_ONLY), {
    code: 'exhausted',
    message: /cannot import the snapshot \(stage import\)/,
  });
  t.equal(host.running.length, 0);
  const wrong = whole(Buffer.from('SBXSNAP2'), Buffer.alloc(100));
  const endless = async () => {
    reads++;
    await new Promise(setImmediate);
    return reads === 1 ? wrong : Buffer.alloc(1000, reads);
  };
  await t.rejects(manager.importSnapshot(endless, PLAIN), { code: 'invalid_argument' });
  const before = reads;
  for (let turns = 0; turns < 20; turns++) await new Promise(setImmediate);
  t.equal(reads, before);
  t.same(readdirSync(join(home.dataDir, 'snapshots')), []);
});

t.test('an import uses the agent from which the guest runs, wherever this host has it', async (t) => {
  const good = await goodManifest(t);
  const { compatibility, options } = good;
  const root = {
    kind: 'profile' as 'profile' | 'image',
    name: 'base',
    digest: options.rootfs.digest,
    rootfsPath: '/r',
    env: {},
    workdir: '/',
  };
  const resolve = (agent?: string, agentPath?: string, own?: string, isDiskOnly = false) => {
    const rootfs = { ...root, ...(agentPath !== undefined && { agentPath }) };
    const ground: ImportContext = {
      compatibility,
      limits: { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, sandboxes: 9, fork: 9 },
      roots: { find: async () => ({ rootfs }) },
      system: own === undefined ? {} : { agentRootfs: async () => agentRootfs({ path: own, digest: 'd' }) },
    };
    const archive = {
      ...good,
      options: { ...options, rootfs: { ...options.rootfs, kind: root.kind, ...(agent && { agent }) } },
    };
    return resolveImport(archive, ground, isDiskOnly, signal).then(({ rootfs }) => rootfs.agentPath);
  };
  const another = { code: 'conflict', message: /this host has another/ };
  t.equal(await resolve(), undefined);
  t.equal(await resolve('a-1', '/there/a-1'), '/there/a-1');
  t.equal(await resolve('a-1', undefined, '/own/a-1'), '/own/a-1');
  t.equal(await resolve('a-1', '/there/a-2', '/own/a-1'), '/own/a-1');
  t.equal(await resolve(undefined, undefined, '/own/a-1'), undefined);
  await t.rejects(resolve('a-1'), another);
  await t.rejects(resolve('a-1', '/there/a-2', '/own/a-3'), another);
  t.equal(await resolve(undefined, '/there/a-2'), undefined, 'its guest had its agent in its root');
  root.kind = 'image';
  await t.rejects(resolve(undefined, '/there/a-2'), another, 'an image has none');
  root.kind = 'profile';
  t.equal(
    await resolve('a-1', '/there/a-2', undefined, true),
    '/there/a-2',
    'one that boots starts what is here',
  );
  root.digest = '';
  await t.rejects(resolve(), { message: /this host has none by that name/ });
  const left = AbortSignal.abort(new Error('left'));
  const roots = { find: () => Promise.reject(new Error('no root')) };
  const ground = {
    compatibility,
    limits: { vcpus: 9, memoryMib: 9999, diskBytes: 2 ** 40, sandboxes: 1, fork: 1 },
    roots,
    system: {},
  };
  await t.rejects(resolveImport(good, ground, false, left), { message: 'left' });
});

t.test('an export contains the non-zero bytes of each file, and ends with its reader', async (t) => {
  const dir = join(await scratch(t), 'one');
  const small = await makeSaved(dir);
  const path = join(dir, 'memory');
  const memory = Buffer.alloc(4 * MIB);
  memory.fill(1, 0, MIB).fill(2, 3 * MIB, 3.5 * MIB);
  writeFileSync(path, memory);
  const files = { ...small.manifest.files, memory: await describeFile(dir, 'memory') };
  await writeManifest(dir, { ...small.manifest, files });
  const saved = await SavedGuest.open(dir);
  const exported = { saved, sourceId: 'sbx_0123456789abc', takenAtMs: 5, about: { name: 'n' } };
  const bytes = await readAll(exportStream(exported));
  t.match(manifestOf(bytes), {
    sourceId: 'sbx_0123456789abc',
    takenAtMs: 5,
    options: { about: { name: 'n' } },
    parts: { memory: { sizeBytes: 4 * MIB } },
  });
  const length = contentOf(bytes).length;
  t.ok(length > 2 * MIB && length < 2.1 * MIB, `${length} bytes`);
  await until(() => getEventListeners(saved.leaving, 'abort').length === 0);
  const left = exportStream(exported);
  await left.next();
  left.cancel();
  await saved.use(async () => undefined);
  const cut = writeArchive(exported);
  await cut.next();
  const { value: piece } = await cut.next();
  t.equal(piece?.length, CHUNK_BYTES + 12);
  truncateSync(path, 3.25 * MIB);
  await t.rejects(cut.next(), { message: /became shorter while it was read/ });
  await t.rejects(readAll(exportStream(exported)), {
    code: 'internal',
    message: /memory has 3407872 bytes/,
  });
  await saved.remove();
  t.equal(existsSync(dir), false, 'nobody uses it any more');
  await t.rejects(readAll(exportStream(exported)), { code: 'not_found' });
});

t.test('received zeros are not written', async (t) => {
  const good = await goodManifest(t);
  const { manager } = await startMemoryDaemon(t);
  const room = { ...good.parts.memory, sizeBytes: 4 * MIB, contentBytes: 2 * MIB };
  const roomy = { ...good, parts: { ...good.parts, memory: room } };
  const pieces = [0, 1].map((at) => ({ offset: at * MIB, bytes: Buffer.alloc(MIB, at) }));
  const imported = await manager.importSnapshot(source(forge(roomy, { memory: pieces })), PLAIN);
  const { size, blocks } = statSync(imported.memoryPath);
  t.equal(size, 4 * MIB);
  t.ok(blocks * 512 >= MIB && blocks * 512 < 1.5 * MIB, `${blocks * 512} bytes`);
  const found = readFileSync(imported.memoryPath);
  t.ok(
    found.subarray(0, MIB).equals(Buffer.alloc(MIB)) &&
      found.subarray(MIB, 2 * MIB).equals(Buffer.alloc(MIB, 1)),
  );
});
