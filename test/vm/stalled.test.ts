// What a client that stops reading costs: its command stands still, and neither the daemon nor the guest's agent holds more
// than 1 MiB for it. Many of them at once, so that what a heap swings by on its own disappears beside them. Pulled files may
// cost the daemon more, but all of them together only so much.
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { RawExec } from '../support/interactive.ts';
import { scaled } from '../support/time-scale.ts';

const STREAMS = 64;
const MAX_MIB_EACH = 1;
const PULLS = 24;
/** What all of them together may hold in the daemon. */
const MAX_PULLS_MIB = 32;
const FILE_MIB = 16;
/** Memory is read when nothing moved for so long, in which the daemon collects its garbage; the least of some looks. */
const QUIET_MS = 6000;
const LOOKS = 5;
/** A command that used no time for so long stands still. */
const STILL_MS = 1000;

t.setTimeout(scaled(600_000));
const daemon = await startDaemon(t);
const { api, url } = daemon;
const { id } = await api.create({ memory_mib: 1024 });

async function quietMib(): Promise<{ daemon: number; agent: number }> {
  const least = { daemon: Number.POSITIVE_INFINITY, agent: Number.POSITIVE_INFINITY };
  await sleep(QUIET_MS);
  for (let look = 0; look < LOOKS; look++) {
    const host = readFileSync(`/proc/${daemon.pid}/smaps_rollup`, 'utf8');
    least.daemon = Math.min(least.daemon, Number(/^Rss:\s+(\d+)/m.exec(host)?.[1]) / 1024);
    const kib = await api.sh(id, "awk '/^Rss:/ {print $2}' /proc/1/smaps_rollup");
    least.agent = Math.min(least.agent, Number(kib) / 1024);
    await sleep(200);
  }
  return least;
}

function usedMs(): Promise<string> {
  return api.sh(id, 'for p in $(pgrep -x yes); do cut -d" " -f14,15 /proc/$p/stat; done');
}

/** Commands that write as fast as they can, each to a client that takes its first bytes and no more. */
async function stall(count: number): Promise<RawExec[]> {
  const execs = Array.from({ length: count }, () => new RawExec(url, id, { cmd: ['yes'] }));
  for (const exec of execs) {
    exec.isCounting = true;
    await exec.until(() => exec.outputBytes > 0, 'output');
    exec.pause();
  }
  // What lies between command and client fills first, which takes a slow machine its time.
  let used: string | undefined;
  for (let waitedMs = 0; waitedMs < scaled(30_000); waitedMs += STILL_MS) {
    const now = await usedMs();
    if (now === used) break;
    used = now;
    await sleep(STILL_MS);
  }
  return execs;
}

async function leave(execs: readonly RawExec[]): Promise<void> {
  for (const exec of execs) exec.destroy();
  for (let tries = 0; tries < scaled(300); tries++) {
    if ((await api.sh(id, 'pgrep -xc yes || true')) === '0') return;
    await sleep(100);
  }
  throw new Error('commands of clients that left still run');
}

t.test(`${STREAMS} clients that stop reading`, async (t) => {
  // Both ends have grown to what they need to run so many, though none that stalls, before anything is measured.
  await Promise.all(
    Array.from({ length: STREAMS }, () => api.exec(id, ['head', '-c', '300000', '/dev/zero'])),
  );
  const before = await quietMib();
  const execs = await stall(STREAMS);
  const during = await quietMib();
  const perStream = (end: 'daemon' | 'agent'): number => (during[end] - before[end]) / STREAMS;
  const running = await api.sh(id, 'pgrep -xc yes');
  t.equal(running, String(STREAMS), 'all the commands are there');
  const used = await usedMs();
  await sleep(STILL_MS);
  t.equal(await usedMs(), used, 'and stand still');
  for (const end of ['daemon', 'agent'] as const) {
    const each = perStream(end);
    t.comment(`${end}: ${before[end].toFixed(1)} → ${during[end].toFixed(1)} MiB, ${each.toFixed(2)} each`);
    t.ok(each <= MAX_MIB_EACH, `${each.toFixed(2)} MiB in the ${end} for each`);
  }
  const [first] = execs;
  const seen = first?.outputBytes ?? 0;
  first?.resume();
  await first?.until(() => first.outputBytes > seen + 4 * 2 ** 20, 'more output');
  await leave(execs);
});

/** Reads the head of the answer, and no more. */
async function startPull(path: string): Promise<Socket> {
  const { hostname, port, host } = new URL(url);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.on('error', () => {});
  socket.write(
    `GET /sandboxes/${id}/files?path=${path}&max_bytes=${2 ** 40} HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
  );
  await once(socket, 'readable');
  return socket;
}

async function restOf(socket: Socket): Promise<number> {
  let bytes = 0;
  for await (const chunk of socket) {
    bytes += (chunk as Buffer).length;
    if (bytes >= FILE_MIB * 2 ** 20) break;
  }
  return bytes;
}

t.test(`${PULLS} clients that stop reading a file`, async (t) => {
  await api.sh(id, `head -c ${FILE_MIB}M /dev/urandom > /tmp/file`);
  for (let n = 0; n < PULLS; n++) await restOf(await startPull('/tmp/file'));
  const before = await quietMib();
  const sockets: Socket[] = [];
  for (let n = 0; n < PULLS; n++) sockets.push(await startPull('/tmp/file'));
  const during = await quietMib();
  const heldMib = during.daemon - before.daemon;
  t.comment(`daemon: ${before.daemon.toFixed(1)} → ${during.daemon.toFixed(1)} MiB`);
  t.ok(heldMib <= PULLS * MAX_MIB_EACH + MAX_PULLS_MIB, `${heldMib.toFixed(1)} MiB in the daemon for all`);
  t.ok(during.agent - before.agent <= PULLS * MAX_MIB_EACH, 'the agent holds no more than for commands');
  for (const socket of sockets.slice(1)) socket.destroy();
  const [first] = sockets;
  t.ok(first !== undefined && (await restOf(first)) >= FILE_MIB * 2 ** 20, 'one that goes on gets the rest');
});
