// Ports through the library and the command, joined to a server of this process in place of a guest.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import t, { type Test } from 'tap';
import { Client } from '../../../client/src/index.ts';
import { COMMAND } from '../../support/command.ts';
import { until } from '../../support/until.ts';
import { serve } from '../support.ts';

t.setTimeout(120_000);

/** A guest whose server answers all input once that has ended. */
async function serveEcho(t: Test) {
  const { url, sandboxes } = await serve(t);
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    let got = '';
    socket.on('error', () => undefined);
    socket.on('data', (chunk) => {
      got += chunk;
    });
    socket.on('end', () => socket.end(`got ${got}`));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as { port: number };
  const { onConnect } = sandboxes;
  sandboxes.onConnect = async (guestPort, options) => {
    if (guestPort !== 80) return onConnect(guestPort, options);
    const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
    return Object.assign(socket, { port: guestPort, reset: () => void socket.resetAndDestroy() }) as never;
  };
  return { url, id: sandboxes.add().id };
}

t.test('the library connects, and opens and closes ports', async (t) => {
  const { url, id } = await serveEcho(t);
  const sandbox = new Client({ host: url }).sandboxes.get(id);
  const connection = await sandbox.connect(80);
  connection.end('bytes');
  t.equal(await text(connection), 'got bytes');
  await t.rejects(sandbox.connect(81), {
    status: 502,
    code: 'port_not_listening',
    message: 'nothing listens on port 81 of the sandbox',
  });
  await t.rejects(sandbox.connect(80, { signal: AbortSignal.abort(new Error('left')) }), { message: 'left' });
  t.match(await sandbox.ports.open(3000, { access: 'public' }), { port: 3000, access: 'public' });
  t.match(await sandbox.ports.list(), [{ port: 3000, access: 'public' }]);
  await sandbox.ports.close(3000);
  t.same(await sandbox.ports.list(), []);
});

t.test('connect joins standard input and output', async (t) => {
  const { url, id } = await serveEcho(t);
  const [program = '', ...args] = COMMAND;
  const run = async (port: string, input: string) => {
    const child = spawn(program, [...args, 'connect', id, port], {
      env: { ...process.env, SANDBOXD_HOST: url },
    });
    child.stdin.end(input);
    const ended = once(child, 'close') as Promise<[number]>;
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    return { code, stdout, stderr };
  };
  t.same(await run('80', 'input'), { code: 0, stdout: 'got input', stderr: '' });
  t.match(await run('81', ''), {
    code: 1,
    stdout: '',
    stderr: /^sandbox: nothing listens on port 81 of the sandbox\n$/,
  });
  t.match(await run('0', ''), { code: 2, stderr: /not a port from 1 to 65535/ });
});

t.test('forward listens, for many connections', async (t) => {
  const { url, id } = await serveEcho(t);
  const [program = '', ...args] = COMMAND;
  const child = spawn(program, [...args, '--json', 'forward', id, '0:80', '0:81'], {
    env: { ...process.env, SANDBOXD_HOST: url },
  });
  t.teardown(() => child.kill());
  let [out, err] = ['', ''];
  child.stdout.on('data', (chunk) => {
    out += chunk;
  });
  child.stderr.on('data', (chunk) => {
    err += chunk;
  });
  await until(() => out.trim().split('\n').length === 2);
  const [first, second] = out
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { address: string; local_port: number; port: number });
  t.match(first, { address: '127.0.0.1', sandbox: id, port: 80 });
  const ask = async (input: string): Promise<string> => {
    const socket = connect({ port: first?.local_port ?? 0, host: '127.0.0.1', allowHalfOpen: true });
    socket.end(input);
    return text(socket);
  };
  const inputs = ['a', 'b', 'c', 'd', 'e'];
  t.same(await Promise.all(inputs.map(ask)), ['got a', 'got b', 'got c', 'got d', 'got e']);
  const refused = connect(second?.local_port ?? 0, '127.0.0.1');
  const [error] = await once(refused, 'error');
  t.equal((error as NodeJS.ErrnoException).code, 'ECONNRESET');
  await until(() => err.includes('nothing listens on port 81'));
  child.kill('SIGINT');
  const [code] = await once(child, 'close');
  t.equal(code, 130);
});

t.test('ssh gets a proxy command of this program', async (t) => {
  const { url, id } = await serveEcho(t);
  const [program = '', ...args] = COMMAND;
  const bin = t.testdir({ bin: { ssh: '#!/bin/sh\nfor a in "$@"; do echo "$a"; done\nexit 7\n' } });
  spawn('chmod', ['755', `${bin}/bin/ssh`]);
  const run = async (...words: string[]) => {
    const child = spawn(program, [...args, '--host', url, 'ssh', ...words], {
      env: { ...process.env, PATH: `${bin}/bin:${process.env.PATH}` },
    });
    const ended = once(child, 'close') as Promise<[number]>;
    const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    return { code, lines: stdout.trim().split('\n'), stderr };
  };
  const ran = await run('-p', '80', id, 'uptime', '-p');
  t.equal(ran.code, 7, ran.stderr);
  t.match(ran.lines[1], new RegExp(`^ProxyCommand='.* '--host' '${url}' 'connect' '${id}' '80'$`));
  t.same(ran.lines.slice(2), [
    ...['-o', `HostKeyAlias=${id}`, '-o', 'StrictHostKeyChecking=accept-new'],
    ...['-l', 'root', '--', id, 'uptime', '-p'],
  ]);
  t.match(await run(id), { code: 1, stderr: 'sandbox: nothing listens on port 22 of the sandbox\n' });
});
