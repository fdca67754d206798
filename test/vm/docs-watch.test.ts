// The examples of the pages on metrics, events, traces, moving snapshots and back-ups, each run as it is written: with a daemon at the
// address of the examples, a collector, another host, and directories of a service that are this test's alone.
import '../support/network/own-network.ts';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { Api } from '../support/api.ts';
import { startCollector } from '../support/collector.ts';
import { BAKED_DATA_DIR, ENVIRONMENT, startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { vmmPids } from '../support/vmms.ts';

t.setTimeout(scaled(600_000));
const ROOT = resolve(import.meta.dirname, '../..');
const SERVICE = 'http://127.0.0.1:7878';
const TRACE = '0af7651916cd43dd8448eb211c80319c';

/** The blocks of a page in one language. */
function blocks(page: string, language: string): string[] {
  const text = readFileSync(join(ROOT, 'docs', page), 'utf8');
  return [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(
    ([, block = '']) => block,
  );
}

/** The one block of shell that has `word` in it. */
function block(page: string, word: string): string {
  const [found, ...more] = blocks(page, 'sh').filter((each) => each.includes(word));
  if (found === undefined || more.length > 0) throw new Error(`${page}: ${word} is not in one block`);
  return found;
}

/** A host whose service is a process of this test: what its reader has in PATH, /etc, /var/lib and /backup. */
function openHost(t: Test) {
  const dir = mkdtempSync(join(tmpdir(), 'docs-'));
  // On the file system of what was baked, which is not copied to the next host.
  const state = mkdtempSync(join(BAKED_DATA_DIR, 'docs-'));
  const dataDir = join(state, 'lib/sandboxd');
  const etc = join(dir, 'etc');
  const runDir = join(dir, 'run');
  for (const each of [dataDir, etc, runDir, join(dir, 'bin'), join(dir, 'backup')])
    mkdirSync(each, { recursive: true, mode: 0o700 });
  for (const name of ['profiles', 'kernels', 'layers', 'engines', 'agents'])
    symlinkSync(join(BAKED_DATA_DIR, name), join(dataDir, name));
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
  writeFileSync(join(etc, 'config.json'), '{}');
  const variables = { SANDBOXD_DATA_DIR: dataDir, SANDBOXD_RUN_DIR: runDir };
  const env = {
    ...ENVIRONMENT,
    ...variables,
    PATH: `${dir}/bin:${ROOT}/dist:${process.env.PATH}`,
    XDG_CONFIG_HOME: dir,
  };
  const programs = {
    sudo: 'exec "$@"',
    systemctl: `case $1 in
stop) kill "$(cat ${dir}/pid)"; while kill -0 "$(cat ${dir}/pid)" 2>/dev/null; do sleep 0.1; done ;;
start) setsid sandboxd --config ${etc}/config.json >>${dir}/log 2>&1 & echo $! >${dir}/pid
  until curl -fs ${SERVICE}/healthz >/dev/null; do kill -0 $! || exit 1; sleep 0.2; done ;;
esac`,
  };
  for (const [name, script] of Object.entries(programs))
    writeFileSync(join(dir, 'bin', name), `#!/bin/bash\n${script}\n`, { mode: 0o755 });
  const sh = async (script: string, more: Record<string, string> = {}): Promise<string> => {
    const written = script
      .replaceAll('/var/lib/sandboxd', dataDir)
      .replaceAll('/etc/sandboxd', etc)
      .replaceAll('/backup', join(dir, 'backup'));
    const { stdout } = await promisify(execFile)('bash', ['-o', 'pipefail', '-c', written], {
      cwd: dir,
      env: { ...env, ...more },
      maxBuffer: 2 ** 26,
    });
    return stdout;
  };
  t.teardown(async () => {
    await sh('systemctl stop sandboxd').catch(() => undefined);
    for (const each of [dir, state]) rmSync(each, { recursive: true, force: true });
  });
  return { dir, env, sh };
}

/** The collector's port is a free one, that of the page is not. */
async function forwardTo(t: Test, port: number, url: string): Promise<void> {
  const server = createServer((socket) => {
    const other = connect(Number(new URL(url).port), '127.0.0.1');
    for (const each of [socket, other]) each.on('error', () => undefined);
    socket.pipe(other).pipe(socket);
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => void server.close());
}

t.test('every example of these pages', async (t) => {
  const { dir, env, sh } = openHost(t);
  const collector = await startCollector(t);
  await forwardTo(t, 4318, collector.url);

  // With a collector.
  const [start = '', ask = ''] = blocks('traces.md', 'sh');
  const answer = await sh(`export OTEL_BSP_SCHEDULE_DELAY=50
${start.trim()} > log 2>&1 &
until curl -fs ${SERVICE}/healthz >/dev/null; do kill -0 $! || exit 1; sleep 0.2; done
${ask}
kill $!
wait $!`);
  t.match(answer, /"status"/, 'traces.md');
  t.ok(
    collector.spans.some(({ traceId }) => traceId === TRACE),
    'the span of that request is in that trace',
  );

  await sh('systemctl start sandboxd');
  const other = await startDaemon(t);
  const client = { SANDBOXD_HOST: SERVICE };
  const { id: ID } = await new Api(SERVICE).create();
  const SNAPSHOT = (await sh(`sandbox snapshot ${ID}`, client)).trim();
  t.match([ID, SNAPSHOT], [/^sbx_/, /^snap_/]);

  t.match(await sh(block('metrics.md', '/metrics')), /^sandboxd_sandboxes\{state="running"\} 1$/m);
  // The second of the two has no end of its own.
  const [once = '', streamed = ''] = block('metrics.md', '/stats').trim().split('\n');
  t.match(JSON.parse(await sh(once, { ID })), { id: ID });
  const stats = (await sh(`timeout 10 ${streamed} || [ $? = 124 ]`, { ID })).trim().split('\n');
  t.ok(stats.length > 1);
  t.type(JSON.parse(stats[1] ?? '').cpu_percent, 'number');
  writeFileSync(join(dir, 'prometheus.yml'), blocks('metrics.md', 'yaml').join(''));
  await sh('promtool check config --syntax-only prometheus.yml');

  t.match(await sh(block('events.md', 'follow=0')), new RegExp(`"kind":"created","sandbox":"${ID}"`));
  t.match(await sh(`timeout 5 ${block('events.md', '-sN').trim()} || [ $? = 124 ]`), /^retry: 1000\nid: /);
  t.match(await sh(block('events.md', 'webhooks add')), /whsec_\S{43}=/);

  await sh(block('export.md', 'sandbox import').replaceAll('http://other:7878', other.url), {
    ...client,
    SNAPSHOT,
  });
  await sh(block('export.md', 'curl').replaceAll('http://other:7878', other.url), { SNAPSHOT });
  const { snapshots } = await other.api.ask('listSnapshots');
  t.equal(snapshots?.length, 2, 'the one was imported in both ways');

  // The watcher in the library's words, while a VM dies.
  const program = `import { Client } from '@sandboxd/client';
const client = new Client({ host: '${SERVICE}' });
console.log('ready');
${blocks('events.md', 'ts').join('\n')}`;
  writeFileSync(join(dir, 'watch.ts'), program);
  mkdirSync(join(dir, 'node_modules/@sandboxd'), { recursive: true });
  symlinkSync(join(ROOT, 'client'), join(dir, 'node_modules/@sandboxd/client'));
  const watcher = spawn(process.execPath, ['watch.ts'], {
    cwd: dir,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  watcher.stdout.on('data', (chunk) => {
    said += chunk;
  });
  const isWatched = async () =>
    /requests_open\{operation="followEvents"\} 1$/m.test(await (await fetch(`${SERVICE}/metrics`)).text());
  await until(() => said.startsWith('ready'), 'the watcher', 30_000);
  while (!(await isWatched())) await new Promise((resolve) => setTimeout(resolve, 100));
  for (const pid of await vmmPids(ID)) process.kill(pid, 'SIGKILL');
  await until(() => said.includes(`died ${ID}`), `died: ${said}`, 30_000);
  watcher.kill();
  await sh(`sandbox rm ${ID}`, client);

  // Back-up and restore.
  await sh(block('operate.md', '-cf /backup'));
  const restored = await sh(block('operate.md', '-xpf /backup'), client);
  t.match(restored, SNAPSHOT, 'the new host has the snapshot');
  const fork = (await sh(`sandbox fork ${SNAPSHOT}`, client)).trim();
  t.match(await sh(`sandbox exec ${fork} uname`, client), 'Linux');
  await sh(`sandbox rm ${fork}`, client);

  // Those of packages need another version, or a machine of its own: test/package has a repository and installs.
  const known = { 'metrics.md': 2, 'events.md': 3, 'traces.md': 2, 'export.md': 2, 'operate.md': 7 };
  for (const [page, count] of Object.entries(known))
    t.equal(blocks(page, 'sh').length, count, `${page}: no example is left out`);
});
