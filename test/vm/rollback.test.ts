// A sandbox that goes back to a snapshot, and one that is forked without a snapshot, on real guests; daemons that are
// killed at steps of both (each step with SOAK=1).
import { writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import type { FaultPoint } from '../../host-agent/src/lib/faults.ts';
import type { SandboxJson } from '../support/api.ts';
import { Commands } from '../support/commands.ts';
import {
  type Daemon,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
  startDaemon,
} from '../support/daemon.ts';
import { clockSkewS, NOW } from '../support/guest-clock.ts';
import { scaled } from '../support/time-scale.ts';
import { vmmPids } from '../support/vmms.ts';

const IS_SOAK = process.env.SOAK === '1';

t.setTimeout(scaled(1_800_000));

const rollback = ({ api }: Daemon, id: string, snapshot_id: string): Promise<SandboxJson> =>
  api.ask('rollbackSandbox', { params: { id }, body: { snapshot_id } });
const pause = ({ api }: Daemon, id: string): Promise<SandboxJson> =>
  api.ask('pauseSandbox', { params: { id }, body: {} });
const snapshotOf = async ({ api }: Daemon, id: string): Promise<string> =>
  (await api.ask('takeSnapshot', { params: { id } })).id;
const WRITE = (text: string) => `echo ${text} > /dev/shm/note; echo ${text} > /root/note; sync /root/note`;
const READ = 'cat /dev/shm/note /root/note';

t.test(
  'memory, disk and processes of the snapshot; identity, address and clock of the sandbox',
  async (t) => {
    const daemon = await startDaemon(t);
    const { api } = daemon;
    const { id } = await api.create({
      memory_mib: 256,
      name: 'web',
      network: { enabled: true, allowlist: ['host.invalid'] },
    });
    const commands = new Commands(api, id);
    const IDENTITY = 'cat /etc/machine-id /run/sandbox/id; hostname; hostname -I';
    const kept = await commands.sh('exec sleep 10000', {});
    await api.sh(id, WRITE('old'));
    const identity = await api.sh(id, IDENTITY);
    const snapshot = await snapshotOf(daemon, id);
    await api.sh(id, WRITE('new'));
    const later = await commands.sh('exec sleep 20000', {});
    const cut = api.exec(id, ['sleep', '1000']);
    while ((await api.sh(id, 'pgrep -fx "sleep 1000" | wc -l')) !== '1');
    t.match(await rollback(daemon, id, snapshot), { id, name: 'web', state: 'running' });
    t.match((await cut).result, { exit_code: -1, error: /was rolled back/ });
    t.equal(await api.sh(id, READ), 'old\nold');
    t.equal(await api.sh(id, IDENTITY), identity);
    t.equal(await api.sh(id, 'pgrep -x sleep | wc -l'), '1', 'what ran at the snapshot');
    t.match(await commands.get(kept), { state: 'running' });
    await t.rejects(commands.get(later), /404|does not exist/);
    t.ok((await clockSkewS(() => api.sh(id, NOW))) < 2, 'its clock is right');
    const random = 'head -c 16 /dev/urandom | od -An -tx1';
    const first = await api.sh(id, random);
    await api.sh(id, WRITE('third'));
    await pause(daemon, id);
    await rollback(daemon, id, snapshot);
    t.equal(await api.sh(id, READ), 'old\nold', 'a paused one');
    t.not(await api.sh(id, random), first, 'other entropy each time');
    for (const text of ['fourth', 'fifth']) {
      await api.sh(id, WRITE(text));
      await pause(daemon, id);
      t.equal(await api.sh(id, READ), `${text}\n${text}`, 'it pauses and resumes as before');
    }
    const written = daemon.log
      .filter(({ msg }) => msg === 'sandbox paused')
      .map(({ bytes }) => Number(bytes));
    t.ok(Number(written.at(-1)) < Number(written.at(-2)) / 2, 'and then writes only what changed');
    process.kill((await vmmPids(id))[0] ?? 0, 'SIGKILL');
    while ((await api.ask('getSandbox', { params: { id } })).state !== 'failed');
    await rollback(daemon, id, snapshot);
    t.equal(await api.sh(id, READ), 'old\nold', 'one that has failed');
    t.match(
      await (await fetch(`${api.url}/sandboxes/${id}/logs?since=0`)).text(),
      /rolled back to snapshot snap_/,
    );
    const other = await api.create({ memory_mib: 256 });
    await t.rejects(rollback(daemon, other.id, snapshot), /409.*does not come from it/s);
  },
);

t.test('forks of a running and of a paused sandbox, each with a name of its own', async (t) => {
  const daemon = await startDaemon(t);
  const { api } = daemon;
  const { id } = await api.create({ memory_mib: 128 });
  await api.sh(id, WRITE('old'));
  const fork = async (children: readonly object[]): Promise<readonly SandboxJson[]> => {
    const body = { children };
    return (await api.call<{ sandboxes: SandboxJson[] }>('POST', `/sandboxes/${id}/fork`, body)).sandboxes;
  };
  const [left] = await fork([
    { name: 'left', env: { SIDE: 'l' } },
    { name: 'right', labels: { side: 'r' } },
  ]);
  t.equal(await api.sh(left?.id ?? '', READ), 'old\nold');
  t.equal(await api.sh(left?.id ?? '', 'echo $SIDE'), 'l');
  await api.sh(id, WRITE('new'));
  await pause(daemon, id);
  const [third] = await fork([{ name: 'third' }]);
  t.equal((await api.ask('getSandbox', { params: { id } })).state, 'paused', 'it is not woken');
  t.equal(await api.sh(third?.id ?? '', READ), 'new\nnew');
  t.not(await api.sh(third?.id ?? '', 'cat /etc/machine-id'), await api.sh(id, 'cat /etc/machine-id'));
  t.equal(await api.sh(id, READ), 'new\nnew');
  t.same(await readdir(join(daemon.directories.dataDir, 'snapshots')).catch(() => []), []);
});

t.test('a daemon that is killed at steps of a rollback and of a fork', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const faultsPath = join(directories.dataDir, 'faults');
  const options = { onExit: 'keep', faultsPath } as const;
  let daemon = await spawnDaemon(directories, options);
  const { id } = await daemon.api.create({ memory_mib: 128 });
  await daemon.api.sh(id, WRITE('old'));
  const snapshot = await snapshotOf(daemon, id);
  const dieAt = async (point: FaultPoint, work: () => Promise<unknown>): Promise<void> => {
    writeFileSync(faultsPath, `${point} kill`);
    await work().catch(() => undefined);
    await daemon.exited;
    writeFileSync(faultsPath, '');
    daemon = await spawnDaemon(directories, options);
  };
  const often: FaultPoint[] = ['rollback.prepared', 'pause.flushed', 'pause.durable', 'rollback.recorded'];
  const others: FaultPoint[] = ['start.spawned', 'start.vm', 'start.agent'];
  const before: FaultPoint[] = [
    ...(IS_SOAK ? often : ['pause.durable' as const]),
    'rollback.exchanged',
    ...(IS_SOAK ? others : []),
    'rollback.identified',
  ];
  for (const point of [...before, 'rollback.committed' as const]) {
    await daemon.api.sh(id, WRITE('new'));
    await dieAt(point, () => rollback(daemon, id, snapshot));
    const text = point === 'rollback.committed' ? 'old' : 'new';
    t.equal(await daemon.api.sh(id, READ), `${text}\n${text}`, point);
    t.equal((await vmmPids(id)).length, 1, point);
    const left = await readdir(join(directories.dataDir, 'sandboxes', id));
    t.notOk(left.includes('rollback'), point);
  }
  await dieAt('fork.saved', () => daemon.api.call('POST', `/sandboxes/${id}/fork`, {}));
  t.same(await readdir(join(directories.dataDir, 'snapshots')), [snapshot]);
  t.equal(await daemon.api.sh(id, READ), 'old\nold');
  await daemon.api.delete(id);
  await daemon.api.call('DELETE', `/snapshots/${snapshot}`);
  await daemon.end();
  t.same(await leftovers(directories), []);
});
