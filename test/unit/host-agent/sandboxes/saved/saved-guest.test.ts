// Saved guests on disk: read, verified, removed.
import { mkdir, readdir, rename, rm, rmdir, stat, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { describeFile, writeManifest } from '../../../../../host-agent/src/sandboxes/saved/manifest.ts';
import { findDifferences, SavedGuest } from '../../../../../host-agent/src/sandboxes/saved/saved-guest.ts';
import { makeSaved, scratch } from '../../../../support/saved-guests.ts';

t.test('a saved guest of another format is refused', async (t) => {
  const dir = join(await scratch(t), 'other');
  const { manifest } = await makeSaved(dir);
  for (const formatVersion of [1, 3]) {
    await writeFile(join(dir, 'manifest.json'), JSON.stringify({ ...manifest, formatVersion }));
    await t.rejects(SavedGuest.open(dir), {
      code: 'internal',
      message: /this daemon can read: .*formatVersion/s,
    });
  }
});

t.test('a saved guest detects damage, and is not removed while it is used', async (t) => {
  const dir = join(await scratch(t), 'one');
  const saved = await makeSaved(dir);
  t.equal(await saved.use(async () => 'used'), 'used');
  t.equal(saved.incompatibility({ engine: 'x', version: '1' }), undefined);
  t.match(saved.incompatibility({ engine: 'x', version: '2' }), /version was 1, is 2/);

  await utimes(join(dir, 'memory'), new Date(0), new Date(0));
  t.equal(await saved.use(async () => 'used'), 'used', 'another time alone is no damage');
  await writeFile(join(dir, 'memory'), 'Content of memory');
  await t.rejects(
    saved.use(async () => 'used'),
    { message: /damaged.*memory has checksum/ },
  );
  await writeFile(join(dir, 'memory'), 'content of memory');
  await truncate(join(dir, 'disk'), 3);
  await t.rejects(
    saved.use(async () => 'used'),
    { message: /damaged.*disk has 3 bytes, not 15/ },
  );
  await rm(join(dir, 'disk'));
  await t.rejects(
    saved.use(async () => 'used'),
    { message: /damaged.*disk is missing/ },
  );
  await writeFile(join(dir, 'disk'), 'content of disk');

  const began = Promise.withResolvers<void>();
  const { promise: isDone, resolve: finish } = Promise.withResolvers<void>();
  const using = saved.use(() => {
    began.resolve();
    return isDone;
  });
  await began.promise;
  const removing = saved.remove();
  await t.rejects(
    saved.use(async () => 'late'),
    { code: 'not_found' },
  );
  t.same((await readdir(dir)).length, 4, 'still there');
  finish?.();
  await Promise.all([using, removing]);
  await t.rejects(readdir(dir), { code: 'ENOENT' });
});

t.test(
  'a saved guest is usable before its checksums exist, and refused when it changed before',
  async (t) => {
    const dir = join(await scratch(t), 'new');
    const saved = await makeSaved(dir, { hasChecksums: false });
    const checksums = async () => {
      const { manifest } = await SavedGuest.open(dir);
      t.same(manifest, saved.manifest, 'what is on disk is what it knows');
      return Object.values(manifest.files).map(({ checksum }) => checksum);
    };
    t.same(await checksums(), [undefined, undefined, undefined]);
    t.equal(await saved.use(async () => 'used'), 'used');
    await saved.addChecksums(new AbortController().signal);
    const found = await checksums();
    t.ok(
      found.every((checksum) => /^[0-9a-f]{8}$/.test(checksum ?? '')),
      `${found}`,
    );
    await writeFile(join(dir, 'memory'), 'Content of memory');
    const changed = { message: /damaged.*memory has checksum/ };
    await t.rejects(
      (await SavedGuest.open(dir)).use(async () => 'used'),
      changed,
    );

    const other = join(await scratch(t), 'changed');
    const early = await makeSaved(other, { hasChecksums: false });
    await writeFile(join(other, 'disk'), 'Content of disk');
    await utimes(join(other, 'disk'), new Date(), new Date(Date.now() + 5000));
    const late = { message: /damaged.*disk was changed before its checksum was taken/ };
    await t.rejects(early.addChecksums(new AbortController().signal), late);
    await t.rejects(
      early.use(async () => 'used'),
      late,
    );
    t.notOk((await SavedGuest.open(other)).manifest.files.disk.checksum, 'nothing vouches for it');
  },
);

t.test('a saved guest can be removed while its checksums are computed, and no file reappears', async (t) => {
  const dir = join(await scratch(t), 'large');
  const saved = await makeSaved(dir, { hasChecksums: false });
  const adding = saved.addChecksums(new AbortController().signal);
  const removing = saved.remove();
  await Promise.all([adding, removing]);
  await t.rejects(readdir(dir), { code: 'ENOENT' });
  await saved.addChecksums(new AbortController().signal);
  await t.rejects(readdir(dir), { code: 'ENOENT' });
});

const never = new AbortController().signal;

t.test('a file with another modification time, even by a millisecond, is a different file', async (t) => {
  const dir = join(await scratch(t), 'one');
  const { manifest } = await makeSaved(dir, { hasChecksums: false });
  const atS = 1_700_000_000;
  await utimes(join(dir, 'disk'), atS, atS);
  const { checksum: _, ...described } = manifest.files.disk;
  const open = async (mtimeMs: number) => {
    const files = { ...manifest.files, disk: { ...described, mtimeMs } };
    await writeManifest(dir, { ...manifest, files });
    return SavedGuest.open(dir);
  };
  const use = async () => 'used';
  const damaged = {
    code: 'internal',
    message: /disk was changed before its checksum/,
    details: { stage: 'verify' },
  };
  for (const mtimeMs of [atS * 1000, atS * 1000 + 0.9, atS * 1000 - 0.9])
    t.equal(await (await open(mtimeMs)).use(use), 'used', 'what a file system cannot keep is no difference');
  for (const mtimeMs of [atS * 1000 + 1, atS * 1000 - 1, 0, atS * 2000]) {
    const saved = await open(mtimeMs);
    await t.rejects(saved.use(use), damaged);
    await t.rejects(saved.addChecksums(never), damaged);
  }
});

t.test('a verified guest is not read again while its files look the same', async (t) => {
  const dir = join(await scratch(t), 'one');
  const saved = await makeSaved(dir);
  const { mtime } = await stat(join(dir, 'memory'));
  const change = async () => {
    await writeFile(join(dir, 'memory'), 'Content of memory');
    await utimes(join(dir, 'memory'), mtime, mtime);
  };
  const files = {
    ...saved.manifest.files,
    memory: { ...saved.manifest.files.memory, mtimeMs: mtime.getTime() },
  };
  const own = new SavedGuest(dir, { ...saved.manifest, files }, true);
  const other = new SavedGuest(dir, { ...saved.manifest, files }, false);
  t.equal(await saved.use(async () => 'used'), 'used');
  await change();
  t.equal(await own.use(async () => 'used'), 'used', 'this process wrote it');
  await t.rejects(
    other.use(async () => 'used'),
    { message: /memory has checksum/ },
  );
  await t.rejects(
    other.use(async () => 'used'),
    { message: /memory has checksum/ },
    'nor is it trusted later',
  );
});

t.test('existing checksums are kept, and a stop computes none', async (t) => {
  const dir = join(await scratch(t), 'one');
  const saved = await makeSaved(dir);
  const { ino } = await stat(join(dir, 'manifest.json'));
  await saved.addChecksums(never);
  t.equal((await stat(join(dir, 'manifest.json'))).ino, ino, 'nothing is written anew');
  const { memory, state, disk } = saved.manifest.files;
  const { checksum: _, ...bare } = disk;
  const files = { memory: { ...memory, checksum: 'as it was' }, state, disk: bare };
  await writeManifest(dir, { ...saved.manifest, files });
  const half = await SavedGuest.open(dir);
  await half.addChecksums(AbortSignal.abort(new Error('stopping')));
  t.same(half.manifest.files, files);
  const stopping = new AbortController();
  const adding = half.addChecksums(stopping.signal);
  stopping.abort(new Error('stopping'));
  await adding;
  t.same((await SavedGuest.open(dir)).manifest.files, files);
  await half.addChecksums(never);
  t.equal(half.manifest.files.memory.checksum, 'as it was');
  t.match(half.manifest.files, { state: { checksum: state.checksum }, disk: { checksum: disk.checksum } });
});

t.test('a removal waits for the last user, and can be retried after a failure', async (t) => {
  const dir = join(await scratch(t), 'one');
  const saved = await makeSaved(dir);
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const users = gates.map(({ promise }) => saved.use(() => promise));
  t.equal(saved.leaving.aborted, false);
  const removing = saved.remove();
  t.ok(saved.leaving.aborted);
  t.equal(saved.remove(), removing, 'who removes it meanwhile waits for the same');
  gates[0]?.resolve();
  await users[0];
  t.equal((await readdir(dir)).length, 4);
  gates[1]?.resolve();
  await Promise.all([...users, removing]);
  await t.rejects(stat(dir), { code: 'ENOENT' });
  await saved.remove();

  const stuck = await makeSaved(dir);
  await rm(join(dir, 'manifest.json'));
  await mkdir(join(dir, 'manifest.json'));
  await t.rejects(stuck.remove(), { code: 'ERR_FS_EISDIR' });
  t.same(
    (await readdir(dir)).sort(),
    ['disk', 'manifest.json', 'memory', 'state'],
    'the manifest goes first',
  );
  await rmdir(join(dir, 'manifest.json'));
  await stuck.remove();
  await t.rejects(stat(dir), { code: 'ENOENT' });
});

t.test('differing engine properties are named, also where one side lacks them', (t) => {
  t.equal(findDifferences({ a: '1', b: '2' }, { b: '2', a: '1' }), undefined);
  t.equal(
    findDifferences({ a: '1', b: '2' }, { c: '3', b: '4' }),
    'a was 1, is absent; b was 2, is 4; c was absent, is 3',
  );
  t.end();
});

t.test('the manifest decides where the files are', async (t) => {
  const dir = join(await scratch(t), 'one');
  const { manifest } = await makeSaved(dir);
  for (const name of ['memory', 'state', 'disk'] as const) {
    await rename(join(dir, name), join(dir, `a-${name}`));
    manifest.files[name] = await describeFile(dir, `a-${name}`);
  }
  await writeManifest(dir, manifest);
  const saved = await SavedGuest.open(dir);
  t.same(saved.vm, { memoryPath: join(dir, 'a-memory'), statePath: join(dir, 'a-state') });
  t.equal(saved.diskPath, join(dir, 'a-disk'));
  t.equal(saved.isGeneric, false);
  const { options } = manifest;
  const bare = {
    ...manifest,
    options: { ...options, rootfs: { ...options.rootfs, kind: 'agent' as const } },
  };
  t.equal(new SavedGuest(dir, bare, true).isGeneric, true);
  t.equal(await saved.use(async () => 'used'), 'used');
});
