// Limits of one command, by the guest's size.
import t from 'tap';
import { toLimits } from '../../../../guest-agent/src/exec/limits.ts';

const MIB = 2 ** 20;

t.test('shares go by the memory of the guest', (t) => {
  for (const [memoryMib, threadsMax, pids, [together, command], [togetherPids, commandPids]] of [
    // Linux's values in guests of 128 and 512 MiB, and of 64 GiB, where pid_max is below threads-max.
    [92, 656, 0, [46, 43], [492, 164]],
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
