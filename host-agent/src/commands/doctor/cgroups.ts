// Checks control groups: version 2, its controllers, and the delegation of the VMMs' group.
import { basename } from 'node:path';
import { type Finding, fault, type Group, type Host, ok, warning } from './host.ts';
import { readProperties } from './service.ts';

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
