// A real guest goes on under the daemons of other data directories, from the bucket alone, as docs/snapshot-store.md says.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { SandboxJson } from '../support/api.ts';
import { startDaemon } from '../support/daemon.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings, storeFlags } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));

type Forks = { readonly sandboxes: SandboxJson[] };

t.test(
  'memory, processes and files are there on two other hosts; a second fork fetches nothing',
  async (t) => {
    const s3 = process.env.S3 === undefined ? await startS3(t) : undefined;
    const flags = storeFlags(makeStoreSettings(t, s3?.url ?? process.env.S3 ?? ''));
    const a = await startDaemon(t, { flags });
    const { id } = await a.api.create({ memory_mib: 256 });
    await a.api.sh(
      id,
      'echo disk > /root/file; sync; echo memory > /dev/shm/file; (sleep 900 & echo $! > /dev/shm/pid)',
    );
    const taken = await a.api.ask('takeSnapshot', { params: { id }, body: {} });
    const startedAt = performance.now();
    const find = async () => (await a.api.ask('getSnapshot', { params: { id: taken.id } })).storage;
    while ((await find()) !== 'stored') await sleep(100);
    t.comment(`uploaded within ${Math.round(performance.now() - startedAt)} ms`);
    await a.api.delete(id);
    rmSync(join(a.directories.dataDir, 'snapshots', taken.id), { recursive: true });
    await a.end();

    for (const name of ['b', 'c']) {
      const host = await startDaemon(t, { flags });
      const fork = async () => {
        const begunAt = performance.now();
        const { sandboxes } = await host.api.call<Forks>('POST', `/snapshots/${taken.id}/fork`);
        t.comment(`${name}: fork after ${Math.round(performance.now() - begunAt)} ms`);
        return sandboxes[0]!.id;
      };
      const copy = await fork();
      const said = await host.api.sh(
        copy,
        'cat /root/file /dev/shm/file; kill -0 $(cat /dev/shm/pid) && echo alive; hostname',
      );
      t.equal(said, `disk\nmemory\nalive\n${copy.replace('_', '-')}`);
      const before = s3?.count('GET', /chunks/);
      const second = await fork();
      t.equal(s3?.count('GET', /chunks/), before);
      for (const each of [copy, second]) await host.api.delete(each);
      await host.end();
    }
  },
);
