// Copies of writable layers.
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
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
