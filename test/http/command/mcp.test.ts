// `sandbox mcp` with an agent's client, against a daemon and guests that do harm.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { pack } from 'tar-stream';
import { covers } from '../../../client/src/mcp/scope.ts';
import { toPlain, toShownName } from '../../../client/src/mcp/tool.ts';
import { COMMAND, runCommand } from '../../support/command.ts';
import { Agent } from '../../support/mcp.ts';
import { scaled } from '../../support/time-scale.ts';
import { until } from '../../support/until.ts';
import { COMMAND_ID, McpDaemon, outputOf, SANDBOX } from './mcp-daemon.ts';

t.setTimeout(scaled(300_000));
const INFO = { id: COMMAND_ID, state: 'running', cmd: ['sh'], started_at: 't', detached: true };

async function start(t: Test, words: readonly string[] = []) {
  const daemon = await McpDaemon.start(t);
  const agent = await Agent.start(words, { SANDBOXD_HOST: daemon.url });
  t.teardown(() => agent[Symbol.asyncDispose]());
  const call = (name: string, more: Record<string, unknown> = {}, signal?: AbortSignal) =>
    agent.call(name, { sandbox: SANDBOX, ...more }, signal);
  const serveFile = (content: string | Uint8Array) =>
    daemon.on(/^GET .*\/content/, ({ response }) => response.writeHead(200, { etag: '"e"' }).end(content));
  return { daemon, agent, call, serveFile };
}

t.test('stored output is read without wait_s, and the answer is text', async (t) => {
  const { daemon, agent, call } = await start(t);
  daemon.on(/commands/, ({ json }) => json(INFO));
  daemon.on(/output/, ({ response }) => {
    setTimeout(
      () => response.end('{"seq":4,"stream":"stdout","data":"hi\\n"}\n{"seq":5,"state":"running"}\n'),
      300,
    );
  });
  t.equal((await call('read_command_output', { command: COMMAND_ID })).text, 'hi\n[running; next: from 5]');
  daemon.on(/exec/, ({ response }) => response.end(outputOf('0%\r50%\r\x1b[32mdone\x1b[0m\nä', 'why\n')));
  const input = { name: 'run_command', arguments: { sandbox: SANDBOX, command: 'x' } };
  const result = await agent.client.callTool(input);
  t.equal(result.structuredContent, undefined);
  t.match(result.content, [{ text: 'done\nä\n[stderr]\nwhy\n[exit code 0]' }]);
});

t.test('neither a chatty nor a silent command makes the server or its client deaf', async (t) => {
  const { daemon, agent } = await start(t);
  daemon.on(/commands/, ({ json }) => json(INFO));
  daemon.on(/output/, ({ response }) => {
    for (let seq = 0; seq < 20_000; seq++) response.write(`{"seq":${seq},"stream":"stdout","data":"x\\n"}\n`);
    response.end('{"seq":20000,"state":"running"}\n');
  });
  const seen: number[] = [];
  const onprogress = ({ progress }: { progress: number }) => void seen.push(progress);
  await agent.client.callTool(
    { name: 'read_command_output', arguments: { sandbox: SANDBOX, command: COMMAND_ID, wait_s: 60 } },
    { onprogress, timeout: scaled(60_000) },
  );
  t.ok(seen.length < 60, `${seen.length}`);
  daemon.on(/exec/, ({ response }) => {
    response.flushHeaders();
    setTimeout(() => response.end(outputOf('end')), 12_000);
  });
  seen.length = 0;
  await agent.client.callTool(
    { name: 'run_command', arguments: { sandbox: SANDBOX, command: 'x' } },
    { onprogress, timeout: scaled(60_000) },
  );
  // Of its end there may be one more.
  t.same(seen.slice(0, 1), [1]);
});

t.test('--tool bounds resources too', async (t) => {
  const { agent } = await start(t, ['--tool', 'create_sandbox']);
  for (const path of ['files/etc/shadow', 'logs'])
    await t.rejects(agent.client.readResource({ uri: `sandbox://${SANDBOX}/${path}` }));
  const { agent: other } = await start(t, ['--tool', 'run_command']);
  const { resourceTemplates } = await other.client.listResourceTemplates();
  t.same(
    resourceTemplates.map(({ name }) => name),
    ['logs'],
  );
});

t.test('what a cancelled or failed create or fork made is deleted', async (t) => {
  const { daemon, call } = await start(t, ['--timeout', '1h']);
  t.match((await call('fork_sandbox')).value.sandboxes, [{}, {}]);
  t.same(
    [...daemon.sandboxes.values()].slice(1).map((each) => each.timeout_s),
    [3600, 3600],
  );
  const before = daemon.sandboxes.size;
  daemon.on(/^PATCH/, ({ json }) => json({ error: 'no', code: 'invalid_request' }, 400));
  t.match(await call('fork_sandbox'), { isError: true, text: 'no' });
  t.equal(daemon.sandboxes.size, before);

  const stop = new AbortController();
  daemon.on(/^GET \/sandboxes\/sbx_\w+$/, ({ request, json }) => {
    stop.abort();
    setTimeout(() => json(daemon.sandboxes.get(request.url?.slice(11) ?? '')), 300);
  });
  await t.rejects(call('create_sandbox', { sandbox: undefined }, stop.signal));
  await until(() => daemon.asked.some((each) => each.startsWith('DELETE')), 'the end of the sandbox');
  await until(() => daemon.sandboxes.size === before, 'the end of the sandbox');
});

t.test('text files: empty ones, long lines, bytes that are no text, edits', async (t) => {
  const { daemon, call, serveFile, agent } = await start(t);
  const read = (more = {}) => call('read_file', { path: '/x', ...more });
  serveFile('');
  t.equal((await read()).text, '[empty]');
  serveFile(`a\n${'漢'.repeat(50_000)}b\nlast\n`);
  const first = await read();
  t.match(first.text, /^a\n漢+\n\[more follows: first_line 2, first_character 39998\]$/);
  t.match((await read({ first_line: 2, first_character: 39_998 })).text, /^漢{10002}b\nlast$/);
  t.match((await read({ first_line: 3 })).text, /^last$/);
  serveFile(`GIF8 is a format, GIF89a too\n`);
  t.equal((await read()).text, 'GIF8 is a format, GIF89a too');
  serveFile(Buffer.from('a\xffb', 'latin1'));
  t.match((await read()).text, /^a\ufffdb\n\[\ufffd .*not UTF-8\]$/);
  serveFile('a'.repeat(2 ** 20));
  const blow = { path: '/x', old_text: 'a', new_text: 'b'.repeat(1000), replace_all: true };
  t.match(await call('edit_file', blow), { isError: true, text: /too long/ });

  daemon.on(/^GET .*max_bytes/, ({ response }) => {
    response.end(Buffer.from(`a${'漢'.repeat(2 ** 19)}`).subarray(0, 2 ** 20));
  });
  const { contents } = await agent.client.readResource({ uri: `sandbox://${SANDBOX}/files/x` });
  t.match(contents, [{ text: /^a漢+$/ }]);
});

t.test('images are whole, or refused', async (t) => {
  const { call, serveFile } = await start(t);
  const png = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
  const gif = Buffer.from('4749463839610100010080000000000000000000', 'hex');
  const webp = Buffer.from('RIFF\x10\0\0\0WEBPVP8 \0\0\0\0', 'latin1');
  for (const [bytes, mimeType] of [
    [png, 'image/png'],
    [gif, 'image/gif'],
    [webp, 'image/webp'],
  ] as const) {
    serveFile(bytes);
    const data = bytes.toString('base64');
    t.match((await call('read_file', { path: '/x' })).content, [{ type: 'image', mimeType, data }]);
  }
  serveFile(Buffer.concat([png, Buffer.alloc(4 * 2 ** 20)]));
  t.match(await call('read_file', { path: '/x' }), { isError: true, text: /more than/ });
});

t.test('answers are bounded, whatever a guest or a daemon says', async (t) => {
  const { daemon, call, agent } = await start(t);
  const line = 'B'.repeat(30_000);
  daemon.on(/commands/, ({ json }) =>
    json({ commands: Array.from({ length: 900 }, () => ({ ...INFO, cmd: [line] })) }),
  );
  const listed = await call('list_commands');
  t.ok(listed.text.length < 48_100 && Number(listed.value.left_out) > 0, `${listed.text.length}`);
  daemon.on(/exec/, ({ response }) => response.end(outputOf('x'.repeat(500_000), 'y'.repeat(500_000))));
  const ran = (await call('run_command', { command: 'x' })).text;
  t.ok(ran.length < 48_100, `${ran.length}`);
  t.match(ran, /\[exit code 0\]$/);
  daemon.on(/exec/, ({ response }) =>
    response.end(outputOf(`/f:1:${'z'.repeat(500_000)}\n`, 'grep: /p: no\n')),
  );
  t.match(
    (await call('search_text', { path: '/', pattern: 'z' })).text,
    /^\/f:1:z{295}…\n\[problems: grep: \/p: no\]$/,
  );
  daemon.on(/exec/, ({ response }) => response.end(outputOf('/a\n/etc/shadow\0/b\0')));
  t.equal((await call('find_files', { path: '/', name: '*' })).text, '"/a\\n/etc/shadow"\n/b');
  const entries = Array.from({ length: 500 }, () => ({
    type: 'file',
    path: `/${'n'.repeat(900)}\n/x`,
    size_bytes: 1,
  }));
  daemon.on(/files/, ({ json }) => json({ entries, next_cursor: 'c' }));
  const entry = (await call('list_directory', { path: '/' })).text;
  t.ok(entry.length < 48_100, `${entry.length}`);
  t.match(entry, /^"\/n+\\n\/x" {2}1 bytes$/m);
  daemon.on(/pause/, ({ json }) => json({ error: 'E'.repeat(60_000) }, 500));
  t.ok((await call('pause_sandbox')).text.length < 3000);
  for (let count = 0; count < 300; count++) daemon.add();
  t.equal((await agent.client.listResources()).resources.length, 200);
  let offset = 0;
  const records = Array.from({ length: 500 }, () => ({ stream: 'stdout', text: 'l'.repeat(100) }));
  daemon.on(/logs/, ({ json }) => json({ records, next_offset: ++offset }));
  const { contents } = await agent.client.readResource({ uri: `sandbox://${SANDBOX}/logs` });
  t.equal((contents[0] as { text: string }).text.length, 2 ** 20);
});

t.test('arguments that do not exist, or lead elsewhere, are refused', async (t) => {
  const { daemon, call } = await start(t);
  t.match(await call('list_sandboxes', { sandbox: undefined, labels: 'x' }), {
    isError: true,
    text: /labels/,
  });
  for (const command of ['..', '.', '', 'cmd_1/../x'])
    t.match(await call('end_command', { command }), { isError: true, text: /command/ });
  t.match(await call('run_command', { command: '漢'.repeat(50_000) }), {
    isError: true,
    text: /120000 bytes/,
  });
  t.match(await call('write_file', { path: '/x', content: 'x'.repeat(2 ** 20 + 1) }), { isError: true });
  // Longer than a message of the SDK's default.
  t.match(await call('write_file', { path: '/x', content: 'x'.repeat(11 * 2 ** 20) }), { isError: true });
  t.notOk(
    daemon.asked.some((each) => !each.startsWith('GET /sandboxes?')),
    'nothing was asked',
  );
  daemon.on(/exec/, ({ body, response }) => response.end(outputOf(JSON.parse(body).cmd.join(' '))));
  t.match((await call('run_command', { command: '-x' })).text, /bash -c -- "\$0".* -x\n/);
});

t.test('a message that is too long ends the server with an error', async (t) => {
  const daemon = await McpDaemon.start(t);
  const ended = await runCommand(['mcp'], { SANDBOXD_HOST: daemon.url }, 'x'.repeat(17 * 2 ** 20));
  t.equal(ended.code, 1);
  t.match(ended.stderr, /maximum size/);
  t.equal((await runCommand(['mcp'], { SANDBOXD_HOST: daemon.url })).code, 0);
  const unusable = await runCommand(['mcp', '--tool', 'upload_file'], { SANDBOXD_HOST: daemon.url });
  t.match(unusable, { code: 2, stderr: /needs --files/ });
});

t.test('copies are bounded, leave no parts behind, and stay in the directory that was opened', async (t) => {
  const shared = await mkdtemp(join(tmpdir(), 'mcp-'));
  t.teardown(() => rm(shared, { recursive: true, force: true }));
  const { daemon, call, serveFile, agent } = await start(t, ['--files', shared, '--files-limit', '64k']);
  const download = () => call('download_file', { local_path: 'out', path: '/x' });
  const is = (type: string, size: number) =>
    daemon.on(/^GET .*\/stat/, ({ json }) => json({ type, path: '/x', size_bytes: size }));
  serveFile('x'.repeat(70_000));
  is('file', 1);
  t.match(await download(), { isError: true, text: /more than 65536 bytes/ });
  is('file', 2 ** 50);
  t.match(await download(), { isError: true, text: /more than 65536 bytes/ });
  is('directory', 0);
  daemon.on(/format=tar/, ({ response }) => {
    const archive = pack();
    archive.pipe(response);
    archive.entry({ name: 'big' }, 'x'.repeat(70_000));
    archive.finalize();
  });
  t.match(await download(), { isError: true, text: /more than 65536 bytes/ });
  await rm(join(shared, 'out'), { recursive: true });

  is('file', 5);
  serveFile('hello');
  await rename(shared, `${shared}-moved`);
  t.teardown(() => rm(`${shared}-moved`, { recursive: true, force: true }));
  t.equal((await download()).isError, false);
  t.same(await readdir(`${shared}-moved`), ['out']);

  daemon.on(/^GET .*\/content/, ({ response }) => response.writeHead(200).write('x'));
  const parts = () => readdirSync(`${shared}-moved`).filter((each) => each !== 'out');
  const broken = call('download_file', { local_path: 'second', path: '/x' }).catch(() => undefined);
  await until(() => parts().length > 0, 'the download');
  await agent.client.close();
  await broken;
  await until(() => parts().length === 0, 'the end of the part');
});

t.test('a signal ends it after its calls', async (t) => {
  const shared = await mkdtemp(join(tmpdir(), 'mcp-'));
  t.teardown(() => rm(shared, { recursive: true, force: true }));
  const daemon = await McpDaemon.start(t);
  daemon.on(/stat/, ({ json }) => json({ type: 'file', path: '/x', size_bytes: 5 }));
  daemon.on(/^GET .*\/content/, ({ response }) => response.writeHead(200).write('x'));
  const [program = '', ...first] = COMMAND;
  const child = spawn(program, [...first, 'mcp', '--files', shared], {
    env: { ...process.env, SANDBOXD_HOST: daemon.url },
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'x', version: '1' } };
  const input = { sandbox: SANDBOX, local_path: 'out', path: '/x' };
  for (const message of [
    { id: 1, method: 'initialize', params },
    { method: 'notifications/initialized' },
    { id: 2, method: 'tools/call', params: { name: 'download_file', arguments: input } },
  ])
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  await until(() => readdirSync(shared).length > 0, 'the download');
  child.kill('SIGTERM');
  await once(child, 'close');
  t.same(await readdir(shared), []);
});

t.test('the limit of sandboxes holds for creates at a time, and refuses none wrongly', async (t) => {
  const { daemon, call } = await start(t, ['--max-sandboxes', '3', '-l', 'a=b']);
  // It is listed before its create has its answer.
  daemon.on(/^POST \/sandboxes$/, ({ json, body }) => {
    const made = daemon.add(undefined, JSON.parse(body));
    setTimeout(() => json(made, 201), 300);
  });
  const all = await Promise.all(
    Array.from({ length: 5 }, () => call('create_sandbox', { sandbox: undefined })),
  );
  t.equal(all.filter(({ isError }) => !isError).length, 2);
  t.equal(daemon.sandboxes.size, 3);
});

t.test('hints of tools', async (t) => {
  const shared = await mkdtemp(join(tmpdir(), 'mcp-'));
  t.teardown(() => rm(shared, { recursive: true, force: true }));
  await writeFile(join(shared, 'x'), '');
  const { agent } = await start(t, ['--files', shared, '--network-allow', '*.x.org']);
  const { tools } = await agent.client.listTools();
  const about = new Map(tools.map(({ name, annotations }) => [name, annotations]));
  for (const name of ['write_command', 'upload_file', 'run_command', 'edit_file'])
    t.match(about.get(name), { destructiveHint: true, openWorldHint: true }, name);
  t.match(about.get('read_file'), { readOnlyHint: true, destructiveHint: false });
  for (const { inputSchema, name } of tools) t.equal(inputSchema.additionalProperties, false, name);
});

t.test('hosts, names and lines', async (t) => {
  for (const host of ['a.x.org', '*.x.org', 'A.X.org']) t.ok(covers('*.x.org', host), host);
  for (const host of ['x.org', 'a.b.x.org', '*.b.x.org', '.x.org', 'ax.org', '*.org'])
    t.notOk(covers('*.x.org', host), host);
  for (const host of ['a.x.org', 'a.b.X.org', '*.x.org', '**.x.org', '**.b.x.org'])
    t.ok(covers('**.x.org', host), host);
  for (const host of ['x.org', '.x.org', 'ax.org', '*.org', '**.org', 'a.*.x.org', 'a..x.org'])
    t.notOk(covers('**.x.org', host), host);
  t.equal(toShownName('a b'), 'a b');
  t.equal(toShownName('a\u202eb'), '"a\u202eb"');
  t.equal(toPlain('a\r\nb\rc\n\n'), 'a\r\nc\n\n');
});
