// Saved guests on disk: read, checked, removed.
import { readdir, rm, truncate, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { SavedGuest } from '../../../../host-agent/src/sandboxes/saved/saved-guest.ts';
import { makeSaved, scratch } from '../../../support/saved-guests.ts';

t.test('a saved guest of the first format can be copied still', async (t) => {
  const dir = join(await scratch(t), 'old');
  const { manifest } = await makeSaved(dir);
  const { options, ...rest } = manifest;
  const { kind: _, ...profile } = options.rootfs;
  const { vcpus, memoryMib, diskBytes, timeoutS } = options;
  const old = { ...rest, formatVersion: 1, profile, vcpus, memoryMib, diskBytes, timeoutS };
  await writeFile(join(dir, 'manifest.json'), JSON.stringify(old));
  t.same((await SavedGuest.open(dir)).manifest, manifest);
});

t.test('a saved guest finds damage, and is not removed under its users', async (t) => {
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
  'a saved guest is used before it has its checksums, and refused when it was changed by then',
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

t.test('a saved guest whose checksums are taken can be removed, and nothing of it comes back', async (t) => {
  const dir = join(await scratch(t), 'large');
  const saved = await makeSaved(dir, { hasChecksums: false });
  const adding = saved.addChecksums(new AbortController().signal);
  const removing = saved.remove();
  await Promise.all([adding, removing]);
  await t.rejects(readdir(dir), { code: 'ENOENT' });
  await saved.addChecksums(new AbortController().signal);
  await t.rejects(readdir(dir), { code: 'ENOENT' });
});
