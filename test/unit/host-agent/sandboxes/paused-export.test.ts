// A paused sandbox as an archive, from which another daemon makes a snapshot.
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { readAll, source } from '../../../support/archives.ts';
import { execText } from '../../../support/memory-host/client.ts';
import { startMemoryDaemon } from '../../../support/memory-host/daemon.ts';
import { until } from '../../../support/until.ts';

t.test('a paused sandbox is exported without being resumed, and a snapshot of it continues', async (t) => {
  const { manager, host, home } = await startMemoryDaemon(t);
  host.agentFaults = { freezes: true };
  const { id } = await manager.create({ labels: { team: 'red' } });
  await execText(manager, id, ['note', 'memory', 'kept']);
  writeFileSync(manager.get(id).paths.layerPath, 'disk');
  const handle = () => manager.as(OPERATOR).get(id);
  await t.rejects(handle().export(), { code: 'conflict', message: /is running, not paused/ });
  await handle().pause(true);
  const stream = await handle().export();
  await handle().awake();
  await execText(manager, id, ['note', 'memory', 'changed since']);
  const bytes = await readAll(stream);
  const copies = () => readdirSync(join(home.dataDir, 'snapshots')).length;
  await until(() => copies() === 0);

  const imported = await manager.importSnapshot(source(bytes), { isDiskOnly: false });
  t.equal(imported.sourceId, id);
  const [fork] = await manager.fork(imported.id, 1);
  t.same(fork!.labels, { team: 'red' });
  t.equal(await execText(manager, fork!.id, ['recall', 'memory']), 'kept');

  await handle().pause(true);
  const cancelled = await handle().export();
  t.equal(handle().info.state, 'paused');
  cancelled.cancel();
  await until(() => copies() === 1);
  await handle().resume();
  await handle().pause(false);
  await t.rejects(handle().export(), { code: 'conflict', message: /without its memory/ });
  t.equal(copies(), 1, 'a failure leaves nothing');
});
