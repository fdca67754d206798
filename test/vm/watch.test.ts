// Real guests watched: their stats and metrics, a real Prometheus aside, and their events over daemons that are killed.
import { Client, type SandboxEvent } from '@sandboxd/client';
import t from 'tap';
import { checkedUrl } from '../support/checked-proxy.ts';
import { makeDirectories, removeDirectories, spawnDaemon, startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';

t.setTimeout(scaled(400_000));

t.test('a guest that computes, writes and sends has it in its stats and metrics', async (t) => {
  const daemon = await startDaemon(t, { flags: ['--metrics-top-sandboxes', '5'] });
  const url = await checkedUrl(t, daemon.url);
  const client = new Client({ host: url });
  // The first one is booted, unless the test run has a template; the others are copies.
  await (await client.sandboxes.create({ memory_mib: 256 })).delete();
  await using sandbox = await client.sandboxes.create({ memory_mib: 256 });
  const before = await sandbox.stats();
  t.match(before, { vcpus: 1, memory_limit_bytes: 256 * 2 ** 20 });
  t.ok(before.resident_bytes > 16 * 2 ** 20 && before.resident_bytes >= before.private_bytes);
  const work =
    'dd if=/dev/urandom of=/srv/data bs=1M count=24 2>/dev/null; sync; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done';
  await sandbox.exec(['sh', '-c', work]).result();
  const after = await sandbox.stats();
  t.ok(after.cpu_us - before.cpu_us > 50_000, `${after.cpu_us - before.cpu_us} µs`);
  t.ok(after.layer_bytes - before.layer_bytes > 16 * 2 ** 20, 'the layer has grown');
  t.ok(after.private_bytes > before.private_bytes);
  const seen = [];
  for await (const each of sandbox.watchStats()) {
    seen.push(each);
    if (seen.length === 2) break;
  }
  t.equal(seen[0]?.cpu_percent, undefined);
  t.type(seen[1]?.cpu_percent, 'number');
  const text = await (await fetch(`${url}/metrics`)).text();
  const cpu = new RegExp(`^sandboxd_vm_cpu_seconds_total\\{sandbox="${sandbox.id}"\\} (\\S+)$`, 'm').exec(
    text,
  )?.[1];
  t.ok(Number(cpu) >= Math.floor(after.cpu_us / 1e6), `${cpu} s of CPU`);
  t.match(text, /^sandboxd_sandboxes\{state="running"\} 1$/m);
  t.match(
    text,
    /^sandboxd_sandbox_start_duration_seconds_count\{origin="template",rootfs="profile"\} [12]$/m,
  );
  t.match(text, /^sandboxd_vm_resident_bytes\{sandbox="rest"\} 0$/m);
});

const isLong = process.env.SOAK === '1';

if (isLong)
  t.test('events go on over daemons that are killed, without gap or duplicate', async (t) => {
    const directories = await makeDirectories();
    t.teardown(() => removeDirectories(directories));
    let daemon = await spawnDaemon(directories, {});
    t.teardown(() => daemon.end());
    const events: SandboxEvent[] = [];
    let client = new Client({ host: await checkedUrl(t, daemon.url) });
    let leave = new AbortController();
    const follow = async (after: string) => {
      for await (const event of client.events({ after, signal: leave.signal })) events.push(event);
    };
    const restart = async () => {
      await daemon.end('SIGKILL');
      leave.abort();
      daemon = await spawnDaemon(directories, {});
      client = new Client({ host: await checkedUrl(t, daemon.url) });
      leave = new AbortController();
      follow(events.at(-1)?.id ?? '0').catch(() => undefined);
    };
    follow('0').catch(() => undefined);
    const kept = await client.sandboxes.create({ memory_mib: 256 });
    await until(() => events.length > 0, 'the first event');
    // Killed at moments that nobody chose: while sandboxes and snapshots are made, and go.
    for (const delayMs of [50, 400, 1200]) {
      const work = (async () => {
        const sandbox = await client.sandboxes.create({ memory_mib: 256 });
        const snapshot = await sandbox.snapshot();
        await sandbox.delete();
        await snapshot.delete();
      })();
      work.catch(() => undefined);
      await new Promise((resolve) => setTimeout(resolve, scaled(delayMs)));
      await restart();
      await work.catch(() => undefined);
    }
    const listed = (await client.sandboxes.list()).map(({ id }) => id);
    const snapshots = (await client.snapshots.list()).map(({ id }) => id);
    for (const id of listed) if (id !== kept.id) await client.sandboxes.get(id).delete();
    for (const id of snapshots) await client.snapshots.get(id).delete();
    await client.sandboxes.get(kept.id).delete();
    const isOver = () => events.some(({ kind, sandbox }) => kind === 'deleted' && sandbox === kept.id);
    await until(isOver, 'the last event');
    const numbers = events.map(({ id }) => Number(id.split('-')[1]));
    t.same(
      numbers,
      numbers.toSorted((a, b) => a - b),
      'in order',
    );
    t.equal(new Set(numbers).size, numbers.length, 'none twice');
    const all: SandboxEvent[] = [];
    for await (const event of client.events({ after: '0', follow: false })) all.push(event);
    t.same(
      events.map(({ id }) => id),
      all.map(({ id }) => id),
      'none missing',
    );
    const alive = new Set<string | undefined>();
    for (const { kind, sandbox, snapshot } of all) {
      if (kind === 'created') t.notOk(alive.has(sandbox), 'created once');
      if (kind === 'created') alive.add(sandbox);
      if (kind === 'snapshot-taken') alive.add(snapshot);
      if (kind === 'deleted') t.ok(alive.delete(sandbox), 'deleted once, after it was created');
      if (kind === 'snapshot-deleted') t.ok(alive.delete(snapshot), 'deleted once, after it was taken');
    }
    t.same([...alive], []);
    t.equal(all.filter(({ kind, sandbox }) => kind === 'adopted' && sandbox === kept.id).length, 3);
    leave.abort();
    t.equal(await daemon.end(), 0);
  });
