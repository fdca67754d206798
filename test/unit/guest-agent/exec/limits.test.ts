// Limits of one command, by the guest's size.
import t from 'tap';
import { toLimits, toSystemVLimits } from '../../../../guest-agent/src/exec/limits.ts';

const MIB = 2 ** 20;

t.test('shares go by the memory of the guest', (t) => {
  for (const [memoryMib, threadsMax, pids, [together, command], [togetherPids, commandPids]] of [
    // Linux's values in guests of 128, 160 and 512 MiB, and of 64 GiB, where pid_max is below threads-max.
    [92, 656, 0, [46, 13], [492, 164]],
    [122, 900, 0, [61, 43], [675, 225]],
    [470, 3675, 0, [391, 366], [2756, 918]],
    [64_000, 512_000, 0, [61_936, 58_065], [24_576, 8192]],
    [470, 3675, 50, [391, 366], [2756, 50]],
    [470, 3675, 100_000, [391, 366], [2756, 100_000]],
  ] as const) {
    const size = { memoryBytes: memoryMib * MIB, threadsMax, pidMax: 32_768 };
    const limits = toLimits(size, pids);
    const what = `${memoryMib} MiB, ${pids}`;
    t.same([limits.together.pids, limits.command.pids], [togetherPids, commandPids], what);
    const mib = [limits.together, limits.command].map(({ memoryBytes }) => Math.floor(memoryBytes / MIB));
    t.same(mib, [together, command], what);
  }
  t.end();
});

t.test('System V objects and files in memory together leave memory for commands', (t) => {
  for (const [memoryMib, shmMib, queues, sem] of [
    [92, 6, 4, '32000 14131 500 883'],
    [215, 34, 8, '32000 70688 500 4418'],
    [470, 113, 28, '32000 232256 500 14516'],
    [64_000, 16_000, 4942, '32000 40484864 500 32000'],
  ] as const) {
    const size = { memoryBytes: memoryMib * MIB, threadsMax: 3675, pidMax: 32_768 };
    const { shmall, ...others } = toSystemVLimits(size);
    t.equal(Math.floor((shmall * 4096) / MIB), shmMib, `${memoryMib} MiB`);
    t.same(others, { msgmni: queues, sem }, `${memoryMib} MiB`);
    const most = toLimits(size, 0).together.memoryBytes / MIB;
    t.ok(shmMib + queues + memoryMib * 0.35 < most, `${memoryMib} MiB`);
  }
  t.end();
});
