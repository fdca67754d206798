// A real guest changes its host and goes on: what it counts in memory and on disk, under the same id and machine id.
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import t from 'tap';
import type { SandboxJson } from '../support/api.ts';
import { startDaemon } from '../support/daemon.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { startS3 } from '../support/s3/server.ts';
import { makeStoreSettings } from '../support/s3/store.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(300_000));
const run = promisify(execFile);
const WHO = 'cat /etc/machine-id; hostname; cat /proc/sys/kernel/random/boot_id';

t.test('a sandbox leaves a drained host and goes on at another', async (t) => {
  const s3 = await startS3(t);
  const { bucket, prefix, endpoint, keyFile, credentialsFile } = makeStoreSettings(t, s3.url);
  const flags = [
    ...['--snapshot-store', `s3://${bucket}/${prefix}`, '--snapshot-store-endpoint', endpoint.origin],
    ...[
      '--snapshot-store-key-file',
      keyFile ?? '',
      '--snapshot-store-credentials-file',
      credentialsFile ?? '',
    ],
  ];
  const [a, b] = await Promise.all([startDaemon(t, { flags }), startDaemon(t, { flags })]);
  const { id } = await a.api.create({ memory_mib: 256, name: 'counter' });
  // Each number is written to the disk once it is in memory: a second guest of the same number would be seen.
  await a.api.sh(
    id,
    '(i=0; while :; do i=$((i+1)); echo $i > /dev/shm/n; echo $i >> /root/log; sync; sleep 0.2; done) >/dev/null 2>&1 &',
  );
  const who = await a.api.sh(id, WHO);
  // What a snapshot lets it stand still, to be compared with the move.
  const { id: snapshot } = await a.api.ask('takeSnapshot', { params: { id } });
  const events = await (await a.api.fetch('/events?follow=0&kind=snapshot-taken')).text();
  t.comment(`a snapshot: ${/"paused_ms":\d+/.exec(events)?.[0]}`);
  await a.api.call('DELETE', `/snapshots/${snapshot}`);
  const before = Number(await a.api.sh(id, 'cat /dev/shm/n'));

  const startedAt = performance.now();
  const env = {
    ...process.env,
    SANDBOXD_DATA_DIR: a.directories.dataDir,
    ...{
      SANDBOXD_SNAPSHOT_STORE: `s3://${bucket}/${prefix}`,
      SANDBOXD_SNAPSHOT_STORE_ENDPOINT: endpoint.origin,
    },
  };
  const { stdout } = await run(DAEMON_PROGRAM, ['drain', '--json'], { env });
  t.match(JSON.parse(stdout), { state: 'drained', sandboxes: [{ id, state: 'offered' }] });
  t.comment(`offered after ${Math.round(performance.now() - startedAt)} ms`);
  const resumedAt = performance.now();
  const moved = await b.api.ask('resumeSandbox', { params: { id }, body: {} });
  t.comment(`runs elsewhere after ${Math.round(performance.now() - resumedAt)} ms`);
  const sent = a.log.flatMap(({ sentBytes, durationMs }) =>
    typeof sentBytes === 'number' && typeof durationMs === 'number' ? [{ sentBytes, durationMs }] : [],
  );
  t.comment(`sent while it ran, and from its pause to the offer: ${JSON.stringify(sent)}`);
  const [first, second] = sent.map(({ sentBytes }) => sentBytes);
  t.ok((second ?? 0) > 0 && (second ?? 0) < (first ?? 0), 'the second upload has changes alone');
  t.match(moved, { id, name: 'counter', state: 'running' });
  t.equal(await b.api.sh(id, WHO), who, 'machine id, host name and boot id are the same');
  const count = async () => Number(await b.api.sh(id, 'cat /dev/shm/n'));
  const after = await count();
  t.ok(after >= before);
  while ((await count()) <= after) await sleep(200);
  t.equal(
    await b.api.sh(id, "sort -n /root/log | uniq -d | wc -l; awk 'NR != $1' /root/log | wc -l"),
    '0\n0',
  );
  const skew = Number(await b.api.sh(id, 'date +%s')) - Date.now() / 1000;
  t.ok(Math.abs(skew) < 20, `the clock differs by ${skew} s`);

  const list = async () => (await a.api.call<{ sandboxes: SandboxJson[] }>('GET', '/sandboxes')).sandboxes;
  while ((await list()).length > 0) await sleep(200);
  await run(DAEMON_PROGRAM, ['drain', '--cancel'], { env });
  const other = await a.api.create({ memory_mib: 256 });
  await a.api.delete(other.id);
  await b.api.delete(id);
});
