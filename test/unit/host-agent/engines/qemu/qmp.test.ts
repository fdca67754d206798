// The control connection to a VMM that refuses, does not answer or closes the connection.
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { QmpClient, QmpError, type QmpEvent } from '../../../../../host-agent/src/engines/qemu/qmp.ts';
import { connectUnix } from '../../../../../host-agent/src/lib/socket-link.ts';
import { MadeQemu, never } from '../../../../support/made-qemu.ts';
import { until } from '../../../../support/until.ts';

const NEVER = new AbortController().signal;

async function serve(t: Test, answers: MadeQemu['on'] = {}) {
  const dir = mkdtempSync(join(tmpdir(), 'qmp-'));
  t.teardown(() => rmSync(dir, { recursive: true }));
  const path = join(dir, 'sock');
  const qemu = await MadeQemu.listen(t, path);
  qemu.on = answers;
  return { sockets: qemu.sockets, connect: () => connectUnix(path) };
}

const refuse = (message: string, className?: string) => () => {
  throw Object.assign(new Error(message), { className });
};

t.test('a handshake that is refused, or given up, leaves the one connection free', async (t) => {
  const refusing = await serve(t, { qmp_capabilities: refuse('not now') });
  await t.rejects(
    QmpClient.open(await refusing.connect(), () => undefined, NEVER),
    {
      message: 'qmp_capabilities: not now',
    },
  );
  await until(() => refusing.sockets.size === 0, 'the end of the connection');
  const silent = await serve(t, { qmp_capabilities: never });
  const patience = new AbortController();
  const opening = QmpClient.open(await silent.connect(), () => undefined, patience.signal);
  opening.catch(() => undefined);
  await until(() => silent.sockets.size === 1, 'the connection');
  patience.abort(new Error('long enough'));
  await t.rejects(opening, { message: 'long enough' });
  await until(() => silent.sockets.size === 0, 'the end of the connection');
});

t.test('callers get an error when the VMM closes the connection, and later ones too', async (t) => {
  const vmm = await serve(t, { stop: never });
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
  const refused = refuse('x'.repeat(3000), 'DeviceNotFound');
  const vmm = await serve(t, { refused, stop: () => 'done' });
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

t.test('requests, events, refusals, and the end of the connection', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'qmp-'));
  const path = join(dir, 's');
  let peer: Socket | undefined;
  const server = createServer((socket) => {
    peer = socket;
    socket.write('{"QMP": {"version": {}}}\r\n');
    socket.on('data', (chunk) => {
      for (const line of chunk.toString().trim().split('\n')) {
        const { execute, id } = JSON.parse(line) as { execute: string; id: number };
        if (execute === 'broken')
          socket.write(`{"error": {"class": "GenericError", "desc": "no such thing"}, "id": ${id}}\n`);
        else if (execute !== 'silent')
          socket.write(
            `{"event": "STOP", "data": {"a": 1}}\n{"return": {"did": "${execute}"}, "id": ${id}}\n`,
          );
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(path, resolve));
  t.teardown(async () => {
    server.close();
    await rm(dir, { recursive: true });
  });
  const events: QmpEvent[] = [];
  const socket = connect(path);
  await new Promise((resolve) => socket.once('connect', resolve));
  const client = await QmpClient.open(socket, (event) => events.push(event), AbortSignal.timeout(5000));
  t.same(await client.execute('stop'), { did: 'stop' });
  t.match(events.at(-1), { event: 'STOP', data: { a: 1 } });
  await t.rejects(client.execute('broken'), new QmpError('broken', 'GenericError', 'no such thing'));
  await t.rejects(client.execute('silent', {}, 50), { message: /did not answer silent within \d+ ms/ });
  const pending = client.execute('silent');
  peer?.destroy();
  await t.rejects(pending, { message: /closed its control socket/ });
  await t.rejects(client.execute('stop'), { message: /closed/ });
});
