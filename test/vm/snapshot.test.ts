// Snapshots and forks of real guests: consistent, independent, and each its own machine (of sixteen with SOAK=1, else
// of six).
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { truncate } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import type { AnswerOf } from '../support/answers.ts';
import { collectExec, type SandboxJson } from '../support/api.ts';
import { COUNT, START_COUNTING } from '../support/counter.ts';
import { leftovers, startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

type SnapshotJson = AnswerOf<'getSnapshot'>;

const FORKS = process.env.SOAK === '1' ? 16 : 6;

t.setTimeout(scaled(400_000));
const daemon = await startDaemon(t);
const { api } = daemon;

const snapshot = (id: string) => api.call<SnapshotJson>('POST', `/sandboxes/${id}/snapshot`);
const fork = async (id: string, count = 1) =>
  (await api.call<{ sandboxes: SandboxJson[] }>('POST', `/snapshots/${id}/fork?count=${count}`)).sandboxes;
const remove = (sandboxes: readonly SandboxJson[]) => Promise.all(sandboxes.map(({ id }) => api.delete(id)));

/** By how much the guest's clock is wrong, less 12 ms, asked until it is 0: on a busy host that takes some more looks. */
async function clockErrorMs(id: string): Promise<number> {
  for (const deadline = performance.now() + scaled(60_000); ; await sleep(500)) {
    const before = Date.now() - 12;
    const guest = Number(await api.sh(id, 'date +%s%N')) / 1e6;
    const after = Date.now() + 13;
    if (guest >= before && guest <= after) return 0;
    if (performance.now() > deadline) return guest < before ? guest - before : guest - after;
  }
}

t.test('a snapshot describes itself and its forks descend from it', async (t) => {
  const source = await api.create({ timeout_s: 3600 });
  const taken = await snapshot(source.id);
  t.match(taken, { id: /^snap_[0-9a-v]{13}$/, source_id: source.id, memory_mib: 512, vcpus: 1 });
  for (const path of [taken.dir, taken.mem_path, taken.rootfs_path, taken.state_path])
    t.ok(existsSync(path), path);
  const { disk_bytes, unique_bytes, ...shown } = await api.call<Record<string, unknown>>(
    'GET',
    `/snapshots/${taken.id}`,
  );
  t.same(shown, taken);
  t.ok(
    Number(unique_bytes) > 0 && Number(disk_bytes) >= Number(unique_bytes),
    `${unique_bytes} of ${disk_bytes}`,
  );
  t.same(await api.call('GET', '/snapshots'), { snapshots: [taken] });
  const [child] = await fork(taken.id);
  t.match(child, { source_snapshot_id: taken.id, memory_mib: 512, profile: 'base' });
  t.notOk('source_snapshot_id' in (await api.call<object>('GET', `/sandboxes/${source.id}`)));

  await t.test('deletes go in any order', async (t) => {
    await api.call('DELETE', `/snapshots/${taken.id}`);
    t.notOk(existsSync(taken.dir));
    await t.rejects(fork(taken.id), { status: 404, message: /does not exist/ });
    t.equal(await api.sh(child!.id, 'echo alive'), 'alive', 'a fork outlives its snapshot');
    const again = await snapshot(child!.id);
    await remove([source, child!]);
    const [grandchild] = await fork(again.id);
    t.equal(await api.sh(grandchild!.id, 'echo alive'), 'alive', 'also one of a fork whose snapshot is gone');
    await remove([grandchild!]);
    await api.call('DELETE', `/snapshots/${again.id}`);
  });
});

t.test('processes, memory and files go on in source and forks, each for itself', async (t) => {
  const source = await api.create();
  await api.sh(
    source.id,
    `echo before > /root/file; head -c 30000000 /dev/urandom > /root/blob
     ${START_COUNTING}`,
  );
  const digest = await api.sh(source.id, 'sha256sum < /root/blob');
  const count = async (id: string) => Number(await api.sh(id, COUNT));
  const countsBeyond = async (id: string, before: number) => {
    for (let looks = 0; looks < scaled(50); looks++) if ((await count(id)) > before) return true;
    return false;
  };
  const before = await count(source.id);
  const taken = await snapshot(source.id);
  const children = await fork(taken.id, 3);
  t.ok(await countsBeyond(source.id, before), 'the source counts on');
  t.equal(await clockErrorMs(source.id), 0, 'the clock of the source is right');
  for (const { id } of children) {
    const first = await count(id);
    t.ok(first >= before, `${first} after ${before}`);
    t.ok(await countsBeyond(id, first), 'a fork counts on');
    t.equal(await api.sh(id, 'sha256sum < /root/blob'), digest);
  }
  await api.sh(source.id, 'echo source > /root/file; echo 3 > /proc/sys/vm/drop_caches');
  await api.sh(children[0]!.id, 'echo child > /root/file; sync');
  t.equal(await api.sh(children[1]!.id, 'cat /root/file'), 'before');
  t.equal(await api.sh(children[0]!.id, 'cat /root/file'), 'child');
  t.equal(await api.sh(source.id, 'cat /root/file; sha256sum < /root/blob'), `source\n${digest}`);

  await t.test('a snapshot of a fork of a fork', async (t) => {
    const deeper = await snapshot(children[0]!.id);
    await api.sh(children[0]!.id, 'echo later > /root/file');
    const [grandchild] = await fork(deeper.id);
    t.equal(await api.sh(grandchild!.id, 'cat /root/file; sha256sum < /root/blob'), `child\n${digest}`);
    const deepest = await snapshot(grandchild!.id);
    await api.call('DELETE', `/snapshots/${deeper.id}`);
    const [last] = await fork(deepest.id);
    t.equal(await api.sh(last!.id, 'cat /root/file; sha256sum < /root/blob'), `child\n${digest}`);
    await remove([grandchild!, last!]);
    await api.call('DELETE', `/snapshots/${deepest.id}`);
  });
  await remove([source, ...children]);
  await api.call('DELETE', `/snapshots/${taken.id}`);
});

t.test(`${FORKS} forks are ${FORKS} machines`, async (t) => {
  const source = await api.create({ memory_mib: 256 });
  // A process that straddles the snapshot and draws its random bytes afterwards.
  await api.sh(
    source.id,
    `(setsid sh -c 'exec 3< /dev/urandom; while ! test -e /run/go; do sleep 0.1; done; head -c 16 <&3 | sha256sum > /run/drawn' > /dev/null 2>&1 &)`,
  );
  const taken = await snapshot(source.id);
  const children = await fork(taken.id, FORKS);
  t.equal(new Set(children.map(({ id }) => id)).size, FORKS);
  const facts = await Promise.all(
    children.map(async ({ id }) => {
      const text = await api.sh(
        id,
        'touch /run/go; hostname; cat /etc/machine-id /run/sandbox/id /proc/sys/kernel/hostname; head -c 16 /dev/urandom | sha256sum; echo; until test -s /run/drawn; do sleep 0.3; done; cat /run/drawn',
      );
      return { id, lines: text.split('\n') };
    }),
  );
  for (const { id, lines } of facts) {
    t.equal(lines[0], id.replace('_', '-'));
    t.equal(lines[2], id);
    t.equal(await clockErrorMs(id), 0, `the clock of ${id} is right`);
  }
  for (const [index, what] of [
    [1, 'machine ids'],
    [4, '/dev/urandom streams'],
    [6, 'streams of the process that straddles'],
  ] as const) {
    t.equal(new Set(facts.map(({ lines }) => lines[index])).size, FORKS, `${FORKS} different ${what}`);
  }
  await remove([source, ...children]);
  await api.call('DELETE', `/snapshots/${taken.id}`);
});

t.test('streams of the source go on uncut across snapshots under load', async (t) => {
  const source = await api.create();
  const response = await api.fetch(`/sandboxes/${source.id}/exec`, {
    method: 'POST',
    body: JSON.stringify({ cmd: ['seq', '1', '3000000'] }),
  });
  const output = collectExec(response.body as ReadableStream<Uint8Array>);
  const taken: SnapshotJson[] = [];
  for (let n = 0; n < 3; n++) taken.push(await snapshot(source.id));
  const { stdout, result } = await output;
  t.equal(result.exit_code, 0);
  const expected = createHash('sha256');
  for (let n = 1; n <= 3_000_000; n++) expected.update(`${n}\n`);
  t.equal(createHash('sha256').update(stdout).digest('hex'), expected.digest('hex'), 'every byte, in order');
  const [child] = await fork(taken[1]!.id);
  t.equal(
    await api.sh(child!.id, 'echo reachable'),
    'reachable',
    'though it was saved in the middle of a stream',
  );
  await remove([source, child!]);
  for (const { id } of taken) await api.call('DELETE', `/snapshots/${id}`);
});

t.test('a larger disk than the template’s is grown before anybody sees it', async (t) => {
  const sandbox = await api.create({ disk_bytes: 6 * 2 ** 30 });
  const sizeMib = Number(await api.sh(sandbox.id, "df -m / | awk 'NR==2 {print $2}'"));
  t.ok(sizeMib > 5500 && sizeMib <= 6144, `${sizeMib} MiB`);
  t.equal(await api.sh(sandbox.id, 'head -c 5000000 /dev/zero > /x && sync && stat -c %s /x'), '5000000');
  const small = await api.create({ disk_bytes: 128 * 2 ** 20 });
  const smallMib = Number(await api.sh(small.id, "df -m / | awk 'NR==2 {print $2}'"));
  t.ok(smallMib <= 128, `${smallMib} MiB`);
  await remove([sandbox, small]);
});

t.test('bad days', async (t) => {
  const source = await api.create({ memory_mib: 256 });
  const taken = await snapshot(source.id);

  await t.test('a damaged snapshot is refused by name, and nothing is left of the try', async (t) => {
    const damaged = await snapshot(source.id);
    await truncate(damaged.state_path, 1000);
    await t.rejects(fork(damaged.id, 2), { status: 500, message: /damaged.*state/ });
    await api.call('DELETE', `/snapshots/${damaged.id}`);
    t.same(
      (await api.list()).map(({ id }) => id),
      [source.id],
    );
  });

  await t.test('wrong counts are refused', async (t) => {
    for (const query of ['count=0', 'count=65', 'count=x', 'count=-1', 'count=1.5']) {
      await t.rejects(
        api.call('POST', `/snapshots/${taken.id}/fork?${query}`),
        { status: 400, message: /count/ },
        query,
      );
    }
    await t.rejects(api.call('POST', `/snapshots/${taken.id}/fork?count=x`, { count: 1 }), {
      status: 400,
      message: /count/,
    });
    const publish = [{ guest_port: 1, host_port: 1 }];
    await t.rejects(api.call('POST', `/snapshots/${taken.id}/fork`, { publish, count: 2 }), {
      status: 400,
      message: /count 1/,
    });
    await t.rejects(api.call('POST', `/snapshots/${taken.id}/fork`, { publish }), {
      status: 400,
      message: /network/,
    });
    await t.rejects(api.call('POST', '/snapshots/snap_0000000000000/fork'), {
      status: 404,
      message: /does not exist/,
    });
    await t.rejects(api.call('POST', '/sandboxes/sbx_0000000000000/snapshot'), {
      status: 404,
      message: /does not exist/,
    });
  });

  await t.test('a client that leaves takes its forks with it', async (t) => {
    await t.rejects(api.call('POST', `/snapshots/${taken.id}/fork?count=8`, {}, AbortSignal.timeout(150)));
    let left: string[] = ['unknown'];
    for (let waitedMs = 0; waitedMs < scaled(15_000) && left.length > 0; waitedMs += 200) {
      await sleep(200);
      left = (await leftovers(daemon.directories, { isRunning: true })).filter(
        (line) => !line.includes(source.id),
      );
    }
    t.same(left, []);
    t.same(
      (await api.list()).map(({ id }) => id),
      [source.id],
    );
  });

  await t.test('a source that dies while it is saved fails the snapshot and leaves none', async (t) => {
    const victim = await api.create({ memory_mib: 256 });
    await api.sh(victim.id, 'head -c 50000000 /dev/urandom > /dev/shm/fill');
    const taking = snapshot(victim.id);
    taking.catch(() => undefined);
    await sleep(30);
    await api.delete(victim.id);
    await taking.then(
      ({ id }) => api.call('DELETE', `/snapshots/${id}`),
      (error) => t.match(error, { status: /404|500/ }),
    );
    t.same(
      ((await api.call('GET', '/snapshots')) as { snapshots: SnapshotJson[] }).snapshots.map(({ id }) => id),
      [taken.id],
    );
  });
  await remove([source]);
  await api.call('DELETE', `/snapshots/${taken.id}`);
});

t.test('at the end nothing is on disk without an owner', async (t) => {
  t.same(await leftovers(daemon.directories, { isRunning: true }), []);
});
