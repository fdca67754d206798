// Computing a command's usage from the kernel’s counters.
import '../support/addon-dir.ts';
import t from 'tap';
import {
  keyedNumber,
  sumIo,
  toResourceUsage,
  wasOomKilled,
} from '../../../../guest-agent/src/exec/cgroups.ts';

t.test('usage is the most complete of what the kernel counted', async (t) => {
  t.equal(keyedNumber('usage_usec 9\nuser_usec 5\nsystem_usec 4\n', 'user_usec'), 5);
  t.equal(keyedNumber('user_usec 5\n', 'user_usec'), 5);
  t.equal(keyedNumber('nr_user_usec 5\n', 'user_usec'), 0);
  t.equal(keyedNumber('', 'user_usec'), 0);
  t.equal(keyedNumber('user_usec x\n', 'user_usec'), 0);
  t.equal(keyedNumber('a 1\nuser_usec\n', 'user_usec'), 0);
  t.equal(sumIo('', 'rbytes'), 0);
  t.equal(sumIo('254:0 rbytes=10 wbytes=1 rios=3\n254:16 rbytes=5 wbytes=2\n', 'rbytes'), 15);
  const counted = {
    cpuStat: 'usage_usec 30\nuser_usec 20\nsystem_usec 10\n',
    memoryPeak: '4096\n',
    memoryStat: 'anon 1\npgfault 10\npgmajfault 3\n',
    memoryEvents: 'low 0\noom 1\noom_kill 1\noom_group_kill 0\n',
    ioStat: '254:0 rbytes=512 wbytes=0\n',
    processes: {
      cpuUserUs: 25,
      cpuSystemUs: 1,
      majorFaults: 1,
      involuntarySwitches: 6,
      readBytes: 0,
      writtenBytes: 1024,
    },
  };
  t.strictSame(toResourceUsage(counted), {
    cpuUserUs: 25,
    cpuSysUs: 10,
    peakMemoryBytes: 4096,
    pageFaultsMajor: 3,
    contextSwitchesInvoluntary: 6,
    ioReadBytes: 512,
    ioWriteBytes: 1024,
  });
  const none = { cpuStat: '', memoryPeak: '', memoryStat: '', memoryEvents: '', ioStat: '' };
  t.strictSame(toResourceUsage({ ...none, processes: counted.processes }), {
    ...{ cpuUserUs: 25, cpuSysUs: 1, peakMemoryBytes: 0, pageFaultsMajor: 1 },
    ...{ contextSwitchesInvoluntary: 6, ioReadBytes: 0, ioWriteBytes: 1024 },
  });
  t.notOk(wasOomKilled({ ...counted, ...none }));
  t.ok(wasOomKilled(counted));
  t.notOk(wasOomKilled({ ...counted, memoryEvents: 'oom 1\noom_kill 0\n' }));
});
