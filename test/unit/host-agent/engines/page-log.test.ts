import {
  copyFileSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { PAGE_BYTES } from '../../../../host-agent/src/engines/mapping.ts';
import {
  applyPageLog,
  beginSharedLog,
  logOwnPages,
  readPageLog,
} from '../../../../host-agent/src/engines/page-log.ts';
import { Pager } from '../../../support/pager.ts';

const dir = mkdtempSync(join(tmpdir(), 'pages-'));
t.teardown(() => rmSync(dir, { recursive: true }));
const program = await Pager.compile(dir);
const PAGES = 3000;
const SIZE = PAGES * PAGE_BYTES;
const base = join(dir, 'memory');
const log = join(dir, 'changes');

/** Numbers below `limit`, the same in each run. */
function makeRandom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

/** A process that maps `base`, and the memory that it is to have. */
async function start(seed: number) {
  const random = makeRandom(seed);
  const expected = Buffer.alloc(SIZE);
  for (let page = 0; page < PAGES; page += 3)
    expected.fill(random(256), page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
  writeFileSync(base, expected);
  const pager = await Pager.start(program, base, SIZE);
  const write = async (offset: number, length: number, byte: number) => {
    await pager.write(offset, length, byte);
    expected.fill(byte, offset, offset + length);
  };
  const { pid, mappings } = pager;
  const save = () => logOwnPages({ pid, mappings, memoryBytes: SIZE, base, target: log });
  return { pager, expected, write, save, random };
}

t.test('the file becomes the memory, however often the log is applied', async (t) => {
  for (const seed of [1, 2, 3]) {
    const { pager, expected, write, save, random } = await start(seed);
    t.equal(pager.mappings.length, 2);
    for (let count = 0; count < 60; count++) {
      const offset = random(SIZE);
      await write(
        offset,
        Math.min(SIZE - offset, random(count % 20 === 0 ? 3 * 2 ** 20 : 9000)),
        random(256),
      );
    }
    const before = readFileSync(base);
    await save();
    t.ok(readFileSync(base).equals(before), 'the file is not changed while it is mapped');
    await pager.end();
    const ranges = await applyPageLog(log, base);
    t.ok(readFileSync(base).equals(expected));
    t.ok(
      ranges.every(
        ({ offset, length }) =>
          !before.subarray(offset, offset + length).equals(expected.subarray(offset, offset + length)),
      ),
    );
    t.same(await applyPageLog(log, base), ranges);
    t.ok(readFileSync(base).equals(expected));
  }
});

t.test('pages that were written but not changed are not in the log', async (t) => {
  const { pager, expected, write, save } = await start(4);
  t.teardown(() => pager.end());
  for (let page = 0; page < PAGES; page += 3)
    await pager.write(page * PAGE_BYTES, 1, expected[page * PAGE_BYTES] ?? 0);
  await save();
  const empty = statSync(log).size;
  t.equal(empty, 32, 'its two headers');
  t.same(await applyPageLog(log, base), []);
  await write(6 * PAGE_BYTES + 17, 1, 255 - (expected[6 * PAGE_BYTES] ?? 0));
  await save();
  t.equal(statSync(log).size, empty + 16 + PAGE_BYTES);
});

t.test('a damaged log changes nothing', async (t) => {
  const { pager, write, save } = await start(5);
  await write(10 * PAGE_BYTES, 2 * PAGE_BYTES, 7);
  await write(1000 * PAGE_BYTES, 5 * 2 ** 20 - 3, 9);
  await save();
  await pager.end();
  const good = readFileSync(log);
  const before = readFileSync(base);
  const damaged = join(dir, 'damaged');
  const reject = async (what: string) => {
    await t.rejects(applyPageLog(damaged, base), /the log of changed pages .* is damaged: /, what);
    t.ok(readFileSync(base).equals(before));
  };
  for (const size of [0, 8, 16, 31, 40, 4000, good.length - 16, good.length - 1]) {
    copyFileSync(log, damaged);
    truncateSync(damaged, size);
    await reject(`cut to ${size}`);
  }
  const random = makeRandom(6);
  const places = [0, 9, 16, 24, 28, 32, good.length - 16, good.length - 8, good.length - 2];
  for (const at of [...places, ...Array.from({ length: 20 }, () => random(good.length))]) {
    const changed = Buffer.from(good);
    changed.writeUInt8(changed.readUInt8(at) ^ 0x41, at);
    writeFileSync(damaged, changed);
    await reject(`another byte at ${at}`);
  }
  writeFileSync(damaged, Buffer.concat([good, Buffer.alloc(1)]));
  await reject('more behind its end');
  const other = join(dir, 'other');
  writeFileSync(other, Buffer.alloc(SIZE - PAGE_BYTES));
  await t.rejects(applyPageLog(log, other), /of a memory of another size/);
});

t.test('a file of another size than the memory is no base', async (t) => {
  const { pager } = await start(7);
  t.teardown(() => pager.end());
  const { pid, mappings } = pager;
  await t.rejects(logOwnPages({ pid, mappings, memoryBytes: SIZE + PAGE_BYTES, base, target: log }), {
    message: `${base} has not the size of the guest's memory`,
  });
  const gone = { pid: 2 ** 22 + 1, mappings, memoryBytes: SIZE, base, target: log };
  await t.rejects(logOwnPages(gone), { code: 'ENOENT' });
});

t.test('what has changed since an earlier copy is in the log, and no more', async (t) => {
  const { pager, expected, write } = await start(9);
  t.teardown(() => pager.end());
  const { pid, mappings } = pager;
  const copy = join(dir, 'copy');
  await write(40 * PAGE_BYTES, 900 * PAGE_BYTES, 7);
  writeFileSync(copy, expected);
  await write(50 * PAGE_BYTES + 1, 1, 8);
  await write(2000 * PAGE_BYTES, 2 * PAGE_BYTES, 9);
  const changed = [
    [50, 1],
    [2000, 2],
  ].map(([page = 0, count = 0]) => ({ offset: page * PAGE_BYTES, length: count * PAGE_BYTES }));
  const memoryPath = join(dir, 'shared');
  writeFileSync(memoryPath, expected);
  const [asOwn, asShared] = [join(dir, 'own-log'), join(dir, 'shared-log')];
  await logOwnPages({ pid, mappings, memoryBytes: SIZE, base: copy, target: asOwn });
  await (await beginSharedLog({ memoryBytes: SIZE, base: copy, target: asShared }))(memoryPath);
  const before = readFileSync(copy);
  for (const path of [asOwn, asShared]) {
    const found: { offset: number; length: number }[] = [];
    for await (const { offset, pages } of readPageLog(path, SIZE)) {
      t.ok(expected.subarray(offset, offset + pages.length).equals(pages));
      found.push({ offset, length: pages.length });
    }
    t.same(found, changed);
    writeFileSync(copy, before);
    t.same(await applyPageLog(path, copy), changed);
    t.ok(readFileSync(copy).equals(expected));
  }
  const read = async (bytes: number) => {
    for await (const _ of readPageLog(asOwn, bytes));
  };
  await t.rejects(read(SIZE + PAGE_BYTES), /another size/);
  truncateSync(asOwn, statSync(asOwn).size - 1);
  await t.rejects(read(SIZE), /damaged/);
  for (const input of [
    { memoryPath, memoryBytes: SIZE + PAGE_BYTES },
    { memoryPath: dir, memoryBytes: SIZE },
  ])
    await t.rejects(async () => {
      const log = await beginSharedLog({ memoryBytes: input.memoryBytes, base: copy, target: asShared });
      await log(input.memoryPath);
    }, 'another object');
  // A copy with holes, in the first of which there is something now.
  writeFileSync(copy, '');
  truncateSync(copy, SIZE);
  const sparse = Buffer.alloc(SIZE);
  sparse.fill(3, 600 * PAGE_BYTES, 601 * PAGE_BYTES);
  writeFileSync(memoryPath, sparse);
  await (await beginSharedLog({ memoryBytes: SIZE, base: copy, target: asShared }))(memoryPath);
  t.same(await applyPageLog(asShared, copy), [{ offset: 600 * PAGE_BYTES, length: PAGE_BYTES }]);
});
