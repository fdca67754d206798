// A cgroup v2 mount for the test, for cgroups on this machine.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';

/** Returns the mount point, which is unmounted after the test file. */
export function mountCgroups(): string {
  const mount = mkdtempSync(join(tmpdir(), 'sandboxd-cgroup-'));
  execFileSync('mount', ['-t', 'cgroup2', 'none', mount]);
  t.teardown(() => {
    // The agents keep their directories open until the end.
    execFileSync('umount', ['--lazy', mount]);
    rmdirSync(mount);
  });
  return mount;
}
