// Another user of the host, with programs of their own: what the daemon, its VMMs and their files let them do. Nothing.
import { execFile } from 'node:child_process';
import { chmodSync, existsSync, globSync, readFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { LEASES_DIR } from '../../host-agent/src/engines/jail/uid-leases.ts';
import { startDaemon } from '../support/daemon.ts';
import { openAttacks, parseOutcomes } from '../support/jailed.ts';
import { STRANGER } from '../support/stranger.ts';
import { scaled } from '../support/time-scale.ts';
import { vmmPids } from '../support/vmms.ts';

t.setTimeout(scaled(240_000));

const SECRET = 'only-for-the-sandbox-4711';

/** The daemon, what it started, and what these did. */
async function familyOf(pid: number): Promise<number[]> {
  const children = new Map<number, number[]>();
  for (const name of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const stat = await readFile(`/proc/${name}/stat`, 'latin1').catch(() => '');
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const found = [pid];
  for (const one of found) found.push(...(children.get(one) ?? []));
  return found;
}

t.test('another user of the host reads, reaches, signals and fills nothing of it', async (t) => {
  const daemon = await startDaemon(t);
  const { api, directories } = daemon;
  const sandbox = await api.create({
    memory_mib: 256,
    boot_args: `secret=${SECRET}`,
    env: { SECRET },
  } as Parameters<typeof api.create>[0]);
  const copied = await api.create({ memory_mib: 256 });
  const snapshot = await api.call<{ dir: string }>('POST', `/sandboxes/${copied.id}/snapshot`);
  const running = api.exec(sandbox.id, ['sleep', '30'], { env: { SECRET } } as never).catch(() => undefined);

  const pids = new Set([
    ...(await familyOf(daemon.pid)),
    ...(await vmmPids(sandbox.id)),
    ...(await vmmPids(copied.id)),
  ]);
  t.ok(pids.size >= 3, `${pids.size} processes`);
  const files = [
    LEASES_DIR,
    ...Object.values(directories),
    ...[LEASES_DIR, directories.runDir, directories.dataDir, snapshot.dir].flatMap((dir) =>
      globSync('**', { cwd: dir }).map((name) => join(dir, name)),
    ),
    ...[...pids].flatMap((pid) =>
      ['environ', 'mem', 'maps', 'fd', 'root/', 'cwd/', 'ns/net', 'stack', 'syscall'].map(
        (name) => `/proc/${pid}/${name}`,
      ),
    ),
    ...['/run/netns', '/var/run/netns'].flatMap((dir) => (existsSync(dir) ? globSync(`${dir}/*`) : [])),
  ].filter((path) => existsSync(path) && !/\/(?:profiles|kernels|layers|engines|agents)(?:\/|$)/.test(path));
  t.ok(files.some((path) => path.endsWith('layer.ext4')) && files.some((path) => path.endsWith('.sock')));

  await using attacks = await openAttacks();
  chmodSync(attacks.dir, 0o755);
  const as = async (uid: number, kinds: readonly string[]) =>
    parseOutcomes(
      (
        await promisify(execFile)(join(attacks.dir, 'attacks'), kinds, {
          uid,
          gid: uid,
          maxBuffer: 2 ** 26,
        })
      ).stdout,
    );
  const kinds = [
    ...[...pids].map((pid) => `process=${pid}`),
    ...files.map((path) => `file=${path}`),
    ...[...Object.values(directories), LEASES_DIR, sandbox.workdir].map(
      (dir) => `make=${join(dir, 'stranger')}`,
    ),
  ];
  const outcomes = await as(STRANGER, kinds);
  t.ok(outcomes.size > 100, `${outcomes.size} attacks`);
  t.same(
    // A handle alone, which every user may have of every process, does nothing. Namespaces of vm/jail are not ours.
    [...outcomes].filter(
      ([name, outcome]) =>
        outcome === 'done' && name !== 'hold a process' && !name.includes('/run/netns/jail-test-'),
    ),
    [],
  );

  for (const pid of pids)
    t.notMatch(readFileSync(`/proc/${pid}/cmdline`, 'latin1'), SECRET, 'which everybody reads');
  const abstract = readFileSync('/proc/net/unix', 'latin1')
    .split('\n')
    .filter((line) => / @.*(?:sandbox|sbx_|qmp|vsock)/.test(line));
  t.same(abstract, [], 'sockets that no mode protects');
  t.equal(await api.sh(copied.id, 'echo alive'), 'alive');

  await t.test('which root could', async (t) => {
    const layer = join(sandbox.workdir, 'layer.ext4');
    const own = await as(0, [`file=${layer}`]);
    t.match([own.get(`read ${layer}`), own.get(`write ${layer}`)], ['done', 'done']);
  });
  await api.delete(sandbox.id);
  await running;
});
