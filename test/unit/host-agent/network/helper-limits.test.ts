// Control groups of the processes that relay and read a guest's connections: with a directory in place of their file
// system, and those of the host, if it has them.
import '../../../support/network/own-network.ts';
import { readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { type CgroupLimits, Cgroups } from '../../../../host-agent/src/engines/jail/cgroups.ts';
import { LEASES_DIR, leaseUsers } from '../../../../host-agent/src/engines/jail/uid-leases.ts';
import { TEST_UIDS } from '../../../support/jailed.ts';
import { openInspectLab } from '../../../support/network/inspect-lab.ts';
import { scaled } from '../../../support/time-scale.ts';
import { until } from '../../../support/until.ts';

t.setTimeout(scaled(120_000));
const { lab, open } = await openInspectLab(t);
const READ = { host: 'ok.test', protocol: 'tls', ports: [443], tls: 'inspect' } as const;

type Groups = Pick<Cgroups, 'make' | 'remove'>;
async function openWith(t: Test, groups: Groups) {
  const portUsers = leaseUsers(TEST_UIDS, 'test', LEASES_DIR, {
    open: async () => groups,
    log: pino({ level: 'silent' }),
  });
  const opened = await open(t, { rules: [READ] }, undefined, undefined, { portUsers });
  t.match(await opened.run(`out.get = await ask('GET', '/');`), { get: /^200/ });
  const pidOf = (suffix: string): number => {
    const record = join(lab.dir, 'egress', basename(opened.slot.namespace) + suffix);
    return (JSON.parse(readFileSync(record, 'utf8').split('\n')[1] ?? '{}') as { pid: number }).pid;
  };
  const uidOf = (pid: number) => /^Uid:\s(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
  return { ...opened, pidOf, uidOf };
}

t.test('each has a group with limits for memory and processes, which ends with it', async (t) => {
  const dir = await mkdtemp('/tmp/groups-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  const made = new Map<string, CgroupLimits>();
  const groups: Groups = {
    make: async (name, limits) => {
      made.set(name, limits);
      await mkdir(join(dir, name));
      return join(dir, name);
    },
    remove: (name) => rm(join(dir, name), { recursive: true, force: true }),
  };
  const { pidOf, uidOf, network, slot } = await openWith(t, groups);
  for (const [suffix, threads] of [
    ['', 4],
    ['.gateway', 32],
  ] as const) {
    const pid = pidOf(suffix);
    const name = `helper-${uidOf(pid)}`;
    t.same(made.get(name), { vcpus: 1, memoryMib: 320, overheadMib: 0, threads });
    t.equal(readFileSync(join(dir, name, 'cgroup.procs'), 'latin1'), String(pid));
  }
  process.kill(pidOf('.gateway'), 'SIGKILL');
  await until(() => made.size === 3, 'the next gateway');
  await network.destroy(slot);
  t.same(await readdir(dir), [], 'none is left');
});

t.test('those of the host hold, or are known to be missing', async (t) => {
  const cgroups = await Cgroups.open({ path: '/sandboxd', cpuShare: 0, ioBytesPerS: 0, dir: '/' });
  const { pidOf, uidOf } = await openWith(t, cgroups);
  for (const suffix of ['', '.gateway']) {
    const pid = pidOf(suffix);
    const groups = readFileSync(`/proc/${pid}/cgroup`, 'latin1');
    const isInOne = groups.includes(`/sandboxd/helper-${uidOf(pid)}\n`);
    const hasNone =
      cgroups.missing.length === 4 || cgroups.missing[0]?.startsWith('cgroup version 2') === true;
    t.equal(isInOne, !hasNone, `without ${cgroups.missing}`);
  }
});
