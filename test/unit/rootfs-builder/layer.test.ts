// Copies of writable layers.
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { copyReserved, copySparse } from '../../../rootfs-builder/src/index.ts';

const MIB = 2 ** 20;

t.test('a copy that is reserved has blocks of its own for all that may be written', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'layer-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const source = join(dir, 'source');
  writeFileSync(source, '');
  const file = await open(source, 'r+');
  await file.write('here', 5 * MIB);
  await file.truncate(16 * MIB);
  await file.close();
  const paths = { sparse: join(dir, 'sparse'), whole: join(dir, 'whole') };
  await copySparse(source, paths.sparse);
  await copyReserved(source, paths.whole, 20 * MIB);
  const diskOf = (path: string) => statSync(path).blocks * 512;
  t.ok(diskOf(paths.sparse) < MIB, `${diskOf(paths.sparse)} bytes of a sparse one`);
  t.ok(diskOf(paths.whole) >= 20 * MIB, `${diskOf(paths.whole)} bytes of one that is reserved`);
  t.equal(statSync(paths.whole).size, 16 * MIB, 'which is as long as its source');
  await using copy = await open(paths.whole, 'r');
  const { buffer } = await copy.read(Buffer.alloc(4), 0, 4, 5 * MIB);
  t.equal(buffer.toString(), 'here');
});

t.test('a copy has the content, mode and holes of its source; zeros become holes', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'layer-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const [source, target] = [join(dir, 'source'), join(dir, 'target')];
  const large = Buffer.alloc(3 * MIB, 'large ');
  // Longer than what is read at once, and beginning and ending within a block.
  writeFileSync(source, '');
  const file = await open(source, 'r+');
  await file.write('first');
  await file.write(large, 0, large.length, MIB + 4095);
  await file.write(Buffer.alloc(2 * MIB), 0, 2 * MIB, 8 * MIB);
  await file.write('last', 12 * MIB);
  await file.close();
  truncateSync(source, 16 * MIB + 1);
  chmodSync(source, 0o640);
  await copySparse(source, target);
  t.ok(readFileSync(source).equals(readFileSync(target)), 'the same content and length');
  t.equal(statSync(target).mode & 0o777, 0o640);
  const diskOf = (path: string) => statSync(path).blocks * 512;
  t.ok(diskOf(source) > 5 * MIB && diskOf(target) < 3.2 * MIB, `${diskOf(target)} bytes`);
  await t.rejects(copySparse(source, target), { code: 'EEXIST' }, 'no file is replaced');
  await t.rejects(copySparse(join(dir, 'absent'), join(dir, 'other')), { code: 'ENOENT' });
  await t.rejects(copySparse(dir, join(dir, 'other')), 'a directory is none');
  t.notOk(existsSync(join(dir, 'other')), 'nothing is left of a copy that failed');
});

t.test('a copy that finds its disk full fails with ENOSPC and leaves nothing', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'layer-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const mount = join(dir, 'small');
  mkdirSync(mount);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'small', mount]);
  t.teardown(() => execFileSync('umount', [mount]));
  const source = join(dir, 'source');
  writeFileSync(source, Buffer.alloc(2 * MIB, 1));
  await t.rejects(copySparse(source, join(mount, 'target')), { code: 'ENOSPC' });
  t.notOk(existsSync(join(mount, 'target')));
});
