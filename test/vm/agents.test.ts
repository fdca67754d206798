// The agents of docs/examples with a scripted model and real guests, and a long session of an agent.
import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { Agent } from '../support/mcp.ts';
import { SCRIPT, ScriptedModel, type Turn, toTurn } from '../support/scripted-model.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const EXAMPLES = resolve(import.meta.dirname, '../../docs/examples');
const daemon = await startDaemon(t);
const { api } = daemon;

async function runExample(t: Test, file: string, script: readonly Turn[]) {
  const model = new ScriptedModel(script);
  t.teardown(() => model.close());
  const env = {
    ...process.env,
    SANDBOXD_HOST: daemon.url,
    OPENAI_BASE_URL: await model.listen(),
    OPENAI_API_KEY: 'none',
    MODEL: 'scripted',
  };
  const task = ['add', '40', 'and', '2'];
  const { stdout } = await promisify(execFile)(process.execPath, [resolve(EXAMPLES, file), ...task], { env });
  t.equal(model.requests.length, script.length + 1);
  t.match(model.requests[0], {
    model: 'scripted',
    messages: [{ role: 'system' }, { content: task.join(' ') }],
  });
  t.same(await api.list(), [], 'its sandboxes are deleted');
  return { stdout, results: model.results, model };
}

t.test('the example with the library', async (t) => {
  const { stdout, results } = await runExample(t, 'agent.ts', SCRIPT);
  t.equal(stdout, 'sum: 42\n\n[exit code 0]\n');
  t.match(results, [
    'written',
    /^error: .*JSON/,
    'there is no tool format_disk',
    /No such.*\[exit code 2\]/s,
  ]);
});

t.test('the example with MCP', async (t) => {
  const script = [
    toTurn('create_sandbox', { name: 'calc' }),
    toTurn('write_file', { sandbox: 'calc', path: '/tmp/sum.sh', content: 'echo "sum: $(($1 + $2))"\n' }),
    { name: 'run_command', arguments: '{"command": ' },
    toTurn('format_disk', {}),
    toTurn('create_sandbox', { hosts: ['example.com'] }),
    toTurn('run_command', { sandbox: 'calc', command: 'sh /tmp/sum.sh 40 2' }),
  ];
  const { stdout, results, model } = await runExample(t, 'agent-mcp.ts', script);
  t.equal(stdout, 'sum: 42\n[exit code 0]\n');
  t.match(results, [/"name":"calc"/, /./, /^error: .*JSON/, /format_disk/, /not allowed/]);
  const names = model.requests[0]?.tools.map((tool) => tool.function.name) ?? [];
  t.ok(names.includes('edit_file') && !names.includes('upload_file'));
});

// Every answer is compared with what a model of the sandbox's files says.
t.test('a session of 200 calls', async (t) => {
  await using agent = await Agent.over(daemon.url, undefined, '?label=agent=long&max_sandboxes=2');
  let calls = 0;
  const call = async (name: string, input: Record<string, unknown> = {}): Promise<string> => {
    calls++;
    const { text, isError } = await agent.call(name, { sandbox: 'long', ...input });
    if (isError) throw new Error(`${name}: ${text}`);
    return text;
  };
  t.match((await agent.call('create_sandbox', { name: 'long' })).value, { name: 'long' });
  const files = new Map<string, string>();
  const [path, from] = ['/srv/app/main.txt', '/srv/app/step'];
  const useCommands = async (round: number) => {
    t.equal(await call('run_command', { command: `cat ${path}` }), `version ${round}\n[exit code 0]`);
    t.match(await call('run_command', { command: `exit ${round}` }), `[exit code ${round}]`);
    t.equal((await call('find_files', { path: '/srv/app', name: '*.txt' })).split('\n').length, files.size);
    const found = await call('search_text', { path: '/srv/app', pattern: `step ${round}$` });
    t.equal(found, `${from}-${round}.txt:1:step ${round}`);
  };
  for (let round = 0; round < 24; round++) {
    files.set(`${from}-${round}.txt`, `step ${round}\n`);
    await call('write_file', { path: `${from}-${round}.txt`, content: `step ${round}\n` });
    if (round === 0) {
      files.set(path, 'version 0\n');
      await call('write_file', { path, content: 'version 0\n' });
    } else {
      files.set(path, `version ${round}\n`);
      await call('edit_file', { path, old_text: `version ${round - 1}`, new_text: `version ${round}` });
    }
    t.equal(await call('read_file', { path }), `version ${round}`);
    t.equal(await call('read_file', { path: `${from}-${round}.txt` }), `step ${round}`);
    t.equal((await call('list_directory', { path: '/srv/app' })).split('\n').length, files.size);
    await call('write_file', { path: '/srv/scratch', content: 'x'.repeat(round * 1000) });
    t.match(await call('read_file', { path: '/srv/scratch' }), /^x*$|^\[empty\]$/);
    t.match(JSON.parse(await call('list_sandboxes', { sandbox: undefined })).sandboxes, [{ name: 'long' }]);
    if (round % 5 === 0) await useCommands(round);
    if (round === 9) await call('create_snapshot', { name: 'tenth' });
  }
  t.ok(calls >= 200, `${calls}`);
  await call('rollback_sandbox', { snapshot: 'tenth' });
  t.equal(await call('read_file', { path }), 'version 9');
  t.equal((await call('find_files', { path: '/srv/app', name: '*.txt' })).split('\n').length, 11);
  await agent.call('delete_snapshot', { snapshot: 'tenth' });
  await call('delete_sandbox');
  t.same(await api.list(), []);
});
