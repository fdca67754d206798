// Engines are tried, and the agent's image is made, behind the daemon's start: it serves meanwhile, stops promptly, and
// leaves nothing when it is killed.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { chmod, mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import {
  type Daemon,
  type Directories,
  ENVIRONMENT,
  leftovers,
  makeDirectories,
  removeDirectories,
  spawnDaemon,
} from '../support/daemon.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { scaled } from '../support/time-scale.ts';
import { until } from '../support/until.ts';
import { listVmms } from '../support/vmms.ts';

t.setTimeout(scaled(600_000));

/** Directories of a host on which nothing is remembered. */
async function unknownHost(t: Test): Promise<Directories> {
  const directories = await makeDirectories();
  t.teardown(() => removeDirectories(directories));
  const engines = join(directories.dataDir, 'engines');
  await rm(engines);
  await mkdir(engines, { mode: 0o700 });
  return directories;
}

/** Without the agent's image, whose program does not end before its daemon does: otherwise it may be over too early. */
async function startWithoutAgent(t: Test, directories: Directories, agents: string): Promise<Daemon> {
  await rm(agents, { recursive: true });
  await mkdir(agents);
  const bin = t.testdir({ mke2fs: '#!/bin/sh\nwhile [ -d /proc/$PPID ]; do sleep 0.1; done\nexit 1\n' });
  await chmod(join(bin, 'mke2fs'), 0o755);
  const daemon = await spawnDaemon(directories, { env: { PATH: `${bin}:${process.env.PATH}` } });
  await until(() => readdirSync(agents).some((name) => name.startsWith('.tmp-')), 'its beginning', 60_000);
  return daemon;
}

/** Templates of the image that there was, unless the test run has one: they are opened when the new image is made. */
async function makeTemplate(directories: Directories): Promise<void> {
  const daemon = await spawnDaemon(directories);
  const { id } = await daemon.api.create();
  const templates = join(directories.dataDir, 'templates');
  await until(() => readdirSync(templates).some((name) => !name.startsWith('.')), 'a template', 120_000);
  await daemon.api.delete(id);
  await daemon.end();
}

const vmmsOf = async ({ runDir }: Directories) =>
  (await listVmms()).filter(({ socketPath }) => socketPath.startsWith(`${runDir}/`));
const stateOf = async ({ api, url }: Daemon): Promise<unknown> => {
  const health = (await (await fetch(`${url}/healthz`)).json()) as { engine?: string };
  const { engine } = await api.ask('listProfiles');
  return health.engine === engine?.state ? engine?.state : `${health.engine} and ${engine?.state}`;
};
const isChosen = ({ log }: Daemon): boolean => log.some(({ msg }) => msg === 'engine chosen');

async function untilTrying(directories: Directories): Promise<void> {
  while ((await vmmsOf(directories)).length === 0) await sleep(20);
}

t.test('a daemon serves while it tries engines, a create waits, and the next start remembers', async (t) => {
  const directories = await unknownHost(t);
  const daemon = await spawnDaemon(directories);
  t.notOk(isChosen(daemon), 'it serves before');
  t.equal(await stateOf(daemon), 'trying');
  t.same(await daemon.api.list(), []);
  const gone = new AbortController();
  const left = fetch(`${daemon.url}/sandboxes`, { method: 'POST', signal: gone.signal });
  left.catch(() => undefined);
  await untilTrying(directories);
  gone.abort();
  await t.rejects(left);
  const { id } = await daemon.api.create({ memory_mib: 128 });
  t.ok(isChosen(daemon));
  t.equal(await stateOf(daemon), 'chosen');
  t.same(
    (await daemon.api.list()).map((sandbox) => sandbox.id),
    [id],
    'the create whose client left made none',
  );
  await daemon.api.delete(id);
  t.equal(await daemon.end(), 0);
  const next = await spawnDaemon(directories);
  t.ok(next.log.some(({ msg, isRemembered }) => msg === 'engine chosen' && isRemembered === true));
  t.equal(await next.end(), 0);
  t.same(await leftovers(directories), []);
});

t.test('the doctor leaves the choice for the next start, as the package has it do', async (t) => {
  const directories = await unknownHost(t);
  const flags = ['doctor', '--probe', '--data-dir', directories.dataDir];
  const child = spawn(DAEMON_PROGRAM, flags, { stdio: ['ignore', 'pipe', 'inherit'], env: ENVIRONMENT });
  let text = '';
  child.stdout.on('data', (bytes) => (text += bytes));
  const [code] = await once(child, 'close');
  // Emulation is a warning.
  t.ok(code === 0 || code === 1, text);
  t.match(text, / engine /);
  const daemon = await spawnDaemon(directories);
  t.ok(daemon.log.some(({ msg, isRemembered }) => msg === 'engine chosen' && isRemembered === true));
  t.equal(await daemon.end(), 0);
});

t.test('a stop while engines are tried is prompt, and answers the creates that wait', async (t) => {
  const directories = await unknownHost(t);
  const daemon = await spawnDaemon(directories);
  const waiting = daemon.api.create({ memory_mib: 128 }).then(
    () => 'made',
    (error: unknown) => error,
  );
  await untilTrying(directories);
  t.equal(await daemon.end(), 0);
  t.match(await waiting, { status: 503 });
  t.notOk(isChosen(daemon));
  t.same(await readdir(join(directories.dataDir, 'engines')), []);
  t.same(await leftovers(directories), []);
});

t.test('what a daemon leaves that is killed while it tries engines is removed by the next', async (t) => {
  const directories = await unknownHost(t);
  const daemon = await spawnDaemon(directories);
  await untilTrying(directories);
  const pids = (await vmmsOf(directories)).map(({ pid }) => pid);
  await daemon.end('SIGKILL');
  const next = await spawnDaemon(directories);
  const left = async () => (await vmmsOf(directories)).some(({ pid }) => pids.includes(pid));
  t.notOk(await left(), 'its guests');
  await until(() => isChosen(next), 'the choice', 300_000);
  t.equal(await next.end(), 0);
  t.same(await leftovers(directories), []);
});

t.test(
  "the agent's image is made before any create, and a stop meanwhile leaves nothing of it",
  async (t) => {
    const directories = await makeDirectories();
    t.teardown(() => removeDirectories(directories));
    await makeTemplate(directories);
    const agents = join(directories.dataDir, 'agents');
    const stopped = await startWithoutAgent(t, directories, agents);
    t.equal(await stopped.end(), 0);
    t.same(await readdir(agents), []);
    t.same(await leftovers(directories), []);
    t.notOk(stopped.log.some(({ msg }) => msg?.startsWith('cannot make')));

    await (await startWithoutAgent(t, directories, agents)).end('SIGKILL');
    const daemon = await spawnDaemon(directories);
    const isMade = () => readdirSync(agents).some((name) => name.endsWith('.ext4'));
    await until(isMade, 'the image', 120_000);
    t.equal(await daemon.end(), 0);
    t.notOk((await readdir(agents)).some((name) => name.includes(String(daemon.pid))));
  },
);
