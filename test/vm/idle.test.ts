// A guest that nobody uses ends by itself, and one that works does not: told by what its VMM takes, on a real one.
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(400_000));
const { api } = await startDaemon(t);
type Snapshots = { readonly snapshots: readonly { readonly id: string; readonly source_id: string }[] };

t.test(
  'work in the guest keeps a sandbox; without it, it is saved and goes, and its copy has its files',
  async (t) => {
    const { id } = await api.create({ idle_timeout_s: 8, idle_action: 'snapshot' });
    await api.sh(
      id,
      'echo here > /root/file; nohup sh -c "while [ ! -e /root/end ]; do :; done" > /dev/null 2>&1 &',
    );
    // More than twice its time: what is looked for is that nothing happens.
    await sleep(20_000);
    t.equal(await api.sh(id, 'touch /root/end; cat /root/file'), 'here', 'it works, and so it is there');
    while ((await api.fetch(`/sandboxes/${id}`)).status !== 404) await sleep(200);
    const { snapshots } = await api.call<Snapshots>('GET', '/snapshots');
    const [snapshot] = snapshots;
    t.equal(snapshot?.source_id, id);
    const { sandboxes } = await api.call<{ sandboxes: { id: string }[] }>(
      'POST',
      `/snapshots/${snapshot!.id}/fork`,
    );
    t.equal(await api.sh(sandboxes[0]!.id, 'cat /root/file'), 'here');
    await api.call('DELETE', `/sandboxes/${sandboxes[0]!.id}`);
    await api.call('DELETE', `/snapshots/${snapshot!.id}`);
  },
);
