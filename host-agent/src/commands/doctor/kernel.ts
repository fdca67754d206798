// Checks the kernel's version and its Landlock support.
import { type Finding, type Group, type Host, ok, warning } from './host.ts';

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
