// The command in a pipe: each verb, exit codes, what a program can read.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { buffer, text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { pack } from 'tar-stream';
import { AppError } from '../../../host-agent/src/lib/errors.ts';
import { COMMAND, Running, runCommand } from '../../support/command.ts';
import { until } from '../../support/until.ts';
import { serveCat } from '../cat.ts';
import { type FakeExec, outflow } from '../fake-sandboxes.ts';
import { serve, UNKNOWN_ID } from '../support.ts';

t.setTimeout(120_000);

async function connect(t: Test, script?: (exec: FakeExec) => void) {
  const served = await serve(t);
  if (script) served.sandboxes.script = script;
  const { id } = served.sandboxes.add();
  const env = { SANDBOXD_HOST: served.url, XDG_CONFIG_HOME: t.testdir({}) };
  return {
    ...served,
    id,
    env,
    run: (words: readonly string[], input?: string) => runCommand(words, env, input),
  };
}

t.test('sandboxes are listed, inspected and removed', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  const table = await run(['ps']);
  t.match(table, { code: 0, stderr: '' });
  t.match(table.stdout, /^SANDBOX +NAME +STATE +FROM +CPUS +MEMORY +CREATED +PORTS\n/);
  t.match(table.stdout, new RegExp(`^${id} +running +base   1 +512 MiB`, 'm'));
  t.notMatch(table.stdout, '\x1b', 'no colours in a pipe');
  t.same(JSON.parse((await run(['ps', '--json'])).stdout)[0].id, id);
  t.equal((await run(['ps', '-q'])).stdout, `${id}\n`);
  t.same(JSON.parse((await run(['inspect', id])).stdout)[0].id, id);
  const other = sandboxes.add().id;
  t.match(await run(['rm', UNKNOWN_ID, other]), { code: 1, stdout: `${other}\n`, stderr: /does not exist/ });
  t.match(await run(['rm', '-a']), { code: 0, stdout: `${id}\n` });
  t.same(sandboxes.list(), []);
});

t.test('run creates a sandbox as its flags say, runs a command, and removes it again', async (t) => {
  const { run, sandboxes } = await connect(t, (exec) => {
    exec.output('stdout', 'out\n');
    exec.output('stderr', 'err\n');
    exec.exit({ exitCode: 3 });
  });
  const words = [
    'run',
    '--rm',
    '-m',
    '1g',
    '--cpus=2',
    '--timeout',
    '10m',
    '-e',
    'A=b',
    '-w/tmp',
    '-u',
    'nobody',
    'base',
    'make',
    '-j',
    '--rm',
  ];
  t.same(await run(words), { code: 3, stdout: 'out\n', stderr: 'err\n' });
  t.match(sandboxes.created[0], { memoryMib: 1024, vcpus: 2, timeoutS: 600, rootfs: { name: 'base' } });
  t.same(sandboxes.created[0]?.env, { A: 'b' }, 'the variables are those of the sandbox');
  t.match(sandboxes.execs[0]?.request, {
    cmd: ['make', '-j', '--rm'],
    env: {},
    cwd: '/tmp',
    user: 'nobody',
  });
  t.equal(sandboxes.list().length, 1, 'only the other one is left');
  const kept = await run(['run', 'base']);
  t.match(kept, { code: 0, stdout: /^sbx_\w{13}\n$/ });
  t.equal(sandboxes.list().length, 2);
  t.match(await run(['run', 'nosuch', 'x']), {
    code: 1,
    stderr: /there is no profile nosuch; there are base/,
  });
  t.match(await run(['run', '--memory', 'lots', 'base']), {
    code: 2,
    stderr: /--memory must be a size such as 512m/,
  });
});

t.test('the exit code says how a command ended', async (t) => {
  const ends: [Parameters<FakeExec['exit']>[0], number][] = [
    [{ exitCode: 0 }, 0],
    [{ exitCode: 42 }, 42],
    [{ exitCode: -1, signal: 'SIGKILL' }, 137],
    [{ exitCode: -1, signal: 'SIGTERM' }, 143],
    [{ exitCode: -1, signal: 'SIGKILL', timedOut: true }, 124],
    [{ exitCode: -1, error: 'command not found: "x" is not in PATH' }, 127],
    [{ exitCode: -1, error: 'permission denied' }, 126],
  ];
  let next: Parameters<FakeExec['exit']>[0];
  const { run, id } = await connect(t, (exec) => exec.exit(next));
  for (const [end, code] of ends) {
    next = end;
    t.match(await run(['exec', id, 'x']), { code }, JSON.stringify(end));
  }
  const unknown = await run(['exec', UNKNOWN_ID, 'x']);
  t.match(unknown, { code: 1, stderr: `sandbox: sandbox ${UNKNOWN_ID} does not exist\n` });
});

t.test('input goes to the command with -i, and ends when it does', async (t) => {
  const { url, id } = await serveCat(t);
  const env = { SANDBOXD_HOST: url };
  const text = 'x'.repeat(300_000);
  t.match(await runCommand(['exec', '-i', id, 'cat'], env, text), { code: 4, stdout: text });
  t.match(await runCommand(['exec', id, 'cat'], env, text), { code: 4, stdout: '' });
  t.match(await runCommand(['exec', '-it', id, 'cat'], env, text), {
    code: 2,
    stderr: /-t needs a terminal/,
  });
});

t.test('the first Ctrl-C goes to the command, the second leaves nothing behind', async (t) => {
  const { sandboxes, env, id } = await connect(t, (exec) => exec.output('stdout', 'begun'));
  const running = new Running(['run', '--rm', 'base', 'sleep', '9'], env);
  await until(() => sandboxes.execs.length === 1, 'the command');
  const exec = sandboxes.execs[0];
  running.child.kill('SIGINT');
  await until(() => exec?.calls.includes('signal SIGINT') === true, 'its signal');
  t.notOk(exec?.isCancelled);
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 130 });
  t.ok(exec?.isCancelled);
  t.same(
    sandboxes.list().map((each) => each.id),
    [id],
    'the sandbox of --rm is gone',
  );
});

t.test('Ctrl-C while a sandbox is created rolls it back', async (t) => {
  const { sandboxes, env } = await connect(t);
  let isCancelled = false;
  sandboxes.onCreate = (_, signal) =>
    new Promise((_, reject) =>
      signal?.addEventListener('abort', () => {
        isCancelled = true;
        reject(new AppError('cancelled', 'left'));
      }),
    );
  const running = new Running(['run', 'base', 'true'], env);
  await until(() => sandboxes.created.length === 1, 'the create');
  running.child.kill('SIGINT');
  t.match(await running.ended, { code: 130, stdout: '' });
  await until(() => isCancelled, 'the daemon to notice');
});

t.test('snapshots and forks', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  const taken = (await run(['snapshot', id])).stdout.trim();
  t.match(taken, /^snap_/);
  t.match((await run(['snapshots'])).stdout, new RegExp(`^${taken}   ${id}`, 'm'));
  t.match(await run(['fork', '-n', '3', taken]), { stdout: /^(sbx_\w+\n){3}$/ });
  t.match(await run(['fork', id]), { code: 0, stdout: /^sbx_\w+\n$/ });
  t.same([...sandboxes.snapshots.keys()], [taken], 'a fork of a sandbox leaves no snapshot');
  await run(['fork', '--name', 'a', '--name', 'b', id]);
  t.match(sandboxes.forked.at(-1), { children: [{ name: 'a' }, { name: 'b' }] });
  t.match(await run(['rm', taken]), { code: 0 });
});

t.test('files and directories go in, as Docker’s cp has it', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  const pushed: [string, number][] = [];
  sandboxes.onPush = async (path, read) => {
    let bytes = 0;
    for (let part = await read(); part !== undefined; part = await read()) bytes += part.length;
    pushed.push([path, bytes]);
    return { files: 1, bytes };
  };
  sandboxes.onPull = async (path) => {
    if (path === '/srv') throw new AppError('invalid_argument', '"/srv" is a directory; format=tar gives it');
    throw new AppError('not_found', `there is no ${path}`);
  };
  const dir = t.testdir({ 'a.txt': 'text', d: { one: '1' } });
  const into = async (from: string, to: string) => {
    t.match(await run(['cp', `${dir}/${from}`, `${id}:${to}`]), { code: 0 }, `${from} ${to}`);
    return pushed.at(-1)?.[0];
  };
  t.equal(await into('a.txt', '/srv'), '/srv', 'a file into a directory that is there');
  t.equal(await into('a.txt', '/new/b.txt'), '/new', 'a file under a name');
  t.equal(await into('d', '/srv'), '/srv/d', 'a directory into one that is there');
  t.equal(await into('d', '/fresh'), '/fresh', 'a directory that becomes the target');
  t.equal(await into('d/.', '/srv'), '/srv', 'its contents');
  const archive = pack();
  archive.entry({ name: 'x' }, 'y');
  archive.finalize();
  t.match(await run(['cp', '-', `${id}:/any`], (await buffer(archive)).toString('latin1')), { code: 0 });
  t.equal(pushed.at(-1)?.[0], '/any');
  t.match(await run(['cp', 'a', 'b']), { code: 2, stderr: /one of source and target/ });
  t.match(await run(['cp', join(dir, 'nosuch'), `${id}:/srv`]), { code: 1, stderr: /^sandbox: ENOENT/ });
});

t.test('files and directories come out, whole or not at all', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  const archive = pack();
  archive.entry({ name: 'one' }, 'content');
  archive.finalize();
  const tar = await buffer(archive);
  sandboxes.onPull = async (path, maxBytes) => {
    if (path === '/cut') return { sizeBytes: 9, contentBytes: 9, body: outflow('part', new Error('lost')) };
    if (path !== '/dir') return { sizeBytes: 4, contentBytes: 4, body: outflow('text') };
    if (maxBytes !== undefined) throw new AppError('invalid_argument', '/dir is a directory');
    return { body: outflow(tar) };
  };
  const dir = t.testdir({ here: {} });
  const out = (from: string, to: string) => run(['cp', `${id}:${from}`, join(dir, to)]);
  t.match(await out('/a.txt', 'b.txt'), { code: 0 });
  t.equal(readFileSync(join(dir, 'b.txt'), 'utf8'), 'text');
  await out('/a.txt', 'here');
  t.equal(readFileSync(join(dir, 'here/a.txt'), 'utf8'), 'text');
  await out('/dir', 'here');
  t.equal(readFileSync(join(dir, 'here/dir/one'), 'utf8'), 'content');
  await out('/dir', 'fresh');
  t.equal(readFileSync(join(dir, 'fresh/one'), 'utf8'), 'content');
  t.match(await out('/cut', 'cut'), { code: 1 });
  t.throws(() => statSync(join(dir, 'cut')), { code: 'ENOENT' });
  const { stdout } = await run(['cp', `${id}:/dir`, '-']);
  t.equal(stdout, tar.toString());
});

t.test('contexts are kept for their owner alone; variables and flags win over them', async (t) => {
  const { url, id } = await serve(t).then((served) => ({ url: served.url, id: served.sandboxes.add().id }));
  const home = t.testdir({});
  const env = { XDG_CONFIG_HOME: home, SANDBOXD_HOST: '', SANDBOXD_API_KEY: '' };
  const run = (words: readonly string[], input?: string) => runCommand(words, env, input);
  t.match(
    await run(['context', 'set', 'far', '--host', 'http://127.0.0.1:1', '--key', '-'], 'sbk_secret\n'),
    { code: 0 },
  );
  t.match(await run(['context', 'set', 'near', '--host', url]), { code: 0 });
  const path = join(home, 'sandbox/contexts.json');
  t.equal(statSync(path).mode & 0o777, 0o600);
  t.match(JSON.parse(readFileSync(path, 'utf8')), {
    current: 'far',
    contexts: { far: { apiKey: 'sbk_secret' } },
  });
  const listed = (await run(['context'])).stdout;
  t.match(listed, /^\* far +http:\/\/127.0.0.1:1 +set$/m);
  t.notMatch(listed, 'sbk_secret');
  t.match(await run(['ps', '-q']), { code: 1, stderr: /127.0.0.1:1/ });
  t.match(await run(['ps', '-q', '--context', 'near']), { code: 0, stdout: `${id}\n` });
  t.match(await run(['ps', '-q', '--host', url]), { code: 0, stdout: `${id}\n` });
  t.match(await runCommand(['ps', '-q'], { ...env, SANDBOXD_HOST: url }), { code: 0, stdout: `${id}\n` });
  await run(['context', 'use', 'near']);
  t.match(await run(['ps', '-q']), { code: 0, stdout: `${id}\n` });
  await run(['context', 'rm', 'near']);
  t.match(await run(['context', 'use', 'near']), { code: 2, stderr: /there is no context "near"/ });
  writeFileSync(path, 'broken');
  t.match(await run(['ps']), { code: 1, stderr: /contexts.json cannot be read/ });
  mkdirSync(join(home, 'x'));
});

t.test('versions, images that are off, and a reader that leaves', async (t) => {
  const { run, env, sandboxes, id } = await connect(t);
  t.match(await run(['version']), { code: 0, stdout: /^command +\d.*\ndaemon .*interface 0\.3\.4\n$/ });
  t.match(await run(['images']), { code: 0, stdout: /^base +profile/m });
  t.match(await run(['pull', 'nginx']), { code: 1, stderr: /image support is not enabled/ });
  sandboxes.script = (exec) => {
    const go = () => {
      if (!exec.isCancelled) exec.output('stdout', 'y\n'.repeat(1000));
      exec.once('consumed', () => setImmediate(go));
    };
    go();
  };
  const running = new Running(['exec', id, 'yes'], env);
  await new Promise((resolve) => running.child.stdout?.once('data', resolve));
  running.child.stdout?.destroy();
  t.match(await running.ended, { code: 141, stderr: '' });
  await until(() => sandboxes.execs[0]?.isCancelled === true, 'the end of the command');
});

t.test('snapshots are exported into a file or a pipe, and imported from either', async (t) => {
  const { run, id, sandboxes } = await connect(t);
  const { id: snapshot } = await sandboxes.snapshot(id);
  const file = join(t.testdir({}), 'work.snap');
  t.match(await run(['export', '-o', file, snapshot]), { code: 0, stdout: '' });
  t.equal(readFileSync(file, 'utf8'), `archive of ${snapshot}`);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.equal((await run(['import', file])).stdout, `${snapshot}\n`);
  const { stdout } = await run(['export', snapshot]);
  t.equal(stdout, `archive of ${snapshot}`);
  t.equal((await run(['import', '--disk-only', '-'], stdout)).stdout, `${snapshot}\n`);
  t.same(sandboxes.imports, [{ isDiskOnly: false }, { isDiskOnly: true }]);
  t.match(await run(['import', '-'], 'nonsense'), { code: 1, stderr: /no archive/ });
  t.match(await run(['import', join(file, 'none')]), { code: 1, stderr: /ENOTDIR/ });
  const none = join(t.testdir({}), 'none');
  t.match(await run(['export', '-o', none, 'snap_0000000000000']), { code: 1, stderr: /does not exist/ });
  t.notOk(existsSync(none));
});

t.test('an output that cannot be written is reported as a failure', async (t) => {
  const { run, env, id } = await connect(t, (exec) => {
    exec.output('stdout', 'x'.repeat(100_000));
    exec.exit();
  });
  for (const words of [['ps'], ['exec', id, 'x'], ['--help'], ['inspect', id]]) {
    const shell = spawn('sh', ['-c', 'exec "$@" >/dev/full', 'sh', ...COMMAND, ...words], {
      env: { ...process.env, ...env },
    });
    const [code, stderr] = await Promise.all([once(shell, 'close'), text(shell.stderr)]);
    t.same(code, [1, null], words.join(' '));
    t.equal(stderr, 'sandbox: the output cannot be written: ENOSPC: no space left on device, write\n');
  }
  t.match(await run(['cp', `${id}:/a`, '/dev/null/x']), { code: 1, stderr: /^sandbox: [^\n]+\n$/ });
});

t.test('a missing home, or one that is not a directory, has no contexts', async (t) => {
  const { url } = await serve(t);
  for (const home of ['/nonexistent', '/dev/null']) {
    const env = { HOME: home, XDG_CONFIG_HOME: '', SANDBOXD_HOST: '', SANDBOXD_API_KEY: '' };
    t.match(await runCommand(['--host', url, 'ps'], env), { code: 0 });
    t.same(await runCommand(['context'], env), { code: 0, stdout: '  NAME   HOST   KEY   CA\n', stderr: '' });
  }
  const env = { HOME: '/dev/null', XDG_CONFIG_HOME: '', SANDBOXD_HOST: '' };
  t.match(await runCommand(['context', 'set', 'x', '--host', url], env), {
    code: 1,
    stderr: /^sandbox: ENOTDIR: [^\n]*\n$/,
  });
});

t.test('standard streams that are closed, and words in no order', async (t) => {
  const { env, run, id, sandboxes } = await connect(t, (exec) => exec.exit());
  for (const closing of ['<&-', '>&-', '2>&-', '<&- >&- 2>&-']) {
    const shell = spawn('sh', ['-c', `exec "$@" ${closing}`, 'sh', ...COMMAND, 'exec', '-i', id, 'x'], {
      env: { ...process.env, ...env },
    });
    t.same(await once(shell, 'close'), [0, null], closing);
  }
  const long = 'y'.repeat(100_000);
  t.match(await run(['exec', id, 'echo', long]), { code: 0 });
  t.equal(sandboxes.execs.at(-1)?.request.cmd[1], long);
  t.match(await run(['run', '']), { code: 2, stderr: /one of the arguments is empty/ });
  for (const words of [['inspect', long], ['--context', long, 'ps'], [long]]) {
    const { stderr } = await run(words);
    t.match(stderr, /^sandbox: [^\n]+\n$/);
  }
});
