// The agent's own image: made once for the same files, and removed when another is current and nobody has it.
import { link, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ensureAgentImage } from '@sandboxd/rootfs-builder';
import t, { type Test } from 'tap';
import { runCommand } from '../../../rootfs-builder/src/lib/command.ts';

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
  const { path } = await ensureAgentImage(dataDir, agentDir);
  const text = await runCommand('debugfs', ['-R', 'cat /.sandbox/lib/ld.so', path]);
  t.equal(text, 'loader');
  const { mtimeMs } = await stat(path);
  t.equal((await ensureAgentImage(dataDir, agentDir)).path, path);
  t.equal((await stat(path)).mtimeMs, mtimeMs);
  t.same(await readdir(join(dataDir, 'agents')), [path.split('/').at(-1)]);
});

t.test('another agent has another image, and the old one stays for who has it', async (t) => {
  const { dataDir, agentDir } = await makeAgent(t);
  const names = () => readdir(join(dataDir, 'agents'));
  const first = await ensureAgentImage(dataDir, agentDir);
  await link(first.path, join(dataDir, 'mine'));
  await writeFile(join(agentDir, 'sandbox-agent'), 'other');
  const second = await ensureAgentImage(dataDir, agentDir);
  t.not(second.digest, first.digest);
  t.equal((await names()).length, 2);
  await rm(join(dataDir, 'mine'));
  await ensureAgentImage(dataDir, agentDir);
  t.same(await names(), [second.path.split('/').at(-1)]);
});

t.test('no agent is said in one sentence, and nothing is left', async (t) => {
  const { dataDir, agentDir } = await makeAgent(t);
  await rm(join(agentDir, 'sandbox-agent'));
  await t.rejects(ensureAgentImage(dataDir, agentDir), {
    code: 'agent_missing',
    message: /no guest agent in /,
  });
  t.same(await readdir(dataDir), []);
});
