// The agent's own image: built once for the same files, and removed when another is current and none uses it.
import { link, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureAgentImage } from '@sandboxd/rootfs-builder';
import t, { type Test } from 'tap';
import { runCommand } from '../../../rootfs-builder/src/lib/command.ts';

const BARE_KERNEL = { digest: 'k' };

async function makeAgent(t: Test): Promise<{ dataDir: string; agentDir: string }> {
  const root = await mkdtemp(join(tmpdir(), 'agent-image-'));
  t.teardown(() => rm(root, { recursive: true }));
  const [dataDir, agentDir] = [join(root, 'data'), join(root, 'agent')];
  await mkdir(join(agentDir, 'lib'), { recursive: true });
  await mkdir(dataDir);
  await writeFile(join(agentDir, 'sandbox-agent'), 'one', { mode: 0o755 });
  await writeFile(join(agentDir, 'lib/ld.so'), 'loader');
  return { dataDir, agentDir };
}

t.test('it holds the agent where every guest has it, and is made once', async (t) => {
  const { dataDir, agentDir } = await makeAgent(t);
  const { path } = await ensureAgentImage(dataDir, agentDir, BARE_KERNEL);
  const text = await runCommand('debugfs', ['-R', 'cat /.sandbox/lib/ld.so', path]);
  t.equal(text, 'loader');
  const { mtimeMs } = await stat(path);
  t.equal((await ensureAgentImage(dataDir, agentDir, BARE_KERNEL)).path, path);
  t.equal((await stat(path)).mtimeMs, mtimeMs);
  t.same(await readdir(join(dataDir, 'agents')), [path.split('/').at(-1)]);
});

t.test('another agent has another image, and the old one stays for who has it', async (t) => {
  const { dataDir, agentDir } = await makeAgent(t);
  const names = () => readdir(join(dataDir, 'agents'));
  const first = await ensureAgentImage(dataDir, agentDir, BARE_KERNEL);
  await link(first.path, join(dataDir, 'mine'));
  await writeFile(join(agentDir, 'sandbox-agent'), 'other');
  const second = await ensureAgentImage(dataDir, agentDir, BARE_KERNEL);
  t.not(second.digest, first.digest);
  t.equal((await names()).length, 2);
  await rm(join(dataDir, 'mine'));
  await ensureAgentImage(dataDir, agentDir, BARE_KERNEL, { unusedMs: 0 });
  t.same(await names(), [second.path.split('/').at(-1)]);
});

t.test('of daemons that make the same image at once, all have the first one', async (t) => {
  const { dataDir, agentDir } = await makeAgent(t);
  const make = async () => (await stat((await ensureAgentImage(dataDir, agentDir, BARE_KERNEL)).path)).ino;
  const all = [make(), make(), make()];
  const first = await Promise.race(all);
  t.same(await Promise.all(all), [first, first, first]);
  const names = await readdir(join(dataDir, 'agents'));
  t.equal(names.length, 1);
  const { ino, nlink } = await stat(join(dataDir, 'agents', names[0] ?? ''));
  t.same({ ino, nlink }, { ino: first, nlink: 1 });
});

t.test('an image that another daemon has just found stays until that daemon links it', async (t) => {
  const { dataDir, agentDir } = await makeAgent(t);
  const theirs = join(dataDir, 'their-agent');
  await mkdir(theirs);
  await writeFile(join(theirs, 'sandbox-agent'), 'theirs', { mode: 0o755 });
  const { path } = await ensureAgentImage(dataDir, theirs, BARE_KERNEL);
  const own = await ensureAgentImage(dataDir, agentDir, BARE_KERNEL);
  const { ctimeMs } = await stat(path);
  await ensureAgentImage(dataDir, theirs, BARE_KERNEL);
  t.ok((await stat(path)).ctimeMs > ctimeMs, 'each use counts');
  await ensureAgentImage(dataDir, agentDir, BARE_KERNEL, { unusedMs: 0 });
  t.same(await readdir(join(dataDir, 'agents')), [own.path.split('/').at(-1)]);
});

t.test('it has the modules of the kernel, and another kernel has another image', async (t) => {
  const { dataDir, agentDir } = await makeAgent(t);
  const archiveOf = async (release: string) => {
    const tree = join(dataDir, release);
    await mkdir(join(tree, 'modules', release), { recursive: true });
    await writeFile(join(tree, 'modules', release, 'modules.dep'), release);
    await writeFile(join(tree, 'modprobe'), 'loader', { mode: 0o755 });
    await runCommand('tar', ['--zstd', '-cf', `${tree}.tar.zst`, '-C', tree, '.']);
    return { digest: release, modulesPath: `${tree}.tar.zst` };
  };
  const { path } = await ensureAgentImage(dataDir, agentDir, await archiveOf('6.1'));
  const read = (name: string) => runCommand('debugfs', ['-R', `cat ${name}`, path]);
  t.equal(await read('/.sandbox/modules/6.1/modules.dep'), '6.1');
  t.equal(await read('/.sandbox/modprobe'), 'loader');
  t.equal(await read('/.sandbox/lib/ld.so'), 'loader');
  t.match(await runCommand('debugfs', ['-R', 'stat /.sandbox/modprobe', path]), /User: +0 +Group: +0/);
  t.not((await ensureAgentImage(dataDir, agentDir, await archiveOf('6.2'), { unusedMs: 0 })).path, path);
  await writeFile(join(dataDir, 'bad'), 'no archive');
  const bad = ensureAgentImage(dataDir, agentDir, { digest: 'bad', modulesPath: join(dataDir, 'bad') });
  await t.rejects(bad, { code: 'command_failed' });
  t.equal((await readdir(join(dataDir, 'agents'))).length, 1, 'nothing is left of it');
});

t.test('a missing agent is reported in one sentence, and nothing is left', async (t) => {
  const { dataDir, agentDir } = await makeAgent(t);
  await rm(join(agentDir, 'sandbox-agent'));
  await t.rejects(ensureAgentImage(dataDir, agentDir, BARE_KERNEL), {
    code: 'agent_missing',
    message: /no guest agent in /,
  });
  t.same(await readdir(dataDir), []);
});
