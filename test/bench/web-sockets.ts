// Memory of the daemon with idle WebSockets of the ingress. usage: node test/bench/web-sockets.ts [COUNT]
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { WebSocket } from 'ws';
import { startDaemon } from '../support/daemon.ts';
import { installInGuest } from '../support/guest-node.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(1_800_000));
const COUNT = Number(process.argv[2] ?? 1000);
/** A sandbox has at most 256 connections to its ports. */
const OF_ONE = 250;
const APP = 3000;
const IDLE_MS = 30_000;

const probe = createServer().listen(0, '127.0.0.1');
await once(probe, 'listening');
const { port } = probe.address() as { port: number };
probe.close();
const { api, pid } = await startDaemon(t, { flags: ['--ingress-listen', `127.0.0.1:${port}`] });
const hosts: string[] = [];
for (let at = 0; at < COUNT; at += OF_ONE) {
  const { id } = await api.create({ memory_mib: 256 });
  const node = await installInGuest(api, id, ['web-app'], []);
  await api.ask('openPort', { params: { id }, body: { port: APP, access: 'private' } });
  await api.sh(id, `nohup ${node.command('web-app').join(' ')} ${APP} > /root/log 2>&1 &`, { env: node.env });
  await api.sh(id, 'until grep -q listening /root/log; do sleep 0.2; done');
  hosts.push(`${APP}-${id.replace('_', '-')}.localhost:${port}`);
}
const readMib = (): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
const before = readMib();
for (let at = 0; at < COUNT; at++) {
  const headers = { host: hosts[at % hosts.length] ?? '' };
  const socket = new WebSocket(`ws://127.0.0.1:${port}/chat`, { headers });
  t.teardown(() => socket.terminate());
  await once(socket, 'open');
}
const opened = readMib();
await sleep(IDLE_MS);
console.table({ before, opened, idle: readMib() });
t.end();
