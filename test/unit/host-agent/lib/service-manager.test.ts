// Notifications to systemd: with systemd's own program, and socat in place of systemd.
import { spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import t, { type Test } from 'tap';
import { ServiceManager } from '../../../../host-agent/src/lib/service-manager.ts';
import { until } from '../../../support/until.ts';

/** Everything that is sent to a socket. */
async function listen(t: Test) {
  const dir = await mkdtemp(join(tmpdir(), 'notify-'));
  const path = join(dir, 'socket');
  const child = spawn('socat', ['-u', '-dd', `UNIX-RECV:${path}`, 'STDOUT'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  t.teardown(async () => {
    child.kill();
    await rm(dir, { recursive: true });
  });
  let heard = '';
  child.stdout.on('data', (bytes) => {
    heard += bytes;
  });
  await new Promise((resolve) => child.stderr.once('data', resolve));
  return { path, heard: () => heard };
}

function makeLog() {
  const lines: string[] = [];
  return { lines, log: pino({ level: 'warn' }, { write: (line: string) => lines.push(line) }) };
}

t.test('it is ready, alive again and again, and stopping', async (t) => {
  const { path, heard } = await listen(t);
  const { lines, log } = makeLog();
  const env = { NOTIFY_SOCKET: path, WATCHDOG_USEC: '200000', WATCHDOG_PID: String(process.pid), HOME: '/' };
  using manager = new ServiceManager(log, env);
  t.same(env, { HOME: '/' }, 'children cannot speak for it');
  await manager.ready('listening');
  await until(() => heard().startsWith('READY=1\nSTATUS=listening'));
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => clearInterval(alive));
  await until(() => heard().split('WATCHDOG=1').length > 2);
  await manager.stopping();
  await until(() => heard().includes('STOPPING=1'));
  t.same(lines, []);
});

t.test('without systemd nothing is sent, and a watchdog of another process is ignored', async (t) => {
  const { lines, log } = makeLog();
  using none = new ServiceManager(log, {}, '/nonexistent');
  await none.ready('listening');
  t.same(lines, []);
  const { path, heard } = await listen(t);
  using other = new ServiceManager(log, { NOTIFY_SOCKET: path, WATCHDOG_USEC: '1', WATCHDOG_PID: '1' });
  await other.ready('listening');
  await other.stopping();
  await until(() => heard().includes('STOPPING=1'));
  t.notMatch(heard(), /WATCHDOG/);
});

t.test('the daemon runs on a host without systemd-notify', async (t) => {
  const { lines, log } = makeLog();
  using manager = new ServiceManager(log, { NOTIFY_SOCKET: '/nonexistent' }, '/nonexistent/program');
  await manager.ready('listening');
  t.match(lines[0], /cannot notify systemd/);
});
