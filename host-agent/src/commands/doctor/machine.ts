// Checks the kernel, its control groups, and features of the hardware that affect the isolation between guests.
import { basename } from 'node:path';
import { type Finding, fault, type Group, type Host, ok, warning } from './host.ts';
import { readProperties } from './service.ts';

const CPUS = '/sys/devices/system/cpu';
const SLOW_CLOCKS = ['hpet', 'acpi_pm', 'refined-jiffies', 'jiffies'];

export const machine: Group = {
  name: 'machine',
  check: async (host) => [
    await checkClock(host),
    checkClockSource(host),
    checkThreads(host),
    checkWeaknesses(host),
    checkMerging(host),
    checkSwap(host),
  ],
};

async function checkClock({ run }: Host): Promise<Finding> {
  const isSynchronized = (await run('timedatectl', 'show', '--property=NTPSynchronized', '--value'))?.trim();
  if (isSynchronized === 'yes') return ok('clock', 'follows a time server');
  const seen =
    isSynchronized === 'no' ? 'follows no time server' : 'unknown whether it follows a time server';
  return warning(
    'clock',
    seen,
    'install chrony or systemd-timesyncd: guests get their time from this clock, and keys and certificates expire by it',
  );
}

function checkClockSource({ read }: Host): Finding {
  const source = read('/sys/devices/system/clocksource/clocksource0/current_clocksource') ?? 'unknown';
  return SLOW_CLOCKS.includes(source)
    ? warning(
        'clock source',
        source,
        'each clock read is a slow device access; see why the kernel gave up its TSC (dmesg | grep -i tsc)',
      )
    : ok('clock source', source);
}

function checkThreads({ read }: Host): Finding {
  const isActive = read(`${CPUS}/smt/active`);
  if (isActive !== '1') return ok('smt', isActive === '0' ? 'off' : 'none');
  return warning(
    'smt',
    'on: two guests may share a core at the same time',
    'switch it off when guests are untrusted (nosmt on the kernel command line, or echo off > /sys/devices/system/cpu/smt/control)',
  );
}

function checkWeaknesses({ read, list }: Host): Finding {
  const dir = `${CPUS}/vulnerabilities`;
  const names = list(dir);
  const open = names.filter((name) => read(`${dir}/${name}`)?.startsWith('Vulnerable'));
  const revision = read(`${CPUS}/cpu0/microcode/version`) ?? 'not shown';
  if (names.length === 0)
    return warning(
      'microcode',
      'this kernel does not say what its CPU is vulnerable to',
      'run a kernel of Debian',
    );
  if (open.length === 0) return ok('microcode', `revision ${revision}, nothing is left open`);
  return warning(
    'microcode',
    `revision ${revision}, vulnerable: ${open.join(', ')}`,
    'install intel-microcode or amd64-microcode (non-free-firmware) and reboot; drop mitigations=off from the kernel command line; in a virtual machine its host has to do it',
  );
}

function checkMerging({ read }: Host): Finding {
  return read('/sys/kernel/mm/ksm/run') === '1'
    ? warning(
        'ksm',
        'on: equal pages of guests are merged, which tells them what others have',
        'echo 0 > /sys/kernel/mm/ksm/run, and disable ksmtuned',
      )
    : ok('ksm', 'off');
}

function checkSwap({ read }: Host): Finding {
  const devices = (read('/proc/swaps') ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.split(/\s/)[0]);
  return devices.length === 0
    ? ok('swap', 'none')
    : warning(
        'swap',
        `on ${devices.join(', ')}`,
        'what guests have in memory gets onto that disk: swapoff -a, or encrypt it; VMMs in control groups are not swapped',
      );
}

const MIN_VERSION = [6, 1] as const;

export const kernel: Group = {
  name: 'kernel',
  check: async (host) => [checkVersion(host), checkLandlock(host)],
};

function checkVersion({ read }: Host): Finding {
  const release = read('/proc/sys/kernel/osrelease') ?? 'unknown';
  const [major = 0, minor = 0] = release.split('.').map(Number);
  return major > MIN_VERSION[0] || (major === MIN_VERSION[0] && minor >= MIN_VERSION[1])
    ? ok('version', `Linux ${release}`)
    : warning(
        'version',
        `Linux ${release}`,
        `run Linux ${MIN_VERSION.join('.')} or newer; nothing older was tried`,
      );
}

function checkLandlock({ read }: Host): Finding {
  const modules = read('/sys/kernel/security/lsm');
  if (modules === undefined)
    return warning(
      'landlock',
      'security modules cannot be read',
      'mount securityfs: mount -t securityfs none /sys/kernel/security',
    );
  return modules.split(',').includes('landlock')
    ? ok('landlock', 'among the security modules')
    : warning(
        'landlock',
        `security modules are ${modules}`,
        `boot with lsm=landlock,${modules}: VMMs that can confine themselves to their files do`,
      );
}

const REQUIRED = ['memory', 'pids', 'cpu', 'io'];

export const cgroups: Group = {
  name: 'control groups',
  check: async (host) => {
    const mounts = (host.read('/proc/mounts') ?? '').split('\n').map((line) => line.split(' '));
    const mount = mounts.find(([, , type]) => type === 'cgroup2')?.[1];
    if (mount === undefined)
      return [
        findingFor(host)(
          'version',
          'version 2 is not mounted',
          'boot with systemd.unified_cgroup_hierarchy=1, or mount -t cgroup2 none /sys/fs/cgroup: VMMs have no limits else',
        ),
      ];
    const available = (host.read(`${mount}/cgroup.controllers`) ?? '').split(' ');
    const missing = REQUIRED.filter((name) => !available.includes(name));
    const controllers =
      missing.length === 0
        ? ok('controllers', REQUIRED.join(', '))
        : findingFor(host)(
            'controllers',
            `without ${missing.join(', ')}`,
            'boot without cgroup_disable=, and with cgroup_enable=memory where the kernel wants that; a host with version 1 beside version 2 has them there (systemd.unified_cgroup_hierarchy=1)',
          );
    return [ok('version', `version 2 at ${mount}`), controllers, await checkDelegation(host, mount)];
  },
};

/** A fault when isolation is required, otherwise a warning. */
function findingFor({ config }: Host): (name: string, seen: string, advice: string) => Finding {
  return config.requiresIsolation ? fault : warning;
}

async function checkDelegation({ config, run, list }: Host, mount: string): Promise<Finding> {
  const path = config.jail?.cgroups.path;
  if (path === undefined)
    return warning('delegation', 'VMMs have no groups (insecure_no_jail)', 'drop insecure_no_jail');
  const unit = basename(path);
  if (!/\.(?:service|scope)$/.test(unit))
    return ok('delegation', `${path} is the daemon's own, beside those of systemd`);
  const { Delegate: delegate, ActiveState: state } = await readProperties(run, unit, [
    'Delegate',
    'ActiveState',
  ]);
  if (delegate === 'yes' && state === 'active' && list(`${mount}${path}`).length > 0)
    return ok('delegation', `${path}, which systemd leaves to the daemon`);
  return warning(
    'delegation',
    `${path} is not a group that systemd leaves to the daemon (${unit}: ${state ?? 'unknown'}, Delegate=${delegate ?? 'unknown'})`,
    `systemctl start ${unit}, or set cgroup to one that has Delegate=yes`,
  );
}
