// The control connection to a VMM that refuses, does not answer or closes the connection.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { QmpClient } from '../../../../../host-agent/src/engines/qemu/qmp.ts';
import { connectUnix } from '../../../../../host-agent/src/lib/socket-link.ts';
import { until } from '../../../../support/until.ts';

const GREETING = '{"QMP": {"version": {}, "capabilities": []}}\r\n';
const NEVER = new AbortController().signal;

/** A VMM that sends the greeting and answers the commands that `answer` knows; other commands wait. */
async function serve(t: Test, answer: (command: string) => object | undefined) {
  const dir = mkdtempSync(join(tmpdir(), 'qmp-'));
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => undefined);
    const lines = createInterface({ input: socket });
    lines.on('error', () => undefined);
    lines.on('line', (line) => {
      const { execute, id } = JSON.parse(line);
      const said = answer(execute);
      if (said !== undefined) socket.write(`${JSON.stringify({ ...said, id })}\r\n`);
    });
    socket.write(GREETING);
  });
  server.listen(join(dir, 'sock'));
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
    rmSync(dir, { recursive: true });
  });
  return { sockets, connect: () => connectUnix(join(dir, 'sock')) };
}

const capable = (command: string): object | undefined =>
  command === 'qmp_capabilities' ? { return: {} } : undefined;

t.test('a handshake that is refused, or given up, leaves the one connection free', async (t) => {
  const refusing = await serve(t, () => ({ error: { class: 'GenericError', desc: 'not now' } }));
  await t.rejects(
    QmpClient.open(await refusing.connect(), () => undefined, NEVER),
    {
      message: 'qmp_capabilities: not now',
    },
  );
  await until(() => refusing.sockets.size === 0, 'the end of the connection');
  const silent = await serve(t, () => undefined);
  const patience = new AbortController();
  const opening = QmpClient.open(await silent.connect(), () => undefined, patience.signal);
  opening.catch(() => undefined);
  await until(() => silent.sockets.size === 1, 'the connection');
  patience.abort(new Error('long enough'));
  await t.rejects(opening, { message: 'long enough' });
  await until(() => silent.sockets.size === 0, 'the end of the connection');
});

t.test('who waits when the VMM hangs up is told, and who comes later', async (t) => {
  const vmm = await serve(t, capable);
  const client = await QmpClient.open(await vmm.connect(), () => undefined, NEVER);
  const waiting = client.execute('stop');
  waiting.catch(() => undefined);
  for (const socket of vmm.sockets) socket.destroy();
  await t.rejects(waiting, { message: 'the VMM closed its control socket' });
  await client.closed;
  t.equal(client.isOpen, false);
  await t.rejects(client.execute('cont'), { message: 'the VMM closed its control socket' });
});

t.test('who gives up later gives up nothing any more, and no answer leaves anything', async (t) => {
  const count = (): number => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
  const refusal = { class: 'DeviceNotFound', desc: 'x'.repeat(3000) };
  const vmm = await serve(t, (command) => (command === 'refused' ? { error: refusal } : { return: 'done' }));
  const patience = new AbortController();
  const before = count();
  const client = await QmpClient.open(await vmm.connect(), () => undefined, patience.signal);
  patience.abort(new Error('long enough'));
  t.equal(client.isOpen, true);
  t.equal(client.violation, undefined);
  t.equal(await client.execute('stop'), 'done');
  await t.rejects(client.execute('refused'), {
    className: 'DeviceNotFound',
    description: 'x'.repeat(2000),
    message: `refused: ${'x'.repeat(2000)}`,
  });
  t.ok(count() <= before, 'no limit of time runs on');
  client.close();
  await client.closed;
  t.equal(client.violation, undefined);
  const given = AbortSignal.abort(new Error('given up'));
  const late = await vmm.connect();
  late.destroy();
  await t.rejects(
    QmpClient.open(late, () => undefined, given),
    { message: 'the VMM closed its control socket' },
  );
});
