// Checks the limits of file descriptors and processes.

import { type Finding, fault, type Group, type Host, ok, warning } from './host.ts';
import { readProperties, SERVICE } from './service.ts';

/** Enough for the default limits of sandboxes and clients (lib/descriptors.ts). */
const RECOMMENDED_DESCRIPTORS = 65_536;
const MIN_DESCRIPTORS = 4096;
/** A typical VMM's thread count; its jail allows 256 threads beside those of its vCPUs. */
const THREADS_PER_SANDBOX = 16;

export const limits: Group = {
  name: 'limits',
  check: async (host) => [await checkDescriptors(host), checkProcesses(host)],
};

/** Checks the running daemon's limit, else the unit's, else this process's. */
async function checkDescriptors({ read, run }: Host): Promise<Finding> {
  const { MainPID: pid = '0', LimitNOFILE: unit } = await readProperties(run, SERVICE, [
    'MainPID',
    'LimitNOFILE',
  ]);
  const own = read(`/proc/${pid === '0' ? 'self' : pid}/limits`);
  const count = Number(
    pid === '0' && unit ? unit : (/^Max open files\s+(\d+)/m.exec(own ?? '')?.[1] ?? Number.NaN),
  );
  const whose = pid === '0' ? (unit ? 'a daemon of systemd' : 'a daemon started from here') : 'the daemon';
  const seen = `${whose} may have ${Number.isNaN(count) ? 'an unknown number of' : count} descriptors`;
  const advice = 'LimitNOFILE=1048576 in the unit, or ulimit -n 1048576 before it';
  if (count < MIN_DESCRIPTORS) return fault('descriptors', seen, advice);
  return count >= RECOMMENDED_DESCRIPTORS ? ok('descriptors', seen) : warning('descriptors', seen, advice);
}

function checkProcesses({ read, config }: Host): Finding {
  const required = config.limits.sandboxes * THREADS_PER_SANDBOX;
  const values = (['kernel/pid_max', 'kernel/threads-max'] as const).map((name) => ({
    name,
    value: Number(read(`/proc/sys/${name}`) ?? Number.NaN),
  }));
  const seen = values.map(({ name, value }) => `${name} ${value}`).join(', ');
  const short = values.filter(({ value }) => value < required);
  if (short.length === 0) return ok('processes', seen);
  return warning(
    'processes',
    `${seen}: too few for ${config.limits.sandboxes} sandboxes`,
    `sysctl -w ${short.map(({ name }) => `${name.replace('/', '.')}=4194304`).join(' ')}, and keep it in /etc/sysctl.d; or lower max_sandboxes`,
  );
}
