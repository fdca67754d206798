// Admission control: capacity is reserved before use, and never twice.
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { copySparse } from '@sandboxd/rootfs-builder';
import t from 'tap';
import { AppError } from '../../../../host-agent/src/lib/errors.ts';
import {
  Admission,
  type AdmissionOptions,
  asNoSpace,
  type HostCapacity,
  readHostCapacity,
} from '../../../../host-agent/src/sandboxes/admission.ts';
import type { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import { countInUse } from '../../../../host-agent/src/sandboxes/usage.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

const MIB = 2 ** 20;
const GIB = 2 ** 30;

function make(
  changes: Partial<AdmissionOptions> & { readonly capacity?: Partial<HostCapacity> } = {},
): Admission {
  const { capacity, ...rest } = changes;
  return new Admission({
    maxSandboxes: 10,
    memoryReserveBytes: 1024 * MIB,
    memoryOvercommit: 1,
    readCapacity: async () => ({
      memoryTotalBytes: 8 * GIB,
      memoryAvailableBytes: 8 * GIB,
      diskFreeBytes: 100 * GIB,
      ...capacity,
    }),
    inUse: () => ({ sandboxes: 0, memoryMib: [], sharedBytes: 0, bootedMib: 0 }),
    ...rest,
  });
}

const need = (memoryMib: readonly number[], changes = {}) => ({
  memoryMib,
  areCopies: false,
  diskBytes: 0,
  ...changes,
});

t.test('the sum of reserved memory stays within the budget, including starts in progress', async (t) => {
  const admission = make({
    inUse: () => ({ sandboxes: 2, memoryMib: [1000, 1000], sharedBytes: 0, bootedMib: 0 }),
  });
  // 7168 MiB: two guests of 1096 MiB exist, four more fit.
  const held = await Promise.all([1, 2, 3, 4].map(() => admission.reserve(need([1000]))));
  await t.rejects(admission.reserve(need([1000])), {
    code: 'exhausted',
    message: /no memory: .* promised 7168 MiB .*7672 MiB/,
    details: { retryAfterS: 5 },
  });
  held[0]![Symbol.dispose]();
  held[0]![Symbol.dispose]();
  await admission.reserve(need([1000]));
  await t.rejects(admission.reserve(need([1000])), { code: 'exhausted' });
});

t.test('overcommit raises the memory budget, not the available memory', async (t) => {
  const copies = need(new Array(8).fill(2048), { areCopies: true });
  await t.rejects(make().reserve(copies), { code: 'exhausted' });
  await make({ memoryOvercommit: 3 }).reserve(copies);
  await t.rejects(
    make({ memoryOvercommit: 3, capacity: { memoryAvailableBytes: 2 * GIB } }).reserve(copies),
    {
      message: /no memory: 2048 MiB are available on this host, 2304 MiB must be/,
    },
  );
});

t.test('memory shared by copies counts once, both in the budget and against available memory', async (t) => {
  const shared = { sandboxes: 0, memoryMib: [], sharedBytes: 1024 * MIB, bootedMib: 0 };
  const copies = need([1000, 1000, 1000], { areCopies: true, shared: { of: 'saved', bytes: 3000 * MIB } });
  // 7168 MiB: 3288 MiB for the copies, 3000 MiB that they share.
  (await make().reserve(copies))[Symbol.dispose]();
  await t.rejects(make({ inUse: () => shared }).reserve(copies), { message: /7168 MiB .*7312 MiB/ });
  await t.rejects(make({ capacity: { memoryAvailableBytes: 4 * GIB } }).reserve(copies), {
    message: /4096 MiB are available on this host, 4504 MiB must be/,
  });
});

t.test('memory to be shared counts before it is allocated, once for each saved guest', async (t) => {
  const admission = make();
  const first = (path: string) => need([], { areCopies: true, shared: { of: path, bytes: 3000 * MIB } });
  // 7168 MiB.
  for (const path of ['one', 'one', 'two']) await admission.reserve(first(path));
  await t.rejects(admission.reserve(first('three')), { code: 'exhausted', message: /7168 MiB .*9000 MiB/ });
  await t.rejects(admission.reserve(need([2000], { areCopies: true })), { message: /7168 MiB .*8096 MiB/ });
});

t.test('the guest of a template takes memory but no slot, and gives way where that helps', async (t) => {
  let template: Disposable | undefined;
  let cancelled = 0;
  const admission = make({
    maxSandboxes: 1,
    giveWay: () => {
      if (template === undefined) return undefined;
      cancelled += 1;
      template[Symbol.dispose]();
      template = undefined;
      return Promise.resolve();
    },
  });
  // 7168 MiB.
  template = await admission.reserve(need([4000], { isTemplate: true }));
  await t.rejects(admission.reserve(need([7100])), { code: 'exhausted' });
  await t.rejects(admission.reserve(need([4000], { isTemplate: true })), { code: 'exhausted' });
  t.equal(cancelled, 0, 'it would not fit without it either, or is a template itself');
  await admission.reserve(need([4000]));
  t.equal(cancelled, 1);
  await t.rejects(admission.reserve(need([1])), { message: /takes 1 sandboxes/ });
});

t.test('a booted guest counts with what its engine says', async (t) => {
  const running = (kind: string) =>
    ({
      running: { vm: { identity: { memory: { kind } } } },
      record: { options: { memoryMib: 128 } },
    }) as unknown as Sandbox;
  const all = [running('anonymous'), running('copy-on-write')];
  t.match(countInUse(all, [running('file')], { bootedOverheadMib: 160 }), { bootedMib: 2 * (160 - 96) });
  t.match(countInUse(all, [], {}), { bootedMib: 0, memoryMib: [128, 128] });
  const inUse = () => ({ sandboxes: 1, memoryMib: [1000], sharedBytes: 0, bootedMib: 64 });
  // 7168 MiB: a booted guest of 1160 MiB exists.
  await make({ inUse }).reserve(need([5912]));
  await t.rejects(make({ inUse }).reserve(need([5913])), { message: /7168 MiB .*7169 MiB/ });
});

t.test('of many concurrent requests exactly as many as fit are admitted', async (t) => {
  const admission = make({ capacity: { memoryAvailableBytes: 3 * GIB } });
  const results = await Promise.allSettled(Array.from({ length: 10 }, () => admission.reserve(need([512]))));
  // 2048 MiB besides the reserve, 352 MiB for each boot.
  t.equal(results.filter(({ status }) => status === 'fulfilled').length, 5);
});

t.test('a request that fits to the last byte is admitted, and one byte more is refused', async (t) => {
  // One guest with its VMM, besides the reserve.
  const memoryTotalBytes = (1024 + 128 + 96) * MIB;
  await make({ capacity: { memoryTotalBytes } }).reserve(need([128]));
  await t.rejects(make({ capacity: { memoryTotalBytes: memoryTotalBytes - 1 } }).reserve(need([128])), {
    message: /promised 223 MiB on this host, 224 MiB would be/,
  });
  const memoryAvailableBytes = memoryTotalBytes;
  await make({ capacity: { memoryAvailableBytes } }).reserve(need([128]));
  await t.rejects(
    make({ capacity: { memoryAvailableBytes: memoryAvailableBytes - 1 } }).reserve(need([128])),
    {
      message: /1247 MiB are available on this host, 1248 MiB must be/,
    },
  );
  await make({ capacity: { diskFreeBytes: 257 * MIB } }).reserve(need([], { diskBytes: MIB }));
  await t.rejects(
    make({ capacity: { diskFreeBytes: 257 * MIB - 1 } }).reserve(need([], { diskBytes: MIB })),
    {
      message: /256 MiB are free in the data directory, 257 MiB must be/,
    },
  );
  const full = { sandboxes: 10, memoryMib: new Array(10).fill(8192), sharedBytes: 0, bootedMib: 0 };
  await make({ inUse: () => full, capacity: { memoryAvailableBytes: 0 } }).reserve(
    need([], { diskBytes: MIB }),
  );
});

t.test('slots and disk include starts in progress', async (t) => {
  const slots = make({
    maxSandboxes: 3,
    inUse: () => ({ sandboxes: 1, memoryMib: [], sharedBytes: 0, bootedMib: 0 }),
  });
  await slots.reserve(need([128, 128]));
  await t.rejects(slots.reserve(need([128])), { message: /takes 3 sandboxes, 4 would exist/ });
  const disk = make({ capacity: { diskFreeBytes: 1024 * MIB } });
  const saving = await disk.reserve(need([], { diskBytes: 512 * MIB }));
  await t.rejects(disk.reserve(need([], { diskBytes: 512 * MIB })), {
    message: /no disk space: 1024 MiB are free.*1280 MiB/,
  });
  saving[Symbol.dispose]();
  await disk.reserve(need([], { diskBytes: 512 * MIB }));
});

t.test('a request waits for space that deletes will free, with a time limit', async (t) => {
  let diskFreeBytes = 0;
  const waits: (Promise<void> | undefined)[] = [];
  const options = {
    readCapacity: async () => ({ memoryTotalBytes: 0, memoryAvailableBytes: 0, diskFreeBytes }),
    freeing: () => waits.shift(),
  };
  const disk = need([], { diskBytes: MIB });
  const admission = make(options);
  const { promise, resolve } = Promise.withResolvers<void>();
  waits.push(Promise.reject(new Error('it is tried again')), promise);
  const reserved = admission.reserve(disk);
  await new Promise(setImmediate);
  diskFreeBytes = 257 * MIB;
  resolve();
  (await reserved)[Symbol.dispose]();
  t.same([...admission.refusals], [], 'a request that got it in the end was not refused');
  diskFreeBytes = 0;
  waits.push(Promise.resolve());
  await t.rejects(admission.reserve(disk), { code: 'exhausted' });
  await t.rejects(admission.reserve(disk), { code: 'exhausted' });
  await t.rejects(make({ ...options, maxSandboxes: 0 }).reserve(need([1])), {
    code: 'exhausted',
    details: { stage: 'slots' },
  });
  t.same([...admission.refusals], [['disk', 2]]);
  const clock = new FakeClock(t);
  waits.push(new Promise(() => undefined), new Promise(() => undefined));
  const late = admission.reserve(disk);
  late.catch(() => undefined);
  await new Promise(setImmediate);
  t.same(clock.delays, [5000]);
  clock.tick(5000);
  await t.rejects(late, { code: 'exhausted' });
});

t.test('the capacity is read from the host', async (t) => {
  const capacity = await readHostCapacity('/');
  t.ok(
    capacity.memoryTotalBytes > 64 * MIB && capacity.memoryAvailableBytes > 0 && capacity.diskFreeBytes > 0,
  );
  t.ok(capacity.memoryAvailableBytes <= capacity.memoryTotalBytes);
});

t.test('the tightest limit of the daemon’s cgroups counts as the host’s capacity', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'room-test-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const [proc, cgroup] = [join(dir, 'proc'), join(dir, 'cgroup')];
  const put = (path: string, text: string | number): void => {
    mkdirSync(join(path, '..'), { recursive: true });
    writeFileSync(path, `${text}\n`);
  };
  put(join(proc, 'meminfo'), 'MemTotal: 8388608 kB\nMemAvailable: 4194304 kB');
  put(join(proc, 'self/cgroup'), '4:memory:/old\n0::/slice/daemon');
  const read = async () => {
    const { memoryTotalBytes, memoryAvailableBytes } = await readHostCapacity(dir, proc, cgroup);
    return [memoryTotalBytes, memoryAvailableBytes];
  };
  t.same(await read(), [8 * GIB, 4 * GIB], 'no limit at all');
  const { diskFreeBytes } = await readHostCapacity(dir, proc, cgroup);
  const { bavail, bsize } = statfsSync(dir);
  t.ok(Math.abs(diskFreeBytes - bavail * bsize) < GIB, `${diskFreeBytes}`);
  put(join(cgroup, 'slice/daemon/memory.max'), 'max');
  put(join(cgroup, 'slice/memory.max'), 2 * GIB);
  put(join(cgroup, 'slice/memory.current'), 1.5 * GIB);
  put(join(cgroup, 'slice/memory.stat'), `anon ${GIB}\ninactive_file ${GIB / 4}\nactive_file 7`);
  t.same(await read(), [2 * GIB, 0.75 * GIB], 'one of a group around it, without what can be reclaimed');
  put(join(cgroup, 'memory.max'), GIB);
  put(join(cgroup, 'memory.current'), 3 * GIB);
  t.same(await read(), [GIB, 0], 'a container’s own, all used');
  put(join(cgroup, 'slice/daemon/memory.max'), GIB / 2);
  t.same((await read())[0], GIB / 2);
  put(join(proc, 'self/cgroup'), '4:memory:/old');
  t.same(await read(), [8 * GIB, 4 * GIB], 'none of this kind');
  put(join(proc, 'self/cgroup'), '0::/');
  t.same(await read(), [GIB, 0]);
  put(join(proc, 'meminfo'), 'MemTotal: 1024 kB');
  t.same(await read(), [MIB, 0]);
});

t.test('a full host disk is recognized by error codes, not by message texts', async (t) => {
  const small = mkdtempSync(join(tmpdir(), 'room-full-'));
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', small]);
  t.teardown(() => {
    execFileSync('umount', [small]);
    rmSync(small, { recursive: true });
  });
  const failure = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => t.fail('there was room'),
      (error: unknown) => error,
    );
  const big = join(mkdtempSync(join(tmpdir(), 'room-big-')), 'big');
  t.teardown(() => rmSync(join(big, '..'), { recursive: true }));
  writeFileSync(big, Buffer.alloc(MIB, 1));
  const own = await failure(writeFile(join(small, 'a'), Buffer.alloc(MIB)));
  rmSync(join(small, 'a'), { force: true });
  const program = await failure(copySparse(big, join(small, 'b')));
  const saved = new AppError('internal', 'cannot save the VM', { cause: program });
  for (const error of [own, program, saved])
    t.match(asNoSpace(error, 'do it', 'save'), { code: 'exhausted', details: { stage: 'save' } });
  const panic = 'the guest panicked (ENOSPC: No space left on device)';
  const received = new AppError('internal', panic, { cause: new Error('no space left on device') });
  t.equal(asNoSpace(received, 'do it', 'boot'), undefined, 'text of a guest');
  t.equal(asNoSpace('ENOSPC', 'do it', 'boot'), undefined);
});
