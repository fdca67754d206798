// A pause that writes only what has changed since a copy of its running guest, with a process that maps its memory file as
// a VMM does.
import { readdirSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { PAGE_BYTES } from '../../../../../host-agent/src/engines/mapping.ts';
import { readPageLog } from '../../../../../host-agent/src/engines/page-log.ts';
import type { FaultPoint } from '../../../../../host-agent/src/lib/faults.ts';
import { ChunkChecksums } from '../../../../../host-agent/src/sandboxes/saved/chunk-checksums.ts';
import type { EarlierCopy } from '../../../../../host-agent/src/sandboxes/saved/earlier-copy.ts';
import {
  openChanges,
  openPaused,
  readPaused,
  verifyPaused,
} from '../../../../../host-agent/src/sandboxes/saved/paused.ts';
import { PAGES, PagedSleeper, SIZE } from '../../../../support/paged-sleeper.ts';
import { Pager } from '../../../../support/pager.ts';

const programs = await mkdtemp(join(tmpdir(), 'earlier-'));
t.teardown(() => rm(programs, { recursive: true }));
const program = await Pager.compile(programs);
const PAUSE_POINTS: readonly FaultPoint[] = [
  'pause.memory',
  'pause.paused',
  'pause.written',
  'pause.flushed',
  'pause.durable',
];

/** A sleeper that was paused and resumed once, and changed since. */
async function makeAwake(t: Test): Promise<PagedSleeper> {
  const dir = await mkdtemp(join(tmpdir(), 'sleeper-'));
  const sleeper = new PagedSleeper(program, dir);
  t.teardown(async () => {
    await sleeper.end();
    await rm(dir, { recursive: true, force: true });
  });
  for (let page = 0; page < PAGES; page += 2)
    sleeper.memory.fill(page % 251, page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
  await sleeper.pause();
  await sleeper.settle();
  await sleeper.wake();
  await sleeper.write(5000, 200_000, 0xaa);
  return sleeper;
}

/** Of a sleeper, as it is now. */
async function makeCopy(t: Test, sleeper: PagedSleeper): Promise<EarlierCopy> {
  const dir = await mkdtemp(join(sleeper.dir, 'copy-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const [memoryPath, checksumsPath] = [join(dir, 'memory'), join(dir, 'checksums')];
  writeFileSync(memoryPath, sleeper.memory);
  await (await ChunkChecksums.of(memoryPath)).store(checksumsPath);
  return { vm: sleeper.vm, memoryPath, checksumsPath };
}

t.test('a pause writes what has changed since a copy, which may go then', async (t) => {
  const sleeper = await makeAwake(t);
  const copy = await makeCopy(t, sleeper);
  await sleeper.write(300_000, 100, 0xcc);
  await sleeper.write(65_536 * 9 - 50, 100, 0xdd);
  const { isIncremental, bytesWritten } = await sleeper.pause(undefined, copy);
  t.ok(isIncremental);
  t.ok(bytesWritten < 20 * PAGE_BYTES, `${bytesWritten}: not what has changed since it woke`);
  await sleeper.end();
  const found = await openChanges(sleeper.paused, sleeper.layerPath);
  if (found === undefined) throw new Error('no changes');
  const log = () => readPageLog(found.changesPath, SIZE);
  const pages: number[] = [];
  for await (const { offset, pages: bytes } of log())
    pages.push(offset / PAGE_BYTES, bytes.length / PAGE_BYTES);
  t.same(pages, [73, 1, 143, 2]);
  t.equal(statSync(found.vm.memoryPath).ino, statSync(copy.memoryPath).ino);
  await found.checksums.overlay(found.vm.memoryPath, log());
  await rm(join(copy.memoryPath, '..'), { recursive: true });
  await sleeper.settle();
  await verifyPaused(sleeper.paused);
  t.equal(await openChanges(sleeper.paused, sleeper.layerPath), undefined, 'it is settled');
  const { vm } = await openPaused(sleeper.paused, sleeper.layerPath, sleeper.faults);
  t.equal((await ChunkChecksums.of(vm.memoryPath)).digest, found.checksums.digest);
  t.same(readdirSync(sleeper.paused).sort(), ['2', '2-copy', 'manifest.json']);
  t.ok((await sleeper.wake()).equals(sleeper.memory));
  await sleeper.write(5, 1, 0xee);
  t.ok((await sleeper.pause()).isIncremental, 'the next one is of its own memory again');
  await sleeper.end();
  t.ok((await sleeper.wake()).equals(sleeper.memory));
});

t.test('a copy of another VM, or one that is gone, is of no use', async (t) => {
  const uses: ((copy: EarlierCopy, sleeper: PagedSleeper) => Promise<EarlierCopy>)[] = [
    async (copy) => {
      await rm(copy.memoryPath);
      return copy;
    },
    async (copy) => {
      await rm(copy.checksumsPath);
      return copy;
    },
    // It was paused and resumed: what it changed before that is not among the pages of its VMM.
    async (copy, sleeper) => {
      await sleeper.write(500_000, 10, 0x11);
      await sleeper.pause();
      await sleeper.end();
      await sleeper.settle();
      await sleeper.wake();
      return copy;
    },
  ];
  for (const use of uses) {
    const sleeper = await makeAwake(t);
    const copy = await use(await makeCopy(t, sleeper), sleeper);
    await sleeper.write(700_000, 10, 0x22);
    await sleeper.pause(undefined, copy);
    t.notMatch(await readPaused(sleeper.paused), { memory: { path: /copy/ } });
    await sleeper.end();
    await sleeper.settle();
    t.notOk(readdirSync(sleeper.paused).some((name) => name.endsWith('-copy')));
    t.ok((await sleeper.wake()).equals(sleeper.memory));
  }
});

t.test('a pause since a copy that fails at any point leaves the guest running, and the copy', async (t) => {
  for (const point of PAUSE_POINTS) {
    const sleeper = await makeAwake(t);
    const copy = await makeCopy(t, sleeper);
    await sleeper.write(70_000, 100, 0xcc);
    sleeper.onReach = (at) => {
      if (at === point) throw new Error(`fault at ${at}`);
    };
    await t.rejects(sleeper.pause(undefined, copy), { message: `fault at ${point}` });
    t.same(readdirSync(sleeper.paused).sort(), ['1', 'manifest.json'], point);
    t.match(await readPaused(sleeper.paused), { phase: 'awake', generation: 1 });
    sleeper.onReach = () => undefined;
    await sleeper.write(80_000, 100, 0xdd);
    t.ok((await sleeper.pause(undefined, copy)).isIncremental);
    await sleeper.end();
    t.ok((await sleeper.wake()).equals(sleeper.memory), 'also when its first use settles it');
  }
});

t.test('changes of a memory that is another one by now are not sent', async (t) => {
  const sleeper = await makeAwake(t);
  const copy = await makeCopy(t, sleeper);
  await sleeper.write(70_000, 100, 0xcc);
  await sleeper.pause(undefined, copy);
  await sleeper.end();
  utimesSync(copy.memoryPath, 1, 1);
  await t.rejects(openChanges(sleeper.paused, sleeper.layerPath), { message: /was changed before/ });
  const entries = await ChunkChecksums.of(copy.memoryPath);
  async function* backwards() {
    for (const page of [40, 2]) yield { offset: page * PAGE_BYTES, pages: Buffer.alloc(PAGE_BYTES) };
  }
  await t.rejects(entries.overlay(copy.memoryPath, backwards()), /out of order/);
});
