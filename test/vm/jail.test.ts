// Real VMMs in their jail: what /proc says of them, what a broken one could do, and that their life is as without it.
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import { chown, mkdir, mkdtemp, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { LEASES_DIR } from '../../host-agent/src/engines/jail/uid-leases.ts';
import type { SandboxJson } from '../support/api.ts';
import { makeDirectories, removeDirectories, spawnDaemon, startDaemon } from '../support/daemon.ts';
import { compileGuestProgram } from '../support/guest-program.ts';
import { openAttacks, parseOutcomes } from '../support/jailed.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { engineOf, readStatus, uidOf, vmmOf } from '../support/vmms.ts';

t.setTimeout(scaled(400_000));

const MIB = 2 ** 20;
const NAMESPACES = ['mnt', 'net', 'ipc', 'uts', 'cgroup'];
const NONE = '0000000000000000';
/** What a VMM's root directory may have at its top: the rest is the way to its own files. */
const SYSTEM = ['dev', 'lib', 'lib64', 'proc', 'usr'];

/** Its descriptors of files that are the daemon's, but for the log. */
function sharedDescriptors(pid: number, logPath: string): string[] {
  return readdirSync(`/proc/${pid}/fd`).filter((fd) => {
    const path = `/proc/${pid}/fd/${fd}`;
    const file = statSync(path);
    return file.isFile() && file.uid === 0 && readlinkSync(path) !== logPath;
  });
}

/** Undefined for one that has ended: a VMM's workers come and go. */
function readThread(pid: number, thread: string) {
  const dir = `/proc/${pid}/task/${thread}`;
  try {
    const namespaces = NAMESPACES.map((name) => [name, readlinkSync(`${dir}/ns/${name}`)] as const);
    const status = readStatus(`${dir}/status`);
    return existsSync(dir) ? { status, namespaces } : undefined;
  } catch (error) {
    if (existsSync(dir)) throw error;
    return undefined;
  }
}

t.test('a VMM has a user, namespaces and a root directory of its own, and no privilege', async (t) => {
  const daemon = await startDaemon(t);
  const { api, directories } = daemon;
  const first = await api.create({ memory_mib: 256 });
  const second = await api.create({ memory_mib: 256, boot_args: 'cold=1' });
  const sandboxes = [first, second];
  const pids = await Promise.all(sandboxes.map(vmmOf));
  t.match(await engineOf(daemon), { jail: { enabled: true } });
  for (const [index, pid] of pids.entries()) {
    const uid = uidOf(pid);
    let threads = 0;
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const seen = readThread(pid, thread);
      if (seen === undefined) continue;
      threads++;
      const expected = {
        Uid: [uid, uid, uid, uid].join('\t'),
        Gid: [uid, uid, uid, uid].join('\t'),
        Groups: /^ ?$/,
        ...{ CapInh: NONE, CapPrm: NONE, CapEff: NONE, CapBnd: NONE, CapAmb: NONE },
        ...{ NoNewPrivs: '1', Seccomp: '2' },
      };
      t.match(seen.status, expected, `thread ${thread} of ${pid}: ${JSON.stringify(seen.status)}`);
      for (const [name, namespace] of seen.namespaces)
        t.not(namespace, readlinkSync(`/proc/self/ns/${name}`), name);
    }
    t.ok(threads > 0, `VMM ${pid} runs`);
    t.equal(readFileSync(`/proc/${pid}/environ`, 'latin1'), '');
    const limits = readFileSync(`/proc/${pid}/limits`, 'latin1');
    t.match(limits, /^Max core file size +0 +0 /m, `limits of ${pid}: ${limits}`);
    t.notMatch(limits, /^Max (?:file size|processes) .*unlimited/m);
    const root = `/proc/${pid}/root`;
    const ways = [directories.dataDir, directories.runDir, DAEMON_PROGRAM, process.env.PATH ?? '/']
      .join(':')
      .split(':')
      .map((path) => path.split('/')[1]);
    for (const name of readdirSync(root)) t.ok([...SYSTEM, ...ways, 'opt'].includes(name), `/${name}`);
    t.same(readdirSync(`${root}/proc`), ['self']);
    t.same(readdirSync(`${root}/proc/self`), ['fd']);
    const other = sandboxes[1 - index];
    for (const path of [
      '/etc',
      '/proc/1',
      '/sys',
      '/bin/sh',
      `${other?.workdir}`,
      `${directories.dataDir}/state.lmdb`,
    ])
      t.notOk(existsSync(root + path), `no ${path}`);
    const mounts = readFileSync(`/proc/${pid}/mounts`, 'latin1').trim().split('\n');
    for (const mount of mounts) t.match(mount, /[ ,]nosuid[ ,]/, `mount of ${pid}: ${mount}`);
    for (const mount of mounts.filter((line) => line.split(' ')[1] !== '/dev'))
      t.match(mount, /[ ,]nodev[ ,]/, `mount of ${pid}: ${mount}`);
    for (const mount of mounts.filter((line) => / rw,/.test(line))) t.match(mount, /[ ,]noexec[ ,]/, mount);
  }
  t.not(uidOf(pids[0] ?? 0), uidOf(pids[1] ?? 0), 'no two have the same');
  for (const name of NAMESPACES)
    t.not(readlinkSync(`/proc/${pids[0]}/ns/${name}`), readlinkSync(`/proc/${pids[1]}/ns/${name}`));

  await t.test('what is left of it when it is deleted: nothing', async (t) => {
    const uid = uidOf(pids[0] ?? 0);
    t.ok(existsSync(join(LEASES_DIR, String(uid))));
    await api.call('DELETE', `/sandboxes/${first.id}`);
    await until(() => !existsSync(join(LEASES_DIR, String(uid))));
  });
});

t.test('what a VMM could attack, it cannot reach', async (t) => {
  const daemon = await startDaemon(t);
  const { api, directories } = daemon;
  const victim = await api.create({ memory_mib: 256 });
  const snapshot = await api.call<{ dir: string }>('POST', `/sandboxes/${victim.id}/snapshot`);
  const files = [
    ...['/etc/shadow', '/root', '/var/run/docker.sock', join(directories.dataDir, 'state.lmdb')],
    ...(await list(victim.workdir)),
    ...(await list(join(directories.runDir, victim.id))),
    ...(await list(snapshot.dir)),
  ];
  t.ok(files.length > 10);
  await using attacks = await openAttacks();
  const own = join(attacks.dir, 'own');
  await mkdir(own);
  const outcomes = await attacks.attack(
    [
      ...[await vmmOf(victim), daemon.pid, 1].map((pid) => `process=${pid}`),
      `port=${new URL(daemon.url).port}`,
      ...files.map((path) => `file=${path}`),
      'self',
    ],
    { reads: [], writes: [own] },
  );
  t.same(
    [...outcomes].filter(([, outcome]) => outcome === 'done'),
    [],
  );
  t.equal(await api.sh(victim.id, 'echo alive'), 'alive');
  for (const path of await list(snapshot.dir)) {
    const file = await stat(path);
    t.equal(file.uid, 0, path);
  }
});

t.test('a VMM that locks what all of them read keeps no other from it', async (t) => {
  const daemon = await startDaemon(t);
  const { api } = daemon;
  const taken = await api.create({ memory_mib: 256 });
  const pid = await vmmOf(taken);
  const paths = sharedDescriptors(pid, join(taken.workdir, 'vmm.log'))
    .map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
    .filter((path) => existsSync(path));
  // Of some it has several.
  const shared = [...new Set(paths)];
  t.ok(shared.length > 0);
  await using attacks = await openAttacks();
  for (const path of shared) {
    const view = { reads: [path], writes: [] };
    const { process, logPath } = await attacks.start(join(attacks.dir, 'attacks'), [`hold=${path}`], view);
    t.teardown(() => process.signal('SIGKILL'));
    await until(() => readFileSync(logPath, 'latin1').split('\n').length > 2);
    t.equal(readFileSync(logPath, 'latin1'), `lock ${path}: done\nlock as a whole ${path}: done\n`);
  }
  for (const boot_args of [undefined, 'cold=1']) {
    const other = await api.create({ memory_mib: 256, ...(boot_args && { boot_args }) });
    t.equal(await api.sh(other.id, 'echo alive'), 'alive', boot_args ?? 'a copy');
  }
});

t.test('a VMM that a guest has taken over gets nowhere with its own system calls', async (t) => {
  const daemon = await startDaemon(t);
  const { api, directories } = daemon;
  const [taken, victim] = [await api.create({ memory_mib: 256 }), await api.create({ memory_mib: 256 })];
  const pid = await vmmOf(taken);
  const dir = await mkdtemp('/tmp/inject-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  await compileGuestProgram('inject', dir);
  const inject = async (thread: string, kinds: readonly string[]) =>
    parseOutcomes((await promisify(execFile)(join(dir, 'inject'), [thread, ...kinds])).stdout);
  const reached = [
    ...[1, daemon.pid, await vmmOf(victim)].map((pid) => `process=${pid}`),
    ...['/etc/shadow', join(directories.dataDir, 'state.lmdb'), join(victim.workdir, 'vmm.log')].map(
      (path) => `file=${path}`,
    ),
  ];
  // Memory that all copies have, where the engine keeps it open, and the root filesystem.
  const shared = sharedDescriptors(pid, join(taken.workdir, 'vmm.log')).map((fd) => `descriptor=${fd}`);
  t.ok(shared.length > 0);
  let attacks = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const isThere = () => existsSync(`/proc/${pid}/task/${thread}`);
    if (!isThere()) continue;
    const outcomes = await inject(thread, [...reached, ...shared, 'self']).catch((error: unknown) => {
      if (isThere()) throw error;
    });
    if (outcomes === undefined) continue;
    attacks += outcomes.size;
    t.equal(outcomes.size, 23 + 5 * shared.length);
    t.same(
      [...outcomes].filter(([, outcome]) => outcome === 'done'),
      [],
      `thread ${thread}`,
    );
  }
  t.ok(attacks >= 46, `${attacks} attacks, by two threads at least`);
  // A VMM with a filter of its own may not outlive this: no other is harmed.
  t.equal(await api.sh(victim.id, 'echo alive'), 'alive');

  await t.test('what its own filter ends it for costs only itself', async (t) => {
    for (const kind of ['mount', 'unshare', 'root', 'all-root', 'fork', 'start']) {
      const sandbox = await api.create({ memory_mib: 256 });
      const outcome = (await inject(String(await vmmOf(sandbox)), [kind])).get(kind) ?? '';
      t.match(outcome, /^(?:EPERM|ENOENT|SIGSYS|KILLED)$/, kind);
      // It may have ended, or stand still for good.
      await api.delete(sandbox.id);
    }
    t.equal(await api.sh(victim.id, 'echo alive'), 'alive');
  });

  await t.test('which could be done otherwise', async (t) => {
    await using file = await open(join(dir, 'file'), 'w+');
    await file.truncate(MIB);
    const other = spawn('sleep', ['600'], { stdio: ['ignore', file.fd, 'ignore'] });
    t.teardown(() => other.kill());
    await once(other, 'spawn');
    const outcomes = await inject(String(other.pid), [...reached.slice(1), 'descriptor=1']);
    // To limit one of another user needs a capability that not every root has.
    const refused = [...outcomes].filter(
      ([name, outcome]) => outcome !== 'done' && !name.startsWith('limit'),
    );
    t.same(refused, []);
  });
});

t.test('a jailed sandbox is adopted, saved, copied, grown and read from as any other', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const first = await spawnDaemon(directories, { onExit: 'keep' });
  const sandbox = await first.api.create({ memory_mib: 256 });
  const pid = await vmmOf(sandbox);
  const uid = uidOf(pid);
  t.equal(await first.end('SIGKILL'), null);
  const second = await spawnDaemon(directories);
  t.teardown(() => second.end());
  t.equal(await vmmOf(sandbox), pid);
  t.equal(uidOf(pid), uid);
  t.ok(existsSync(join(LEASES_DIR, String(uid))), 'its user is not given to others');
  await second.api.sh(sandbox.id, 'echo kept > /root/file');
  const snapshot = await second.api.call<{ id: string }>('POST', `/sandboxes/${sandbox.id}/snapshot`);
  const { sandboxes } = await second.api.call<{ sandboxes: SandboxJson[] }>(
    'POST',
    `/snapshots/${snapshot.id}/fork`,
    {
      count: 2,
    },
  );
  for (const copy of sandboxes) t.equal(await second.api.sh(copy.id, 'cat /root/file'), 'kept');
  const copies = await Promise.all(sandboxes.map(vmmOf));
  t.equal(new Set([pid, ...copies].map(uidOf)).size, 3);
  const large = await second.api.create({ memory_mib: 256, disk_bytes: 6 * 2 ** 30 });
  t.ok(Number(await second.api.sh(large.id, "df -m / | awk 'NR==2 {print $2}'")) > 5000);
});

t.test('copies get their memory in a jail in every way that the engine has', async (t) => {
  for (const mode of ['copy-on-write', 'on-demand', 'copy']) {
    const directories = await makeDirectories();
    t.teardown(() => removeDirectories(directories));
    const starting = spawnDaemon(directories, { flags: ['--fork-memory', mode] });
    const isRefused = await starting.then(
      () => false,
      (error: Error) => /its copies always copy memory on write/.test(error.message) || Promise.reject(error),
    );
    if (isRefused) {
      t.not(mode, 'copy-on-write');
      continue;
    }
    const daemon = await starting;
    t.teardown(() => daemon.end());
    const sandbox = await daemon.api.create({ memory_mib: 256 });
    t.equal(await daemon.api.sh(sandbox.id, 'echo fine'), 'fine', mode);
    t.ok(uidOf(await vmmOf(sandbox)) > 0);
    await daemon.api.delete(sandbox.id);
  }
});

t.test('without a jail nothing starts, unless that is asked for', async (t) => {
  const dir = await mkdtemp('/tmp/unprivileged-');
  t.teardown(() => rm(dir, { recursive: true, force: true }));
  await chown(dir, 65_534, 65_534);
  const options = { uid: 65_534, gid: 65_534, cwd: '/' };
  const flags = ['--data-dir', join(dir, 'data'), '--run-dir', join(dir, 'run'), '--listen', '127.0.0.1:0'];
  await t.rejects(promisify(execFile)(DAEMON_PROGRAM, flags, options), {
    code: 1,
    stderr:
      /^sandboxd: guests are not started without a jail for their VMMs, and there can be none here: the daemon is not root; .* or give --insecure-no-jail$/m,
  });

  const daemon = await startDaemon(t, { flags: ['--insecure-no-jail'] });
  t.ok(
    daemon.log.some(({ msg }) =>
      msg?.startsWith('insecure_no_jail: VMMs run with all privileges of this daemon'),
    ),
  );
  t.match(await engineOf(daemon), { jail: { enabled: false } });
  t.equal(uidOf(await vmmOf(await daemon.api.create({ memory_mib: 256 }))), 0);
});

t.test('isolation that is required is there, or no guest runs', async (t) => {
  const engine = await engineOf(await startDaemon(t));
  const isWhole = engine?.jail?.missing.length === 0 && engine.accelerator !== 'tcg';
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const start = async (t: Test): Promise<void> => {
    const daemon = await spawnDaemon(directories, { flags: ['--require-isolation'] });
    // Whether guests run without emulation, a daemon may only know behind its start.
    try {
      await daemon.api.delete((await daemon.api.create({ memory_mib: 256 })).id);
    } finally {
      t.equal(await daemon.end(), 0);
    }
  };
  if (isWhole) await start(t);
  else await t.rejects(start(t), { message: /require_isolation|no engine can run guests on this host/ });
});

async function list(dir: string): Promise<string[]> {
  return (await readdir(dir)).map((name) => join(dir, name));
}
