// The run directory is emptied while no daemon runs: the next one ends the processes whose records are gone with it, and
// what was published is published again.
import '../../support/network/own-network.ts';
import { execFileSync } from 'node:child_process';
import { readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import t from 'tap';
import { leaseOwner, readLeases } from '../../../host-agent/src/engines/jail/uid-leases.ts';
import { isRunning, readArguments } from '../../../host-agent/src/lib/proc.ts';
import { leftovers, makeDirectories, removeDirectories, spawnDaemon } from '../../support/daemon.ts';
import { scaled } from '../../support/time-scale.ts';
import { until } from '../../support/until.ts';

t.setTimeout(scaled(300_000));
execFileSync('ip', ['link', 'set', 'lo', 'up']);
const PORT = 40_017;
const directories = await makeDirectories();
const { dataDir, runDir } = directories;
const faultsPath = join(dataDir, 'faults');
const owner = await leaseOwner(dataDir);
/** The processes that have a user id of this daemon, by the record that they should have. */
const held = async () =>
  [...(await readLeases())].flatMap(([, { holder, tag }]) => {
    const isHelpers = tag?.owner === owner && holder.pid !== tag.daemon.pid && isRunning(holder);
    return isHelpers ? [{ ...holder, record: tag.record }] : [];
  });

t.test('processes whose records are gone are ended, and a sandbox has its port again', async (t) => {
  const first = await spawnDaemon(directories, { onExit: 'keep', faultsPath });
  t.teardown(() => first.end('SIGKILL'));
  const network = { enabled: true, allowlist: ['x.test'] };
  const publish = [{ host_ip: '127.0.0.1', host_port: PORT, guest_port: 80 }];
  const { id } = await first.api.create({ memory_mib: 128, network, publish });
  t.equal(
    (await held()).filter(({ record }) => record !== undefined).length,
    2,
    'the helpers of its network',
  );
  await writeFile(faultsPath, 'start.spawn-recorded kill');
  await t.rejects(first.api.create({ memory_mib: 128 }));
  await first.exited;
  const before = await held();
  const own = before.find(({ pid }) => readArguments(pid).some((text) => text.includes(id)));
  const unknown = before.filter(({ pid, record }) => record === undefined && pid !== own?.pid);
  t.ok(unknown.length > 0, 'a VMM that no client knows of');
  // What is mounted there stays.
  for (const name of await readdir(runDir))
    if (name !== 'net') await rm(join(runDir, name), { recursive: true });
  await rm(faultsPath);

  const second = await spawnDaemon(directories, { faultsPath });
  t.teardown(() => second.end('SIGKILL'));
  t.same(
    second.log.filter(({ msg = '' }) => /has lost its/.test(msg)),
    [],
  );
  t.same(before.filter(isRunning), [own], 'the VMM of the sandbox is left');
  t.equal((await held()).filter(({ record }) => record !== undefined).length, 2, 'helpers in place of these');
  let isOpen = false;
  const socket = connect(PORT, '127.0.0.1', () => {
    isOpen = true;
  });
  socket.on('error', () => undefined);
  t.teardown(() => socket.destroy());
  await until(() => isOpen, 'a connection to the published port');
  await second.api.delete(id);
  t.equal(await second.end(), 0);
  t.same(await held(), []);
  t.same(await leftovers(directories), []);
  t.notMatch(await readFile('/proc/self/mountinfo', 'utf8'), runDir);
  await removeDirectories(directories);
});
