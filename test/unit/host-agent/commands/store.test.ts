// `sandboxd store` as it is built, over a bucket with a snapshot that lost a chunk.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { newId } from '../../../../host-agent/src/lib/ids.ts';
import { DAEMON_PROGRAM } from '../../../support/leftovers.ts';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';
import { scaled } from '../../../support/time-scale.ts';

const MIB = 2 ** 20;
t.setTimeout(scaled(120_000));

async function run(words: readonly string[], env: Readonly<Record<string, string>>) {
  const child = spawn(DAEMON_PROGRAM, words, { env: { PATH: process.env.PATH, ...env } });
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (text) => (output.stdout += text));
  child.stderr.on('data', (text) => (output.stderr += text));
  const status = await new Promise<number | null>((done) => child.once('close', done));
  return { status, ...output };
}

t.test('stats, verify and gc', async (t) => {
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const { store } = openTestStore(t, settings);
  const dir = mkdtempSync(join(tmpdir(), 'store-command-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'memory');
  writeFileSync(path, Buffer.concat([Buffer.alloc(MIB, 'a'), Buffer.alloc(MIB, 'b')]));
  const [id, gone] = [newId('snap'), newId('snap')];
  const { signal } = new AbortController();
  const files = [{ part: 'memory', path }];
  await store.upload({ id, tenant: 'acme', description: {}, files }, signal);
  await store.upload({ id: gone, tenant: 'other', description: {}, files }, signal);
  await store.remove(gone);
  const env = {
    SANDBOXD_SNAPSHOT_STORE: `s3://${settings.bucket}/${settings.prefix}`,
    SANDBOXD_SNAPSHOT_STORE_ENDPOINT: settings.endpoint.origin,
    SANDBOXD_SNAPSHOT_STORE_KEY_FILE: settings.keyFile!,
    SANDBOXD_SNAPSHOT_STORE_CREDENTIALS_FILE: settings.credentialsFile!,
  };
  t.match(await run(['store', 'stats'], env), {
    status: 0,
    stdout:
      /^1 snapshots and 0 images of 2 MiB take 4 chunks of \d+ MiB\nacme: 1 snapshots, 2 chunks of \d+ MiB\n$/,
  });
  t.match(await run(['store', 'gc'], env), { status: 0, stdout: /4 chunks: 0 deleted .* 2 unused ones/ });
  s3.age(25 * 3_600_000);
  t.match(JSON.parse((await run(['store', 'gc', '--json'], env)).stdout), { removed: 2, snapshots: 1 });
  t.match(await run(['store', 'verify', '--full'], env), { status: 0, stdout: /nothing is missing/ });
  const chunk = [...s3.objects.keys()].find((key) => key.includes('/chunks/'))!;
  s3.objects.delete(chunk);
  const verdict = await run(['store', 'verify'], env);
  t.match(verdict, { status: 1, stdout: new RegExp(`DAMAGED\nproblem: ${id}: memory at \\d+: the chunk`) });
  t.match(await run(['store', 'verify'], {}), { status: 1, stderr: /there is no snapshot store/ });
  const wrong = { ...env, SANDBOXD_SNAPSHOT_STORE_KEY_FILE: path };
  t.match(await run(['store', 'stats'], wrong), {
    status: 1,
    stderr: /the key of the snapshot store.*cannot be used/,
  });
});
