// The package in a Debian that has what it depends on and nothing else: the daemon runs there.
// A booted one with systemd is run.ts.
import { execFile } from 'node:child_process';
import { copyFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { builtDeb, ensureHostTree, unpackTree } from './host.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const CACHE = join(resolve(process.env.DATA_DIR ?? join(ROOT, '.data')), 'lab');
/** Its mirrors are those that this machine takes packages from. */
const SUITE = process.env.SUITE || 'bookworm';
const run = promisify(execFile);

/** In namespaces of its own, with the root as its root; the network is the host's. */
const ENTER = `
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount -t sysfs sysfs "$1/sys"
mount -t tmpfs -o mode=755 tmpfs "$1/run"
mount --rbind /dev "$1/dev"
cd "$1"
mkdir -p mnt/old
pivot_root . mnt/old
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
exec /bin/bash /steps
`;

/** A line `step: …` for each thing that is asked below; the first failure ends it. */
const STEPS = `
set -eu
umount -l /mnt/old
! command -v gcc
. /etc/os-release
echo "step: $VERSION_CODENAME"
dpkg --install /sandboxd.deb
echo "step: version $(sandboxd --version)"
sandboxd serve --print-config | grep bake_on_demand
sandboxd doctor --quick || [ $? = 1 ]
echo 'step: doctor'
SANDBOXD_LISTEN=127.0.0.1:0 sandboxd serve >/log 2>&1 &
daemon=$!
until url=$(grep -o 'listening on http://[0-9.:]*' /log); do kill -0 $daemon; sleep 0.2; done
export SANDBOXD_HOST=\${url#listening on }
echo "step: $(sandbox version | head -1)"
sandbox images
sandbox run --rm base sh -c 'echo "step: guest"'
kill $daemon
wait $daemon
echo 'step: stopped'
dpkg --remove sandboxd
ls -d /var/lib/sandboxd/kernels /etc/sandboxd/config.json
echo 'step: removed'
dpkg --install /sandboxd.deb
dpkg --purge sandboxd
! ls -d /var/lib/sandboxd /run/sandboxd /etc/sandboxd /usr/lib/sandboxd 2>/dev/null
echo 'step: purged'
`;

// Debian's own tools take a minute or some, more so beside others.
t.setTimeout(0);

t.test('it installs, runs, goes with its data kept, and goes for good', { timeout: 0 }, async (t) => {
  const packages: string[] = [];
  const deb = await builtDeb();
  const tree = await ensureHostTree({
    deb,
    suite: SUITE,
    packages,
    cacheDir: CACHE,
    progress: () => undefined,
  });
  const dir = await mkdtemp(join(CACHE, 'install-'));
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  await unpackTree(tree.archivePath, dir);
  await copyFile(deb, join(dir, 'sandboxd.deb'));
  await writeFile(join(dir, 'steps'), STEPS);
  const command = ['--mount', '--pid', '--uts', '--fork', '--kill-child', 'bash', '-c', ENTER, 'enter', dir];
  const { stdout, stderr } = await run('unshare', command, { maxBuffer: 2 ** 26 }).catch((error) => error);
  const steps = [...`${stdout}`.matchAll(/^step: (\S+)/gm)].map(([, word]) => word);
  t.same(
    steps,
    [SUITE, 'version', 'doctor', 'command', 'guest', 'stopped', 'removed', 'purged'],
    `${stdout}\n${stderr}`,
  );
});
