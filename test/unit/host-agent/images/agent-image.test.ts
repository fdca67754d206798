// The agent's image in the background: its priority, a stop while it is made, and failures.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { getPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { AgentImageMaker } from '../../../../host-agent/src/images/agent-image.ts';
import { runCommand } from '../../../../rootfs-builder/src/lib/command.ts';
import { until } from '../../../support/until.ts';

type World = {
  readonly maker: AgentImageMaker;
  readonly agents: string;
  /** The archive of the kernel's modules, which is not there yet. */
  readonly modulesPath: string;
  readonly writeModules: () => Promise<void>;
  readonly warnings: readonly string[];
};

async function makeWorld(t: Test): Promise<World> {
  const dataDir = await mkdtemp(join(tmpdir(), 'agent-maker-'));
  t.teardown(() => rm(dataDir, { recursive: true }));
  const agentDir = join(dataDir, 'agent');
  await mkdir(agentDir);
  await writeFile(join(agentDir, 'sandbox-agent'), 'one', { mode: 0o755 });
  const modulesPath = join(dataDir, 'modules.tar.zst');
  const warnings: string[] = [];
  const log = pino(
    { level: 'warn' },
    { write: (line: string) => void warnings.push(JSON.parse(line).msg as string) },
  );
  const maker = new AgentImageMaker({ dataDir, agentDir, kernel: { digest: 'k', modulesPath }, log });
  t.teardown(() => maker.stop());
  const writeModules = async () => {
    const made = join(dataDir, 'made.tar.zst');
    await runCommand('tar', ['--zstd', '-cf', made, '-C', agentDir, '.']);
    await writeFile(modulesPath, await readFile(made));
  };
  return { maker, agents: join(dataDir, 'agents'), modulesPath, writeModules, warnings };
}

/** Has the unpacking of the modules wait for a writer. */
const hold = ({ modulesPath }: World) => runCommand('mkfifo', [modulesPath]);

/** Niceness of the processes with this argument. */
function priorities(argument: string): number[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      const isOne = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(argument);
      return isOne ? [getPriority(Number(pid))] : [];
    } catch {
      return [];
    }
  });
}

t.test('it is made at the lowest priority until a create waits for it', async (t) => {
  const world = await makeWorld(t);
  const { maker, agents, modulesPath, writeModules } = world;
  await hold(world);
  maker.makeInBackground();
  await until(() => priorities(modulesPath).length > 0, 'the unpacking');
  await until(() => priorities(modulesPath).every((nice) => nice === 19), 'low priority');
  const [one, other] = [maker.get(), maker.get()];
  await until(() => priorities(modulesPath).every((nice) => nice === getPriority()), 'the ordinary priority');
  await writeModules();
  const { path } = await one;
  t.equal((await other).path, path);
  t.same(await readdir(agents), [path.split('/').at(-1)]);
});

t.test('a stop while it is made ends its programs, and leaves nothing', async (t) => {
  const world = await makeWorld(t);
  const { maker, agents, modulesPath, warnings } = world;
  await hold(world);
  maker.makeInBackground();
  await until(() => priorities(modulesPath).length > 0, 'the unpacking');
  const waiting = t.rejects(maker.get(), { code: 'cancelled' });
  await maker.stop();
  await waiting;
  t.same(await readdir(agents), []);
  await until(() => priorities(modulesPath).length === 0, 'the end of its programs');
  await t.rejects(maker.get(), { code: 'cancelled' });
  t.same(await readdir(agents), []);
  t.same(warnings, []);
});

t.test('a failure is logged once, and the next create tries again', async (t) => {
  const { maker, agents, writeModules, warnings } = await makeWorld(t);
  maker.makeInBackground();
  await until(() => warnings.length > 0, 'the failure');
  t.match(warnings, [/^cannot make the agent's image; the next create tries again$/]);
  await t.rejects(maker.get(), { code: 'command_failed' });
  t.same(await readdir(agents), []);
  await writeModules();
  t.ok(existsSync((await maker.get()).path));
  t.equal(warnings.length, 1);
});

t.test('an image that another daemon removed is made again', async (t) => {
  const { maker, writeModules } = await makeWorld(t);
  await writeModules();
  maker.makeInBackground();
  const { path } = await maker.get();
  await rm(path);
  const both = await Promise.all([maker.get(), maker.get()]);
  t.same(
    both.map((image) => image.path),
    [path, path],
  );
  t.ok(existsSync(path));
});
