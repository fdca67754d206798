// A daemon that is killed at a step of a request with an Idempotency-Key (at more steps with SOAK=1): the retry at the
// next daemon gets one answer, and one thing exists.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { FAULT_POINTS, type FaultPoint } from '../../host-agent/src/lib/faults.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { untilOwnTemplate } from '../support/templates.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(900_000));
const directories = await makeDirectories();
const faultsPath = join(directories.dataDir, 'faults');
const options = { onExit: 'keep', faultsPath } as const;
let daemon = await spawnDaemon(directories, options);
t.teardown(async () => {
  for (const { id } of await daemon.api.list()) await daemon.api.delete(id);
  await daemon.end();
  await removeDirectories(directories);
});
const source = await daemon.api.create({ memory_mib: 128 });
await untilOwnTemplate(daemon, { memory_mib: 128 });

type Answer = { readonly status: number; readonly text: string; readonly isReplayed: boolean };

async function send(path: string, key: string, body = ''): Promise<Answer> {
  const headers = { 'idempotency-key': key };
  const response = await fetch(`${daemon.url}${path}`, { method: 'POST', headers, body });
  const isReplayed = response.headers.get('idempotent-replayed') === 'true';
  return { status: response.status, text: await response.text(), isReplayed };
}

const count = async (path: '/sandboxes' | '/snapshots', name: 'sandboxes' | 'snapshots') =>
  (await daemon.api.call<Record<string, unknown[]>>('GET', path))[name]?.length ?? 0;

const IS_SOAK = process.env.SOAK === '1';
const CREATE: readonly FaultPoint[] = IS_SOAK
  ? ['start.recorded', 'start.vm', 'start.made', 'start.committed']
  : ['start.made', 'start.committed'];
const SNAPSHOT: readonly FaultPoint[] = IS_SOAK
  ? FAULT_POINTS.filter((point) => point.startsWith('snapshot.'))
  : ['snapshot.published', 'snapshot.committed'];

const CASES: readonly {
  readonly path: string;
  readonly body?: string;
  readonly points: readonly FaultPoint[];
  readonly list: readonly ['/sandboxes' | '/snapshots', 'sandboxes' | 'snapshots'];
  readonly committed: FaultPoint;
}[] = [
  {
    path: '/sandboxes',
    body: '{"memory_mib":128}',
    points: CREATE,
    list: ['/sandboxes', 'sandboxes'],
    committed: 'start.committed',
  },
  {
    path: `/sandboxes/${source.id}/snapshot`,
    points: SNAPSHOT,
    list: ['/snapshots', 'snapshots'],
    committed: 'snapshot.committed',
  },
];

for (const { path, body, points, list, committed } of CASES) {
  for (const point of points) {
    await t.test(`kill at ${point}`, async (t) => {
      const before = await count(...list);
      writeFileSync(faultsPath, `${point} kill`);
      await t.rejects(send(path, point, body), 'the client gets no answer');
      await daemon.exited;
      writeFileSync(faultsPath, '');
      daemon = await spawnDaemon(directories, options);
      const first = await send(path, point, body);
      t.equal(first.status, 201, first.text);
      t.equal(first.isReplayed, point === committed);
      t.same(await send(path, point, body), { ...first, isReplayed: true });
      t.equal(await count(...list), before + 1);
    });
  }
}
