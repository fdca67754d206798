// Nothing of a guest but its agent runs between the save and the moment when the copy is somebody else.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { Api, SandboxJson } from '../support/api.ts';
import { COUNT, START_COUNTING } from '../support/counter.ts';
import { makeDirectories, removeDirectories, spawnDaemon, startDaemon } from '../support/daemon.ts';
import { ServiceClient } from '../support/service.ts';
import { scaled, TIME_SCALE } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
/** Each draws as fast as it can, and files of other tests run beside this one: sixteen starved their guests. */
const FORKS = TIME_SCALE > 1 ? 4 : process.env.SOAK === '1' ? 16 : 6;
const DRAWS_AFTER = 8;

/** Draws again and again: the name before, the bytes, the name after. */
const DRAW = `n=0; while [ $n -lt 2000 ]; do
  read before < /proc/sys/kernel/hostname; v=$(od -An -N8 -tx8 /dev/urandom); read after < /proc/sys/kernel/hostname
  echo "$before $after$v" >> /dev/shm/drawn; n=$((n+1)); sleep 0.05; done`;

const snapshot = (api: Api, id: string) => api.call<{ id: string }>('POST', `/sandboxes/${id}/snapshot`);
const fork = async (api: Api, id: string, count: number) =>
  (await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${id}/fork?count=${count}`)).sandboxes;

type Draw = { readonly before: string; readonly after: string; readonly value: string };

async function drawn(api: Api, id: string, isEnough: (draws: Draw[]) => boolean): Promise<Draw[]> {
  for (;;) {
    const lines = (await api.sh(id, 'cat /dev/shm/drawn 2> /dev/null || true')).split('\n');
    const draws = lines.map((line) => {
      const [before = '', after = '', value = ''] = line.split(' ');
      return { before, after, value };
    });
    if (isEnough(draws)) return draws;
    await sleep(300);
  }
}

t.test('what runs across a fork draws other random bytes in each copy, from the first one on', async (t) => {
  const { api } = await startDaemon(t);
  const source = await api.create({ memory_mib: 256 });
  const service = new ServiceClient(api, source.id);
  await service.put({ cmd: ['sh', '-c', DRAW] });
  await api.sh(source.id, `(setsid sh -c 'kill -STOP $$; echo woke > /dev/shm/woke' > /dev/null 2>&1 &)`);
  await drawn(api, source.id, (draws) => draws.length >= 5);
  const taken = await snapshot(api, source.id);
  const children = await fork(api, taken.id, FORKS);
  const name = source.id.replace('_', '-');
  const all = await Promise.all(
    children.map(async ({ id }) => {
      const own = id.replace('_', '-');
      const draws = await drawn(
        api,
        id,
        (seen) => seen.filter(({ before }) => before === own).length >= DRAWS_AFTER,
      );
      const of = (host: string) =>
        draws.filter(({ before, after }) => before === host && after === host).map(({ value }) => value);
      return { id, before: of(name), own: of(own), draws: draws.length };
    }),
  );
  const ofSource = new Set((await drawn(api, source.id, () => true)).map(({ value }) => value));
  const [first] = all;
  const seen = new Set<string>();
  let common = 0;
  for (const { id, before, own, draws } of all) {
    t.same(before, first?.before, `${id} drew nothing under the name of its source`);
    t.ok(draws - before.length - own.length <= 1, 'at most one draw was under way');
    for (const value of own) {
      if (seen.has(value) || ofSource.has(value)) common += 1;
      seen.add(value);
    }
  }
  t.ok((first?.before.length ?? 0) >= 5 && seen.size >= FORKS * (DRAWS_AFTER - 1), `${seen.size} draws`);
  t.equal(common, 0, 'no value is common to two of them, or to one and the source');

  await t.test('each has a boot id of its own, and a copy of a copy, too', async (t) => {
    const BOOT_ID = 'cat /proc/sys/kernel/random/boot_id';
    const deeper = await snapshot(api, children[0]!.id);
    const [grandchild] = await fork(api, deeper.id, 1);
    const ids = [source, grandchild!, ...children].map(({ id }) => id);
    const bootIds = await Promise.all(ids.map((id) => api.sh(id, BOOT_ID)));
    for (const bootId of bootIds) t.match(bootId, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
    t.equal(new Set(bootIds).size, FORKS + 2);
    t.equal(await api.sh(grandchild!.id, 'grep -c boot_id /proc/mounts'), '1');
    // The kernel allows that only where a whole proc is in view, and bubblewrap and rootless containers need it.
    const own = "su -s /bin/sh nobody -c 'unshare -Urpmf --mount-proc ps -o pid= -p 1'";
    for (const id of [source.id, grandchild!.id])
      t.equal((await api.sh(id, own)).trim(), '1', 'a user may mount the proc of a namespace of theirs');
  });

  await t.test('what was stopped is still stopped, in the source as in a copy', async (t) => {
    for (const id of [source.id, children[0]!.id]) {
      t.equal(
        await api.sh(
          id,
          "ps -o state= -p $(pgrep -f 'kill -STOP' | head -1); cat /dev/shm/woke 2> /dev/null || true",
        ),
        'T',
      );
    }
  });
});

t.test('a save that fails, and one whose daemon dies, leave nothing frozen', async (t) => {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const faultsPath = join(directories.dataDir, 'faults');
  const first = await spawnDaemon(directories, { onExit: 'keep', faultsPath });
  const { id } = await first.api.create({ memory_mib: 128 });
  await first.api.sh(id, START_COUNTING);
  const countsOn = async (api: Api): Promise<boolean> => {
    const before = Number(await api.sh(id, COUNT));
    for (let tries = 0; tries < scaled(100); tries++) {
      if (Number(await api.sh(id, COUNT)) > before) return true;
      await sleep(50);
    }
    return false;
  };
  writeFileSync(faultsPath, 'snapshot.paused error');
  await t.rejects(snapshot(first.api, id), { status: 500, message: /injected/ });
  t.ok(await countsOn(first.api), 'after a failure');
  writeFileSync(faultsPath, 'snapshot.paused kill');
  await t.rejects(snapshot(first.api, id));
  await first.exited;
  writeFileSync(faultsPath, '');
  const second = await spawnDaemon(directories, { onExit: 'destroy', faultsPath });
  t.ok(await countsOn(second.api), 'with the next daemon');
  t.equal(await second.end(), 0);
});
