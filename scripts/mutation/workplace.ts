// The environment of a mutant's tests: a directory for their files, and a cgroup as the root of theirs. A mutant may
// leave anything in both. The next run removes what a killed run left.
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import process from 'node:process';

const NAME = /^mutants-(\d+)$/;
const CONTROLLERS = ['cpu', 'memory', 'io', 'pids'];
/** Killed processes still count for a while. */
const REMOVE_TRIES = 200;
const REMOVE_PAUSE_MS = 20;

type Bench = {
  readonly dir: string;
  /** Command prefix: the program and its children run in the environment, and end with this process. */
  readonly command: readonly string[];
};

/** Creates this process's directory in `root`, and removes those of processes that no longer exist. */
export function openWorkplace(root = tmpdir(), mount = findCgroupMount()): string {
  for (const place of [root, ...(mount === undefined ? [] : [mount])].flatMap(listPlaces))
    if (!isRunning(Number(NAME.exec(basename(place))?.[1]))) removePlace(place, mount);
  const place = join(root, `mutants-${process.pid}`);
  mkdirSync(place);
  // Some tests run programs as other users.
  chmodSync(place, 0o755);
  return place;
}

export function removePlace(place: string, mount = findCgroupMount()): void {
  if (mount !== undefined) endCgroups(join(mount, basename(place)));
  rmSync(place, { recursive: true, force: true, maxRetries: 3 });
}

export function openBench(place: string, mount = findCgroupMount()): Bench {
  const dir = mkdtempSync(join(place, 'm-'));
  chmodSync(dir, 0o755);
  const namespaces = ['unshare', '--net', '--pid', '--fork', '--kill-child=KILL', '--mount-proc'];
  // A mutant may signal its process group, which must not include the processes that wait for it.
  const died = ['setsid', 'setpriv', '--pdeathsig', 'KILL'];
  if (mount === undefined) return { dir, command: [...died, ...namespaces, ...firstProcess('')] };
  const group = join(mount, basename(place), basename(dir));
  mkdirSync(group, { recursive: true });
  for (const above of [mount, join(group, '..'), group])
    for (const controller of CONTROLLERS) enable(above, controller);
  const enter = ['sh', '-c', 'echo $$ > "$0" && exec "$@"', join(group, 'cgroup.procs')];
  return { dir, command: [...died, ...enter, ...namespaces, '--cgroup', ...firstProcess(mount)] };
}

/** Removes the directory once all of its processes have exited. */
export async function closeBench({ dir }: Bench, mount = findCgroupMount()): Promise<void> {
  rmSync(dir, { recursive: true, force: true, maxRetries: 3 });
  const group = join(mount ?? '', basename(join(dir, '..')), basename(dir));
  for (let tries = 0; mount !== undefined; tries++) {
    try {
      removeCgroups(group);
      return;
    } catch (error) {
      if (tries >= REMOVE_TRIES) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, REMOVE_PAUSE_MS));
  }
}

/**
 * PID 1 of a namespace must reap orphans, which Node does not. The network has loopback only. A cgroup with child
 * cgroups must not contain processes itself.
 */
function firstProcess(mount: string): string[] {
  const move =
    'umount --lazy "$0" && mount -t cgroup2 none "$0" && mkdir "$0/tests" && echo 0 > "$0/tests/cgroup.procs"';
  return ['sh', '-c', `ip link set lo up; ${mount === '' ? '' : `${move}; `}"$@" & wait $!`, mount || 'sh'];
}

function enable(group: string, controller: string): void {
  try {
    writeFileSync(join(group, 'cgroup.subtree_control'), `+${controller}`);
  } catch {
    // The host has no cgroup v2 at this path; tests handle that.
  }
}

/** Kills all processes in the cgroups and removes them. */
function endCgroups(group: string): void {
  for (let tries = 0; ; tries++) {
    try {
      if (existsSync(group)) writeFileSync(join(group, 'cgroup.kill'), '1');
      removeCgroups(group);
      return;
    } catch (error) {
      if (tries >= REMOVE_TRIES) throw error;
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, REMOVE_PAUSE_MS);
  }
}

function removeCgroups(group: string): void {
  try {
    for (const { name } of readdirSync(group, { withFileTypes: true }).filter((entry) => entry.isDirectory()))
      removeCgroups(join(group, name));
    rmdirSync(group);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

function listPlaces(root: string): string[] {
  return readdirSync(root)
    .filter((name) => NAME.test(name))
    .map((name) => join(root, name));
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

function findCgroupMount(): string | undefined {
  const mounts = readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '));
  return mounts.find(([, , type]) => type === 'cgroup2')?.[1];
}
