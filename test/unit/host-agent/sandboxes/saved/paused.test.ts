// What is on disk of a paused sandbox at each moment, with a process that maps its memory file as a VMM does.
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { mkdir, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { PAGE_BYTES } from '../../../../../host-agent/src/engines/mapping.ts';
import type { FaultPoint } from '../../../../../host-agent/src/lib/faults.ts';
import {
  markAwake,
  openPaused,
  readPaused,
  verifyPaused,
} from '../../../../../host-agent/src/sandboxes/saved/paused.ts';
import { PAGES, PagedSleeper, SIZE } from '../../../../support/paged-sleeper.ts';
import { Pager } from '../../../../support/pager.ts';

const programs = await mkdtemp(join(tmpdir(), 'paused-'));
t.teardown(() => rm(programs, { recursive: true }));
const program = await Pager.compile(programs);
const PAUSE_POINTS: readonly FaultPoint[] = [
  'pause.memory',
  'pause.paused',
  'pause.written',
  'pause.flushed',
  'pause.durable',
];

async function makeSleeper(t: Test): Promise<PagedSleeper> {
  const dir = await mkdtemp(join(tmpdir(), 'sleeper-'));
  const sleeper = new PagedSleeper(program, dir);
  t.teardown(async () => {
    await sleeper.end();
    await rm(dir, { recursive: true, force: true });
  });
  for (let page = 0; page < PAGES; page += 2)
    sleeper.memory.fill(page % 251, page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
  return sleeper;
}

/** A sleeper that was paused and resumed once, and changed since. */
async function makeAwake(t: Test): Promise<PagedSleeper> {
  const sleeper = await makeSleeper(t);
  await sleeper.pause();
  await sleeper.settle();
  await sleeper.wake();
  await sleeper.write(5000, 200_000, 0xaa);
  await sleeper.write(SIZE - 5000, 5000, 0xbb);
  sleeper.done.length = 0;
  return sleeper;
}

t.test('the first pause writes all, later ones what changed, and each wakes as it was', async (t) => {
  const sleeper = await makeSleeper(t);
  const first = await sleeper.pause();
  t.match(first, { isIncremental: false, pausedMs: 1 });
  t.ok(first.bytesWritten >= SIZE);
  t.same(sleeper.done, ['pause', 'release'], 'it stays paused, with its clock left alone');
  t.equal(await sleeper.settle(), 0);
  for (let round = 0; round < 8; round++) {
    t.ok((await sleeper.wake()).equals(sleeper.memory), `round ${round}`);
    for (let count = 0; count < 5; count++)
      await sleeper.write((round * 77_777 + count * 333_333) % (SIZE - 9000), 9000, round * 16 + count + 1);
    const { isIncremental, bytesWritten } = await sleeper.pause();
    t.ok(isIncremental);
    t.ok(bytesWritten < SIZE / 10, `${bytesWritten}`);
    await sleeper.end();
    t.ok((await sleeper.settle()) >= PAGE_BYTES);
    await verifyPaused(sleeper.paused);
  }
  const manifest = await readPaused(sleeper.paused);
  t.match(manifest, {
    phase: 'paused',
    generation: 9,
    memory: { path: '1/memory' },
    state: { path: '9/state' },
  });
  t.same(
    readdirSync(sleeper.paused).sort(),
    ['1', '9', 'manifest.json'],
    'nothing of earlier pauses is left',
  );
  t.same(readdirSync(join(sleeper.paused, '9')).sort(), ['checksums', 'state']);
  t.equal(statSync(sleeper.paused).mode & 0o777, 0o700);
});

t.test('a pause that fails at any point leaves the guest running, and the next one is as good', async (t) => {
  for (const make of [makeSleeper, makeAwake])
    for (const point of PAUSE_POINTS) {
      const sleeper = await make(t);
      const before = await readPaused(sleeper.paused).catch(() => undefined);
      sleeper.onReach = (at) => {
        if (at === point) throw new Error(`fault at ${at}`);
      };
      await t.rejects(sleeper.pause(), { message: `fault at ${point}` });
      const wasPaused = point !== 'pause.memory';
      t.same(sleeper.done, [...(wasPaused ? ['pause', 'run on'] : []), 'release', 'step clock'], point);
      t.same(await readPaused(sleeper.paused), before);
      t.notOk(
        existsSync(join(sleeper.paused, String((before?.generation ?? 0) + 1))),
        'nothing of it is left',
      );
      sleeper.onReach = () => undefined;
      await sleeper.write(70_000, 100, 0xcc);
      t.equal((await sleeper.pause()).isIncremental, before !== undefined);
      await sleeper.end();
      await sleeper.settle();
      t.ok((await sleeper.wake()).equals(sleeper.memory));
    }
});

t.test('a cancelled pause leaves the guest running', async (t) => {
  for (const point of PAUSE_POINTS.slice(0, -1)) {
    const sleeper = await makeAwake(t);
    const cancel = new AbortController();
    sleeper.onReach = (at) => at === point && cancel.abort(new Error('a client came'));
    await t.rejects(sleeper.pause(cancel.signal), { message: 'a client came' });
    t.equal(sleeper.done.at(-1), 'step clock');
    t.match(await readPaused(sleeper.paused), { phase: 'awake', generation: 1 });
  }
  const sleeper = await makeAwake(t);
  const cancel = new AbortController();
  sleeper.failsAtEnd = true;
  sleeper.onReach = (at) => at === 'pause.durable' && cancel.abort();
  await sleeper.pause(cancel.signal);
  t.match(await readPaused(sleeper.paused), { phase: 'paused' }, 'too late, also for a VMM that fails then');
  t.same(sleeper.done, ['pause', 'release']);
  await sleeper.end();
  sleeper.onReach = () => undefined;
  t.ok((await sleeper.wake()).equals(sleeper.memory));
});

/** What a daemon that is killed at each point leaves, as copies of the directory. */
async function crashes(t: Test, sleeper: PagedSleeper, work: () => Promise<unknown>) {
  const copies: { point: FaultPoint; copy: PagedSleeper }[] = [];
  const root = await mkdtemp(join(tmpdir(), 'crashes-'));
  t.teardown(() => rm(root, { recursive: true }));
  sleeper.onReach = (point) => {
    const dir = join(root, `${copies.length}`);
    cpSync(sleeper.dir, dir, { recursive: true, preserveTimestamps: true });
    const copy = new PagedSleeper(program, dir);
    cpSync(sleeper.layerPath, copy.layerPath, { preserveTimestamps: true });
    t.teardown(() => copy.end());
    copies.push({ point, copy });
  };
  await work();
  sleeper.onReach = () => undefined;
  return copies;
}

t.test(
  'wherever the daemon and the VMM are killed, the guest is as before, or paused as it was',
  async (t) => {
    const sleeper = await makeAwake(t);
    const copies = await crashes(t, sleeper, async () => {
      await sleeper.pause();
      await sleeper.end();
      await sleeper.settle();
    });
    t.same(
      copies.map(({ point }) => point),
      [...PAUSE_POINTS, 'pause.applied', 'pause.settled'],
    );
    for (const { point, copy } of copies) {
      const manifest = await readPaused(copy.paused);
      const isDurable = ['pause.durable', 'pause.applied', 'pause.settled'].includes(point);
      t.equal(manifest?.phase, isDurable ? 'paused' : 'awake', point);
      if (!isDurable) {
        await t.rejects(openPaused(copy.paused, copy.layerPath, copy.faults), /holds no paused guest/);
        continue;
      }
      await copy.settle();
      await verifyPaused(copy.paused);
      t.ok((await copy.wake()).equals(sleeper.memory), point);
    }
  },
);

t.test('an awake guest is never restored from what it was', async (t) => {
  const sleeper = await makeAwake(t);
  await t.rejects(openPaused(sleeper.paused, sleeper.layerPath, sleeper.faults), /holds no paused guest/);
  await t.rejects(sleeper.settle(), /holds no paused guest/);
  await t.rejects(markAwake(sleeper.paused, sleeper.faults), /holds no paused guest/);
  await sleeper.pause();
  await t.rejects(sleeper.pause(), /holds a paused guest, but its VM runs/);
  await t.rejects(markAwake(sleeper.paused, sleeper.faults), /is not settled/);
});

t.test('damage is found before the guest runs', async (t) => {
  const sleeper = await makeAwake(t);
  await sleeper.pause();
  await sleeper.end();
  await sleeper.settle();
  const good = join(programs, 'good');
  cpSync(sleeper.dir, good, { recursive: true, preserveTimestamps: true });
  const spoil = async (what: string, path: string, change: (path: string) => void, message: RegExp) => {
    await rm(sleeper.dir, { recursive: true });
    cpSync(good, sleeper.dir, { recursive: true, preserveTimestamps: true });
    change(join(sleeper.dir, path));
    await t.rejects(openPaused(sleeper.paused, sleeper.layerPath, sleeper.faults), { message }, what);
  };
  const flip = (path: string) => {
    const bytes = readFileSync(path);
    bytes.writeUInt8(bytes.readUInt8(bytes.length >> 1) ^ 1, bytes.length >> 1);
    writeFileSync(path, bytes);
  };
  await spoil('state', 'paused/2/state', flip, /2\/state has another checksum$/);
  await spoil('memory', 'paused/1/memory', flip, /1\/memory differs from its checksum at 1376256$/);
  await spoil(
    'size',
    'paused/1/memory',
    (path) => writeFileSync(path, ''),
    /is missing or has another size$/,
  );
  const later = (path: string) => utimesSync(path, 1, 1);
  await spoil('layer', 'layer.ext4', later, /layer\.ext4 was changed since$/);
  await spoil(
    'no layer',
    'layer.ext4',
    (path) => execFileSync('rm', [path]),
    /layer\.ext4 was changed since$/,
  );
  await spoil('manifest', 'paused/manifest.json', flip, /^cannot read .*manifest\.json/);
  await rm(sleeper.dir, { recursive: true });
  cpSync(good, sleeper.dir, { recursive: true, preserveTimestamps: true });
  flip(join(sleeper.paused, '2/checksums'));
  await t.rejects(verifyPaused(sleeper.paused), /the list of checksums .* is damaged/);
  await rm(sleeper.dir, { recursive: true });
  cpSync(good, sleeper.dir, { recursive: true, preserveTimestamps: true });
  // As an archive of whole seconds leaves them.
  for (const path of ['layer.ext4', 'paused/1/memory']) {
    const { mtimeMs } = statSync(join(sleeper.dir, path));
    utimesSync(join(sleeper.dir, path), 1, Math.floor(mtimeMs / 1000));
  }
  t.ok((await sleeper.wake()).equals(sleeper.memory));
});

t.test('a log that is damaged changes nothing, and is an error each time', async (t) => {
  const sleeper = await makeAwake(t);
  await sleeper.pause();
  await sleeper.end();
  const log = join(sleeper.paused, '2/changes');
  const good = readFileSync(log);
  writeFileSync(log, good.subarray(0, -20));
  await t.rejects(sleeper.settle(), /the log of changed pages .* is damaged/);
  await t.rejects(sleeper.wake(), /the log of changed pages .* is damaged/);
  writeFileSync(log, good);
  t.ok((await sleeper.wake()).equals(sleeper.memory), 'opened before it was settled');
});

t.test('a full disk leaves the guest running, or the saved one as it is', async (t) => {
  const root = await mkdtemp(join(tmpdir(), 'full-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE * 2}`, 'paused', root]);
  const sleeper = new PagedSleeper(program, root);
  t.teardown(async () => {
    await sleeper.end();
    execFileSync('umount', [root]);
    await rm(root, { recursive: true });
  });
  const filler = join(root, 'filler');
  const fill = async (leaveBytes: number): Promise<void> => {
    await rm(filler, { force: true });
    await using file = await open(filler, 'w');
    const { bavail, bsize } = statfsSync(root);
    await file.write(Buffer.alloc(Math.max(0, bavail * bsize - leaveBytes)));
  };
  await fill(SIZE / 2);
  await t.rejects(sleeper.pause(), { code: 'ENOSPC' });
  t.equal(sleeper.done.at(-1), 'step clock');
  await rm(filler);
  for (const [index, leave] of [0, 4096, 8192, 100_000].entries()) {
    if ((await readPaused(sleeper.paused))?.phase !== 'awake') {
      await sleeper.pause();
      await sleeper.settle();
      await sleeper.wake();
    }
    await sleeper.write(0, 120_000, 252 + index);
    await fill(leave);
    await t.rejects(sleeper.pause(), { code: 'ENOSPC' }, `${leave}`);
    t.equal(sleeper.done.at(-1), 'step clock');
    t.match(await readPaused(sleeper.paused), { phase: 'awake' });
    await rm(filler);
  }
  await sleeper.write(50_000, 60_000, 0x77);
  t.ok((await sleeper.pause()).isIncremental, 'with space again');
  await sleeper.end();
  await fill(0);
  await t.rejects(sleeper.settle(), { code: 'ENOSPC' });
  await t.rejects(sleeper.wake(), { code: 'ENOSPC' });
  t.match(await readPaused(sleeper.paused), { phase: 'paused' });
  await rm(filler);
  t.ok((await sleeper.wake()).equals(sleeper.memory));
});

t.test('files of an unfinished pause are replaced', async (t) => {
  const sleeper = await makeAwake(t);
  await mkdir(join(sleeper.paused, '2'));
  writeFileSync(join(sleeper.paused, '2/changes'), 'of a killed daemon');
  writeFileSync(join(sleeper.paused, 'manifest.json.new'), '{');
  await sleeper.pause();
  await sleeper.end();
  await sleeper.settle();
  t.ok((await sleeper.wake()).equals(sleeper.memory));
});
