// A mount of cgroup v2 of the test's own, for cgroups on this machine.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';

/** Gives the mount point, which goes with the test file. */
export function mountCgroups(): string {
  const mount = mkdtempSync(join(tmpdir(), 'sandboxd-cgroup-'));
  execFileSync('mount', ['-t', 'cgroup2', 'none', mount]);
  t.teardown(() => {
    // The agents have their own directories open until the end.
    execFileSync('umount', ['--lazy', mount]);
    rmdirSync(mount);
  });
  return mount;
}
