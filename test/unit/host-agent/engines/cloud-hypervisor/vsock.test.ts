// The host side of a guest's vsock.
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { tryConnect } from '../../../../../host-agent/src/engines/cloud-hypervisor/control.ts';
import type { SocketLink } from '../../../../../host-agent/src/lib/socket-link.ts';
import { until } from '../../../../support/until.ts';

const dir = mkdtempSync(join(tmpdir(), 'vsock-'));
t.teardown(() => rmSync(dir, { recursive: true }));

t.test('a connection request over the guest’s socket', async (t) => {
  const answers: ((socket: Socket) => void)[] = [];
  const path = join(dir, 'vsock');
  let open = 0;
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    open += 1;
    socket.on('error', () => undefined);
    socket.on('close', () => {
      open -= 1;
    });
    socket.on('end', () => socket.end());
    socket.once('data', (line) => {
      t.equal(line.toString(), 'CONNECT 1024\n');
      answers.shift()?.(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  t.teardown(() => server.close());
  const read = async (link: SocketLink): Promise<string> => {
    const text = await new Promise<string>((resolve) => {
      link.start({ data: (chunk) => resolve(chunk.toString()), drain: () => {}, close: () => {} });
    });
    link.destroy();
    return text;
  };
  answers.push((socket) => void socket.write('OK 1073741824\nhello'));
  t.equal(
    await read(await tryConnect(path, 1024, 5000)),
    'hello',
    'what comes in the same piece is not lost',
  );
  answers.push((socket) => {
    socket.write('O');
    setTimeout(() => socket.write('K 5\n'), 30);
    setTimeout(() => socket.write('later'), 60);
  });
  t.equal(await read(await tryConnect(path, 1024, 5000)), 'later');
  answers.push((socket) => void socket.end());
  await t.rejects(tryConnect(path, 1024, 5000), { message: 'no program listens on port 1024 of the guest' });
  answers.push((socket) => void socket.destroy());
  await t.rejects(tryConnect(path, 1024, 5000), Error);
  answers.push((socket) => void socket.write('NO\n'));
  await t.rejects(tryConnect(path, 1024, 5000), { message: /did not answer a connection request with OK/ });
  for (const line of ['OK', 'OK ', 'OK x', 'xOK 5', 'OK 5x']) {
    answers.push((socket) => void socket.write(`${line}\n`));
    await t.rejects(tryConnect(path, 1024, 5000), { message: /with OK/ }, line);
  }
  answers.push((socket) => void socket.write('x'.repeat(100)));
  await t.rejects(tryConnect(path, 1024, 5000), { message: /with OK/ });
  answers.push(() => undefined);
  await t.rejects(tryConnect(path, 1024, 100), { message: 'no answer within 100 ms' });
  await t.rejects(tryConnect(join(dir, 'none'), 1024, 100), { code: 'ENOENT' });
  await until(() => open === 0, 'the end of what came to nothing');
});
