// The front for clients of E2B before a real guest, by the bytes that their SDKs send: processes, terminals, input,
// files, watches, a pause, and the end.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { symlinkSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { decode, envelope, type Json } from '../http/e2b-front.ts';
import { startDaemon } from '../support/daemon.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(300_000));

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

const port = await freePort();
await startDaemon(t, { flags: ['--e2b-listen', `127.0.0.1:${port}`] });
const url = `http://127.0.0.1:${port}`;

async function ask(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const isRaw = body instanceof FormData || body instanceof Uint8Array;
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { 'x-api-key': `e2b_${'0'.repeat(48)}`, ...headers },
    ...(body !== undefined && { body: isRaw ? body : JSON.stringify(body) }),
  } as RequestInit);
  const bytes = Buffer.from(await response.arrayBuffer());
  const isJson = response.headers.get('content-type')?.startsWith('application/json');
  return {
    status: response.status,
    bytes,
    json: (isJson ? JSON.parse(bytes.toString()) : undefined) as Json,
  };
}

const created = await ask('POST', '/v2/sandboxes', {
  templateID: 'base',
  timeout: 600,
  metadata: { a: 'b' },
  envVars: { FOO: 'bar' },
  allow_internet_access: false,
});
t.equal(created.status, 201);
const { sandboxID, envdAccessToken } = created.json;
const headers = {
  'x-access-token': envdAccessToken,
  'e2b-sandbox-id': sandboxID,
  'e2b-sandbox-port': '49983',
};

const call = (method: string, message: object) => ask('POST', `/${method}`, message, headers);
const stream = async (method: string, message: object, extra: Record<string, string> = {}) => {
  const body = new Uint8Array(envelope(message));
  const type = { 'content-type': 'application/connect+json' };
  const { bytes } = await ask('POST', `/${method}`, body, { ...headers, ...type, ...extra });
  return decode(bytes).map(({ message }) => message);
};
const toStart = (line: string, more: object = {}) => ({
  process: { cmd: '/bin/bash', args: ['-l', '-c', line] },
  stdin: false,
  ...more,
});
const run = async (line: string, more: object = {}, extra: Record<string, string> = {}) => {
  const messages = await stream('process.Process/Start', toStart(line, more), extra);
  const outputOf = (name: string): string =>
    Buffer.concat(messages.map(({ event }) => Buffer.from(event?.data?.[name] ?? '', 'base64'))).toString();
  const end = messages.find(({ event }) => event?.end)?.event.end;
  return { messages, end, stdout: outputOf('stdout'), stderr: outputOf('stderr'), pty: outputOf('pty') };
};
const pids = async (): Promise<number[]> =>
  (await call('process.Process/List', {})).json.processes.map(({ pid }: { pid: number }) => pid);

t.test('commands run with their environment, and end with their status', async (t) => {
  const done = await run('echo $FOO $HOME $PWD; echo bad >&2; exit 3');
  t.match(done, { stdout: 'bar /root /root\n', stderr: 'bad\n' });
  t.match(done.end, { exitCode: 3, exited: true, error: 'exit status 3' });
  t.match(done.messages[0], { event: { start: { pid: Number } } });
  t.same((await ask('GET', '/envs', undefined, headers)).json, { FOO: 'bar' });
  const late = await run('sleep 60', {}, { 'connect-timeout-ms': '1000' });
  t.match(late.messages.at(-1), { error: { code: 'deadline_exceeded' } });
  const missing = await stream(
    'process.Process/Start',
    toStart('true', { process: { cmd: 'true', cwd: '/nosuch' } }),
  );
  t.match(missing, [{ error: { code: 'invalid_argument' } }]);
  const screen = await run('stty size; tty', { pty: { size: { cols: 91, rows: 22 } } });
  t.match([screen.pty, screen.stdout], [/22 91\r\n\/dev\/pts/, '']);
  const long = await run('seq 200000');
  t.same([long.stdout.length, long.end], [1_288_895, { exited: true, status: 'exit status 0' }]);
});

t.test('a process outlives its client, takes input, and is found again', async (t) => {
  const left = new AbortController();
  const response = await fetch(`${url}/process.Process/Start`, {
    method: 'POST',
    signal: left.signal,
    headers: { ...headers, 'content-type': 'application/connect+json' },
    body: new Uint8Array(envelope(toStart('read a; echo got $a; read b; echo got $b', { stdin: true }))),
  });
  const reader = response.body?.getReader();
  const [first] = decode(Buffer.from((await reader?.read())?.value ?? []));
  const pid: number = first?.message.event.start.pid;
  left.abort();
  t.ok((await pids()).includes(pid), 'it runs on');
  const rest = stream('process.Process/Connect', { process: { pid } });
  await sleep(500);
  const send = (text: string) =>
    call('process.Process/SendInput', {
      process: { pid },
      input: { stdin: Buffer.from(text).toString('base64') },
    });
  t.equal((await send('one\n')).status, 200);
  t.equal((await send('two\n')).status, 200);
  const messages = await rest;
  const text = messages
    .map(({ event }) => Buffer.from(event?.data?.stdout ?? '', 'base64').toString())
    .join('');
  t.equal(text, 'got one\ngot two\n');
  t.notOk((await pids()).includes(pid));
  t.match((await send('x')).json, { code: 'not_found' });
});

t.test('files are written, listed, moved, watched and removed', async (t) => {
  const form = new FormData();
  form.append('file', new Blob(['Hello']), 'ignored');
  const written = await ask('POST', '/files?path=dir/a.txt', form, headers);
  t.match(written.json, [{ name: 'a.txt', path: '/root/dir/a.txt', type: 'file' }]);
  const read = await ask('GET', '/files?path=dir/a.txt', undefined, headers);
  t.equal(read.bytes.toString(), 'Hello');
  t.equal((await ask('GET', '/files?path=/nosuch', undefined, headers)).status, 404);
  t.equal((await ask('GET', '/files?path=/etc', undefined, headers)).status, 400);
  const filesystem = 'filesystem.Filesystem';
  t.match((await call(`${filesystem}/MakeDir`, { path: 'dir' })).json, { code: 'already_exists' });
  const { json: watcher } = await call(`${filesystem}/CreateWatcher`, { path: 'dir' });
  const again = new FormData();
  again.append('file', new Blob(['Hello']), '/root/dir/new.txt');
  await ask('POST', '/files', again, headers);
  const { json: uploaded } = await call(`${filesystem}/GetWatcherEvents`, watcher);
  t.same(
    uploaded.events.slice(0, 2).map(({ name, type }: Json) => [name, type]),
    ['CREATE', 'WRITE'].map((type) => ['new.txt', `EVENT_TYPE_${type}`]),
  );
  await call(`${filesystem}/Remove`, { path: 'dir/new.txt' });
  const moved = await call(`${filesystem}/Move`, { source: 'dir/a.txt', destination: '/root/dir/sub/b.txt' });
  t.match(moved.json.entry, { path: '/root/dir/sub/b.txt', size: '5', permissions: '-rw-r--r--' });
  await run('ln -s sub/b.txt dir/link; ln -s nowhere dir/broken');
  const { json } = await call(`${filesystem}/ListDir`, { path: 'dir', depth: 2 });
  t.match(json.entries, [
    { name: 'broken', symlinkTarget: '/root/dir/broken' },
    { name: 'link', type: 'FILE_TYPE_FILE', symlinkTarget: '/root/dir/sub/b.txt' },
    { name: 'sub', type: 'FILE_TYPE_DIRECTORY', permissions: 'drwxr-xr-x' },
    { path: '/root/dir/sub/b.txt' },
  ]);
  await sleep(500);
  const { json: seen } = await call(`${filesystem}/GetWatcherEvents`, watcher);
  t.match(seen.events.filter(({ name }: { name: string }) => name === 'sub')[0], {
    name: 'sub',
    type: 'EVENT_TYPE_CREATE',
  });
  const metadata = { 'x-metadata-Author': 'mish', 'x-metadata-purpose': 'a b' };
  const tagged = await ask('POST', '/files?path=dir/tagged', again, { ...headers, ...metadata });
  t.match(tagged.json, [{ metadata: { author: 'mish', purpose: 'a b' } }]);
  await call(`${filesystem}/Move`, { source: 'dir/tagged', destination: 'dir/moved' });
  const { json: list } = await call(`${filesystem}/ListDir`, { path: 'dir' });
  const withMetadata = list.entries.filter(({ metadata }: Json) => metadata !== undefined);
  t.match(withMetadata, [{ name: 'moved', metadata: { author: 'mish', purpose: 'a b' } }]);
  t.equal(withMetadata.length, 1);
  await ask('POST', '/files?path=dir/moved', again, headers);
  t.notOk((await call(`${filesystem}/Stat`, { path: 'dir/moved' })).json.entry.metadata);
  t.equal((await call(`${filesystem}/Remove`, { path: 'dir' })).status, 200);
  t.equal((await call(`${filesystem}/Remove`, { path: 'dir' })).status, 200, 'what is missing is removed');
  t.match((await call(`${filesystem}/Stat`, { path: 'dir' })).json, { code: 'not_found' });
});

t.test(
  'a template is built by steps, with files and a program that runs, and copies have all of it',
  async (t) => {
    const { json: ids } = await ask('POST', '/v3/templates', { name: 'built:v1' });
    const source = t.testdir({ dir: { 'a.txt': 'copied' } });
    symlinkSync('/etc/hostname', join(source, 'dir', 'link'));
    const archive = execFileSync('tar', ['-cz', '-C', source, 'dir/a.txt', 'dir/link']);
    const filesHash = createHash('sha256').update(archive).digest('hex');
    const { json: link } = await ask('GET', `/templates/${ids.templateID}/files/${filesHash}`);
    const uploaded = await fetch(link.url, { method: 'PUT', body: new Uint8Array(archive) });
    t.equal(uploaded.status, 200);
    const finish = async (made: Json, request: object): Promise<Json> => {
      const path = `/templates/${made.templateID}/builds/${made.buildID}`;
      t.equal((await ask('POST', `/v2${path}`, request)).status, 202);
      for (let tries = 0; tries < 1200; tries += 1) {
        const { json } = await ask('GET', `${path}/status`);
        if (json.status === 'ready' || json.status === 'error') return json;
        await sleep(100);
      }
      throw new Error('the build has no end');
    };
    const steps = [
      { type: 'ENV', args: ['COLOUR', 'red', 'BOTH', 'x-$HOME'] },
      { type: 'WORKDIR', args: ['/srv/app'] },
      { type: 'COPY', args: ['dir', 'in', '', '0600'], filesHash },
      { type: 'RUN', args: ['cat in/a.txt && echo $COLOUR > colour'] },
      { type: 'RUN', args: ['echo root > /root-file', 'root'] },
    ];
    const done = await finish(ids, {
      fromTemplate: 'base',
      steps,
      startCmd: 'touch /dev/shm/started; exec sleep 1000',
      readyCmd: '[ -f /dev/shm/started ]',
    });
    t.match(done, { status: 'ready' }, JSON.stringify(done.reason));
    t.ok(
      done.logEntries.some(({ message }: Json) => message === 'copied'),
      'the log has the output',
    );
    const body = {
      templateID: 'built:v1',
      timeout: 300,
      envVars: { OWN: '1' },
      allow_internet_access: false,
    };
    const { json: copy } = await ask('POST', '/v2/sandboxes', body);
    const own = {
      'x-access-token': copy.envdAccessToken,
      'e2b-sandbox-id': copy.sandboxID,
      'e2b-sandbox-port': '49983',
    };
    const line =
      'pwd; cat colour; stat -c %a in/a.txt; readlink in/link; echo $COLOUR $BOTH $OWN; ls /dev/shm/started';
    const start = new Uint8Array(envelope(toStart(line)));
    const answer = await ask('POST', '/process.Process/Start', start, own);
    const text = decode(answer.bytes)
      .map(({ message }) => Buffer.from(message.event?.data?.stdout ?? '', 'base64').toString())
      .join('');
    t.equal(text, '/srv/app\nred\n600\n/etc/hostname\nred x-/root 1\n/dev/shm/started\n');
    const listed = await ask('POST', '/process.Process/List', {}, own);
    t.match(
      listed.json.processes,
      [{ config: { args: ['-l', '-c', /sleep 1000/] } }],
      'the start command runs',
    );

    const { json: failing } = await ask('POST', '/v3/templates', { name: 'built' });
    const { reason } = await finish(failing, {
      fromTemplate: 'built:v1',
      steps: [{ type: 'RUN', args: ['ls /nosuch'] }],
    });
    t.match(reason, {
      step: '1',
      message: /failed to run command 'ls \/nosuch': exit status 2: ls: .*nosuch/,
    });
    const { json: all } = await ask('GET', '/v2/sandboxes');
    t.same(
      all.map((each: Json) => each.sandboxID).toSorted(),
      [sandboxID, copy.sandboxID].toSorted(),
      'builds leave no sandbox',
    );
    t.equal((await ask('DELETE', `/sandboxes/${copy.sandboxID}`)).status, 204);
    t.equal((await ask('DELETE', `/templates/${ids.templateID}`)).status, 204);
    t.same((await ask('GET', '/snapshots')).json, []);
  },
);

t.test('a pause keeps id, memory and processes; the end cuts streams', async (t) => {
  await run('echo kept > /dev/shm/kept');
  const staying = stream('process.Process/Start', toStart('sleep 500')).catch(() => undefined);
  await sleep(500);
  const before = await pids();
  t.equal((await ask('POST', `/sandboxes/${sandboxID}/pause`, {})).status, 204);
  await staying;
  t.equal((await ask('GET', '/health', undefined, headers)).status, 502, 'it does not wake by use');
  const woken = await ask('POST', `/v2/sandboxes/${sandboxID}/connect`, { timeout: 300 });
  t.match([woken.status, woken.json], [201, { sandboxID, envdAccessToken }]);
  t.same(await pids(), before);
  t.equal((await run('cat /dev/shm/kept')).stdout, 'kept\n');
  const port = { 'e2b-sandbox-id': sandboxID, 'e2b-sandbox-port': '3000' };
  t.match((await ask('GET', '/', undefined, port)).json, {
    code: 502,
    message: 'The sandbox is running but port is not open',
    port: 3000,
  });
  const cut = t.rejects(stream('process.Process/Start', toStart('sleep 500')), 'no end envelope');
  await sleep(500);
  t.equal((await ask('DELETE', `/sandboxes/${sandboxID}`)).status, 204);
  await cut;
  t.match((await ask('GET', '/health', undefined, headers)).json, { message: 'The sandbox was not found' });
});
