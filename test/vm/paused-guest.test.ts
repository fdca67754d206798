// A real guest that is paused and resumed again and again, without a daemon: what is written, and what it finds; more
// often with SOAK=1.
import { mkdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import t, { type Test } from 'tap';
import type { Engine } from '../../host-agent/src/engines/engine.ts';
import { checksumSparse } from '../../host-agent/src/lib/extents.ts';
import { keepAlive } from '../../host-agent/src/lib/lazy.ts';
import { readPaused, verifyPaused } from '../../host-agent/src/sandboxes/saved/paused.ts';
import { openEngine, Sleeper } from '../support/sleeper.ts';
import { scaled } from '../support/time-scale.ts';

const IS_SOAK = process.env.SOAK === '1';

t.setTimeout(scaled(600_000));
const alive = keepAlive();
t.teardown(() => alive[Symbol.dispose]());
const engine: Engine = await openEngine(true);
/** Only where copies map their memory does a pause know what changed. */
const isMapped = engine.name === 'qemu' || process.env.SANDBOXD_TEST_FORK_MEMORY === undefined;

async function boot(t: Test, memoryMib = 256): Promise<Sleeper> {
  const sleeper = await Sleeper.boot(engine, { memoryMib });
  t.teardown(() => sleeper.remove());
  return sleeper;
}

const small = await boot(t, 128);

t.test('the pauses of an idle guest write little, and it finds itself as it was', async (t) => {
  const sleeper = await boot(t);
  await sleeper.sh('echo of the disk > /root/file; sync; echo of memory > /dev/shm/file');
  await sleeper.sh(
    "setsid sh -c 'i=0; while sleep 0.05; do i=$((i+1)); echo $i > /dev/shm/count; done' & echo $! > /dev/shm/pid",
  );
  const first = await sleeper.pause();
  t.notOk(first.isIncremental);
  let count = 0;
  for (let round = 1; round <= (IS_SOAK ? 10 : 3); round++) {
    await sleeper.resume();
    t.equal(await sleeper.sh('cat /root/file /dev/shm/file'), 'of the disk\nof memory\n');
    const now = Number(await sleeper.sh('cat /dev/shm/count'));
    t.ok(now >= count, `its counter goes on: ${now}`);
    count = now;
    const { bytesWritten, settledBytes, isIncremental } = await sleeper.pause();
    t.equal(isIncremental, isMapped);
    if (isMapped)
      t.ok(
        bytesWritten + settledBytes < first.bytesWritten / 5,
        `${bytesWritten} + ${settledBytes} of ${first.bytesWritten}`,
      );
    t.comment(
      `pause ${round + 1}: ${bytesWritten} + ${settledBytes} bytes, the first: ${first.bytesWritten}`,
    );
    await verifyPaused(sleeper.paused);
  }
  await sleeper.resume();
});

t.test('memory and files that are rewritten between pauses keep their checksums', async (t) => {
  const sleeper = await boot(t);
  await sleeper.sh('head -c 40000000 /dev/urandom > /dev/shm/arena; mkdir /root/tree');
  for (let round = 0; round < (IS_SOAK ? 8 : 2); round++) {
    // Parts of the arena at other places each time, and a file tree; both with their checksums in memory.
    await sleeper.sh(`
      for i in 1 2 3 4 5 6 7 8; do
        dd if=/dev/urandom of=/dev/shm/arena bs=4096 count=$((i * 40)) seek=$(((i * 997 + ${round} * 1231) % 9000)) conv=notrunc status=none
        head -c $((i * 30000)) /dev/urandom > /root/tree/${round % 3}-$i
      done
      sha256sum /dev/shm/arena /root/tree/* > /dev/shm/sums`);
    await sleeper.pause();
    await sleeper.resume();
    t.equal(await sleeper.sh('sha256sum --quiet -c /dev/shm/sums; echo $?'), '0\n', `round ${round}`);
    await sleeper.sh('echo 3 > /proc/sys/vm/drop_caches');
    t.equal(await sleeper.sh('sha256sum --quiet -c /dev/shm/sums; echo $?'), '0\n', 'also from the disk');
  }
});

t.test('a pause that fails or is cancelled leaves the guest running', async (t) => {
  const points: string[] = [];
  let failing = '';
  small.onReach = (point) => {
    points.push(point);
    if (point === failing) throw new Error(`fault at ${point}`);
  };
  const goesOn = async () => t.equal(await small.sh('echo goes on'), 'goes on\n');
  for (let turn = 0; turn < 2; turn++) {
    for (failing of ['pause.memory', 'pause.paused', 'pause.written', 'pause.flushed', 'pause.durable']) {
      await t.rejects(small.save(), { message: new RegExp(`fault at ${failing}`) });
      await goesOn();
      t.not((await readPaused(small.paused))?.phase, 'paused');
    }
    failing = '';
    const cancel = new AbortController();
    small.onReach = (point) => point === 'pause.written' && cancel.abort(new Error('cancelled'));
    await t.rejects(small.save(cancel.signal), { message: 'cancelled' });
    await goesOn();
    small.onReach = (point) => {
      if (point === failing) throw new Error(`fault at ${point}`);
    };
    await small.pause();
    await small.resume();
    await goesOn();
  }
});

t.test('a restore that fails before the guest runs leaves it paused', async (t) => {
  await small.pause();
  for (const reason of ['one', 'two']) {
    await t.rejects(
      small.resume(async () => Promise.reject(new Error(reason))),
      { message: new RegExp(reason) },
    );
    t.match(await readPaused(small.paused), { phase: 'paused' });
  }
  small.onReach = () => {
    throw new Error('three');
  };
  await t.rejects(small.resume(), { message: /three/ });
  small.onReach = () => undefined;
  await small.resume();
  t.equal(await small.sh('echo awake'), 'awake\n');
});

t.test('what was copied from a resumed guest is not changed by its later pauses', async (t) => {
  const sleeper = await boot(t);
  await sleeper.sh(
    'echo first > /dev/shm/file; head -c 20000000 /dev/urandom > /dev/shm/arena; sha256sum /dev/shm/arena > /dev/shm/sums',
  );
  await sleeper.pause();
  await sleeper.resume();
  const dir = join(sleeper.dir, 'snapshot');
  await mkdir(dir);
  const saved = await sleeper.vm.save({
    dir,
    memoryBytes: sleeper.spec.memoryMib * 2 ** 20,
    beforePause: async () => void (await sleeper.guest.hold()),
    whilePaused: () => copySparse(sleeper.layerPath, join(dir, 'disk')),
    afterPause: () => sleeper.guest.release(),
  });
  const base = join(sleeper.paused, '1/memory');
  t.not((await stat(saved.memoryPath)).ino, (await stat(base)).ino);
  t.equal((await stat(base)).nlink, 1, 'nothing else has a name for the memory of a sandbox');
  const checksum = await checksumSparse(saved.memoryPath);
  const fork = await sleeper.fork(saved, join(dir, 'disk'));
  t.teardown(() => fork.remove());
  for (let round = 0; round < (IS_SOAK ? 3 : 1); round++) {
    await sleeper.sh('echo later > /dev/shm/file; head -c 20000000 /dev/urandom > /dev/shm/arena');
    await sleeper.pause();
    await sleeper.resume();
  }
  t.equal(await checksumSparse(saved.memoryPath), checksum);
  t.equal(
    await fork.sh('cat /dev/shm/file; sha256sum --quiet -c /dev/shm/sums; echo $?'),
    'first\n0\n',
    'a fork that runs',
  );
  const late = await sleeper.fork(saved, join(dir, 'disk'));
  t.teardown(() => late.remove());
  t.equal(
    await late.sh('cat /dev/shm/file; sha256sum --quiet -c /dev/shm/sums; echo $?'),
    'first\n0\n',
    'a later fork',
  );
  t.equal(await sleeper.sh('cat /dev/shm/file'), 'later\n');
  // A fork has its own paused files.
  await fork.pause();
  await fork.resume();
  t.equal(await fork.sh('sha256sum --quiet -c /dev/shm/sums; echo $?'), '0\n');
  t.equal(await checksumSparse(saved.memoryPath), checksum);
});
