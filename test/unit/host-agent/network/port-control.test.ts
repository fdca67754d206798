// The control connection to a holder of published ports that misbehaves.
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { PortControl } from '../../../../host-agent/src/network/port-control.ts';
import { FakeClock } from '../../../support/fake-clock.ts';
import { until } from '../../../support/until.ts';

async function open(t: Test, onData: (socket: Socket, letters: string) => void) {
  const dir = await mkdtemp('/tmp/port-control-');
  t.teardown(() => rm(dir, { recursive: true }));
  const path = join(dir, 'control');
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', (data) => onData(socket, String(data)));
  });
  server.listen(path);
  await once(server, 'listening');
  t.teardown(() => server.close());
  let knocks = 0;
  const control = await PortControl.open(path, () => void knocks++);
  t.teardown(() => control.close());
  return { control, knocks: () => knocks };
}

t.test('reports count once for each hold, however often they come', async (t) => {
  const { control, knocks } = await open(t, (socket, letters) => socket.write(`${'k'.repeat(8)}${letters}`));
  await control.set('refuse');
  t.equal(knocks(), 0);
  await control.set('hold');
  await until(() => knocks() > 0);
  t.equal(knocks(), 1);
  await control.set('hold');
  t.equal(knocks(), 2);
});

t.test('a flood of reports ends the connection', async (t) => {
  const { control, knocks } = await open(t, (socket) => socket.write('k'.repeat(100_000)));
  await t.rejects(control.set('refuse'), { message: /has ended/ });
  t.equal(knocks(), 0);
});

t.test('one that ends or does not answer fails the change', async (t) => {
  const { control } = await open(t, (socket) => socket.destroy());
  await t.rejects(control.set('hold'), { message: /has ended/ });
  await t.rejects(control.set('hold'), { message: /has ended/ });
  await t.rejects(
    PortControl.open('/tmp/port-control-none', () => undefined),
    { code: 'ENOENT' },
  );
  const silent = await open(t, () => undefined);
  const clock = new FakeClock(t);
  const changed = t.rejects(silent.control.set('open'), { message: /does not answer/ });
  await clock.pass(11_000);
  await changed;
});
