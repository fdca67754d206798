// An agent's session through `sandbox mcp`, with real guests.
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { Agent } from '../support/mcp.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(600_000));
const daemon = await startDaemon(t);
const { api } = daemon;
const env = { SANDBOXD_HOST: daemon.url };
const shared = await mkdtemp('/tmp/mcp-');
t.teardown(() => rm(shared, { recursive: true, force: true }));
const agent = await Agent.start(
  ['-l', 'agent=one', '--max-sandboxes', '3', '--timeout', '1h', '--files', shared],
  env,
);
t.teardown(() => agent[Symbol.asyncDispose]());
const { value } = await agent.call('create_sandbox', { name: 'work', env: { COLOUR: 'blue' } });
const id = String(value.id);

t.test('what is created has the labels and the lifetime of the bounds', async (t) => {
  const info = (await api.list()).find((each) => each.id === id);
  t.match(info, { name: 'work', labels: { agent: 'one' }, timeout_s: 3600 });
  t.match((await agent.call('list_sandboxes')).value, {
    sandboxes: [{ id, name: 'work' }],
    profiles: ['base'],
  });
});

t.test('commands', async (t) => {
  const run = (command: string, more: Record<string, unknown> = {}) =>
    agent.call('run_command', { sandbox: 'work', command, ...more });
  t.equal((await run('echo $COLOUR; pwd', { cwd: '/tmp' })).text, 'blue\n/tmp\n[exit code 0]');
  t.equal((await run('echo no >&2; exit 3')).text, '[stderr]\nno\n[exit code 3]');
  t.match((await run('-n')).text, /-n: (?:command )?not found/);
  t.equal((await run('cat', { stdin: 'given' })).text, 'given\n[exit code 0]');
  t.match((await run('sleep 100', { timeout_s: 1 })).text, /^\[ended after 1 s/);
  const long = await run('seq 1 100000');
  t.match(long.text, /^1\n2\n.*characters left out.*\n99999\n100000\n\[exit code 0\]$/s);
  t.ok(long.text.length < 40_000);
  const bad = await run('true', { cwd: '/nowhere' });
  t.equal(bad.isError, true);
  t.match(bad.text, /nowhere/);
  t.match(await agent.call('run_command', { sandbox: 'work' }), { isError: true, text: /command/ });
});

t.test('a command that is cancelled ends', async (t) => {
  const stop = new AbortController();
  const running = agent.call('run_command', { sandbox: id, command: 'exec sleep 4321' }, stop.signal);
  const isRunning = async () => (await api.sh(id, 'pgrep -f "sleep 432[1]" || true')) !== '';
  while (!(await isRunning()));
  stop.abort();
  await t.rejects(running);
  while (await isRunning());
});

t.test('progress is told to a client that asks', async (t) => {
  const seen: number[] = [];
  const input = { sandbox: id, command: 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done' };
  await agent.client.callTool(
    { name: 'run_command', arguments: input },
    { onprogress: ({ progress }) => seen.push(progress), timeout: 60_000 },
  );
  t.ok(seen.length > 0, `${seen.length}`);
  t.same(
    seen,
    [...seen].sort((a, b) => a - b),
  );
});

t.test('commands in the background', async (t) => {
  const line = 'echo one; read x; echo got $x; sleep 1000';
  const { value } = await agent.call('start_command', { sandbox: id, command: line, stdin: true });
  const command = String(value.command);
  const begun = { sandbox: id, command, wait_s: 60, wait_for: 'output' };
  const first = await agent.call('read_command_output', begun);
  t.match(first.text, /^one\n\[running; next: from (\d+)\]$/);
  const more = { sandbox: id, command, wait_s: 2 };
  t.equal((await agent.call('read_command_output', more)).text, first.text);
  t.equal((await agent.call('read_command_output', { sandbox: id, command })).text, first.text);
  await agent.call('write_command', { sandbox: id, command, input: 'this\n' });
  const from = Number(/from (\d+)/.exec(first.text)?.[1]);
  const input = { sandbox: id, command, from, wait_s: 60, wait_for: 'output' };
  t.match((await agent.call('read_command_output', input)).text, /^got this\n\[running; /);
  const listed = (await agent.call('list_commands', { sandbox: id })).value.commands as { command: string }[];
  t.match(listed.at(-1), { command, state: 'running', line });
  t.match((await agent.call('end_command', { sandbox: id, command })).value, {
    state: 'exited',
    signal: 'SIGTERM',
  });
});

t.test('files', async (t) => {
  const path = '/srv/a b/code.py';
  const call = (name: string, more: Record<string, unknown>) => agent.call(name, { sandbox: id, ...more });
  await call('write_file', { path, content: 'one\ntwo\r\ntwo\n' });
  t.equal((await call('read_file', { path })).text, 'one\ntwo\r\ntwo');
  t.match(await call('write_file', { path, content: 'x', is_new: true }), { isError: true });
  t.match(await call('edit_file', { path, old_text: 'three', new_text: 'x' }), {
    isError: true,
    text: /is not in/,
  });
  t.match(await call('edit_file', { path, old_text: 'two', new_text: 'x' }), {
    isError: true,
    text: /2 times/,
  });
  t.equal((await call('edit_file', { path, old_text: 'one', new_text: '$&' })).isError, false);
  await call('edit_file', { path, old_text: 'two', new_text: 'three', replace_all: true });
  t.match(
    await api.sh(id, `od -c "${path}" `),
    /^0000000 +\$ +& +.n +t +h +r +e +e +.r +.n +t +h +r +e +e +.n/,
  );
  t.match(await call('read_file', { path, first_line: 2, lines: 1 }), {
    text: 'three\r\n[more follows: first_line 3]',
  });
  t.equal(
    (await call('search_text', { path: '/srv', pattern: 'thr?ee', files: '*.py' })).text.split('\n').length,
    2,
  );
  await api.sh(id, 'mkdir -p /srv/.git/x; echo three > /srv/.git/x/a.py; touch "/srv/c\nd.py"');
  t.notMatch((await call('search_text', { path: '/srv', pattern: 'three' })).text, /git/);
  t.equal(
    (await call('search_text', { path: '/srv/.git/', pattern: 'three' })).text,
    '/srv/.git/x/a.py:1:three',
  );
  t.match(await call('search_text', { path: '/srv', pattern: '(' }), { isError: true, text: /grep/ });
  t.match(await call('search_text', { path: '/nowhere', pattern: 'x' }), { isError: true, text: /nowhere/ });
  t.match((await call('find_files', { path: '/srv', name: 'c*' })).text, /^"\/srv\/c\\nd.py"$/m);
  await api.sh(id, 'rm /srv/c*d.py');
  t.equal((await call('search_text', { path: '/srv', pattern: 'nothing' })).text, '[nothing found]');
  t.equal((await call('find_files', { path: '/srv', name: 'code*' })).text, path);
  t.match(await call('find_files', { path: '-delete', name: '*' }), { isError: true });
  t.match((await call('list_directory', { path: '/srv', depth: 2 })).text, `/srv/a b/\n${path}  `);
  t.match(await call('read_file', { path: '/srv' }), { isError: true });
  await api.sh(
    id,
    'printf "\\211PNG\\r\\n\\032\\n\\0\\0\\0\\rIHDR" > /srv/i.png; : > /srv/empty; printf "a\\0b" > /srv/b',
  );
  t.match((await call('read_file', { path: '/srv/i.png' })).content, [
    { type: 'image', mimeType: 'image/png' },
  ]);
  t.equal((await call('read_file', { path: '/srv/empty' })).text, '[empty]');
  t.match(await call('read_file', { path: '/srv/b' }), { isError: true, text: /is not text/ });
});

t.test('copies stay in the shared directory', async (t) => {
  await writeFile(join(shared, 'in.txt'), 'here');
  await mkdir(join(shared, 'tree/sub'), { recursive: true });
  await writeFile(join(shared, 'tree/sub/x'), 'x');
  const call = (name: string, local_path: string, path: string) =>
    agent.call(name, { sandbox: id, local_path, path });
  await call('upload_file', 'in.txt', '/root/to.txt');
  await call('upload_file', 'tree', '/root/tree');
  t.equal(await api.sh(id, 'cat /root/to.txt /root/tree/sub/x'), 'herex');
  await call('download_file', 'new/out.txt', '/root/to.txt');
  t.equal(await readFile(join(shared, 'new/out.txt'), 'utf8'), 'here');
  await call('download_file', 'back', '/root/tree');
  t.equal(await readFile(join(shared, 'back/sub/x'), 'utf8'), 'x');

  // What a guest can make: links out of the directory.
  await symlink('/etc', join(shared, 'etc'));
  await symlink('/etc/hostname', join(shared, 'hostname'));
  for (const path of ['../x', '/etc/passwd', 'etc/hostname', 'hostname', 'etc'])
    t.equal((await call('upload_file', path, '/root/stolen')).isError, true, path);
  for (const path of ['../x', '/tmp/x', 'etc/x', '.'])
    t.equal((await call('download_file', path, '/root/to.txt')).isError, true, path);
  t.equal(await api.sh(id, 'ls /root/stolen 2>&1 | grep -c "No such"'), '1');
});

t.test('back to a snapshot, forks, sleep', async (t) => {
  await agent.call('run_command', { sandbox: id, command: 'echo before > /root/state' });
  const made = await agent.call('create_snapshot', { sandbox: id, name: 'good', comment: 'before' });
  t.match(made.value, { name: 'good', sandbox: id });
  await agent.call('run_command', { sandbox: id, command: 'echo after > /root/state' });
  const forked = await agent.call('fork_sandbox', { snapshot: 'good', name: 'copy' });
  t.match(forked.value.sandboxes, [{ name: 'copy', labels: { agent: 'one' } }]);
  t.equal(
    (await agent.call('run_command', { sandbox: 'copy', command: 'cat /root/state' })).text,
    'before\n[exit code 0]',
  );
  t.match(await agent.call('fork_sandbox', { sandbox: id, count: 2 }), {
    isError: true,
    text: /3 sandboxes/,
  });
  t.equal((await agent.call('rollback_sandbox', { sandbox: id, snapshot: 'good' })).value.id, id);
  t.equal((await agent.call('read_file', { sandbox: id, path: '/root/state' })).text, 'before');
  t.equal((await agent.call('pause_sandbox', { sandbox: 'copy' })).value.state, 'paused');
  t.equal(
    (await agent.call('run_command', { sandbox: 'copy', command: 'hostname >/dev/null; echo up' })).text,
    'up\n[exit code 0]',
  );
  await agent.call('delete_sandbox', { sandbox: 'copy' });
  t.match((await agent.call('list_snapshots')).value.snapshots, [{ name: 'good' }]);
  await agent.call('delete_snapshot', { snapshot: 'good' });
});

t.test('resources', async (t) => {
  const { resources } = await agent.client.listResources();
  t.match(resources, [{ uri: `sandbox://${id}/logs` }]);
  const file = await agent.client.readResource({ uri: `sandbox://${id}/files/srv/a%20b/code.py` });
  t.match(file.contents, [{ text: /three/ }]);
  const log = await agent.client.readResource({ uri: `sandbox://${id}/logs` });
  t.equal(typeof (log.contents[0] as { text: string }).text, 'string');
});

t.test('what is outside of the bounds cannot be reached', async (t) => {
  const other = await api.create({ name: 'other' });
  const snapshot = await api.ask('takeSnapshot', { params: { id: other.id }, body: { name: 'theirs' } });
  for (const sandbox of ['other', other.id]) {
    for (const [name, more] of [
      ['run_command', { command: 'true' }],
      ['read_file', { path: '/etc/passwd' }],
      ['delete_sandbox', {}],
      ['fork_sandbox', {}],
      ['create_snapshot', {}],
      ['pause_sandbox', {}],
    ] as const)
      t.match(await agent.call(name, { sandbox, ...more }), { isError: true, text: /there is no/ }, name);
  }
  for (const word of ['theirs', snapshot.id])
    t.match(await agent.call('fork_sandbox', { snapshot: word }), { isError: true, text: /there is no/ });
  t.match(await agent.call('rollback_sandbox', { sandbox: id, snapshot: snapshot.id }), { isError: true });
  t.match(await agent.call('create_sandbox', { hosts: ['example.com'] }), {
    isError: true,
    text: /not allowed/,
  });
  t.match(await agent.call('create_sandbox', { lifetime_s: 3601 }), { isError: true, text: /1 to 3600/ });
  t.equal((await api.list()).length, 2);
  await api.delete(other.id);
  await api.ask('deleteSnapshot', { params: { id: snapshot.id } });
});

t.test('over HTTP, in the daemon itself', async (t) => {
  await using remote = await Agent.over(daemon.url, undefined, '?label=agent=one&profile=base');
  const input = { sandbox: 'work', command: 'cat; seq 1 20000; echo over >&2', stdin: 'given\n' };
  const { text, isError } = await remote.call('run_command', input);
  t.equal(isError, false, text);
  t.match(text, /^given\n1\n2\n.*\n20000\n\[stderr\]\nover\n\[exit code 0\]$/s);
  const file = { sandbox: id, path: '/root/remote.txt' };
  t.equal((await remote.call('write_file', { ...file, content: 'x'.repeat(900_000) })).isError, false);
  t.match((await remote.call('read_file', file)).text, /^x+/);
  const started = await remote.call('start_command', { sandbox: id, command: 'echo one; sleep 1; echo two' });
  const { command } = started.value;
  const output = await remote.call('read_command_output', { sandbox: id, command, wait_s: 60 });
  t.match(output.text, /^one\ntwo\n\[exited|^one\ntwo\n\[exit/);
  const isRunning = async () => (await api.sh(id, 'pgrep -f "sleep 543[2]" || true')) !== '';
  const stop = new AbortController();
  const running = remote.call('run_command', { sandbox: id, command: 'sleep 5432' }, stop.signal);
  running.catch(() => undefined);
  while (!(await isRunning()));
  stop.abort();
  while (await isRunning());
});

t.test('the end of its client ends the server, and no sandbox', async (t) => {
  await using narrow = await Agent.start(['--profile', 'none', '--tool', 'create_sandbox'], env);
  t.same(
    (await narrow.client.listTools()).tools.map(({ name }) => name),
    ['create_sandbox'],
  );
  t.match(await narrow.call('create_sandbox', { profile: 'base' }), {
    isError: true,
    text: /allowed here: none/,
  });
  t.match(await narrow.call('create_sandbox', { image: 'debian:12' }), {
    isError: true,
    text: /not allowed/,
  });
  await narrow.client.close();
  t.equal((await api.list()).length, 1);
  await api.delete(id);
});
