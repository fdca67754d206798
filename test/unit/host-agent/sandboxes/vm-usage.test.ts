// Top usage: few series however many sandboxes, and counters never fall.
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { readStartTicks } from '../../../../host-agent/src/lib/proc.ts';
import { readLinkUsage, readProcessUsage } from '../../../../host-agent/src/lib/process-usage.ts';
import type { Sandbox } from '../../../../host-agent/src/sandboxes/sandbox.ts';
import { REST, TopUsage, type VmUsage } from '../../../../host-agent/src/sandboxes/vm-usage.ts';
import { FakeClock } from '../../../support/fake-clock.ts';

function usage(cpuMs: number): VmUsage {
  return { cpuMs, residentBytes: 10, privateBytes: 5, readBytes: 1, writtenBytes: 2, layerBytes: 3 };
}

t.test('the rest never falls, whatever its members are', async (t) => {
  const cpu = new Map([...'abcde'].map((id) => [id, 0]));
  const all = () => [...cpu.keys()].map((id) => ({ id }) as Sandbox);
  const clock = new FakeClock(t);
  const board = new TopUsage(all, 2, ({ id }) => usage(cpu.get(id) ?? 0));
  let rest = 0;
  for (let round = 0; round < 20; round++) {
    clock.nowMs += 10_000;
    // A different one is busy each time, and one comes and goes.
    for (const id of cpu.keys()) cpu.set(id, (cpu.get(id) ?? 0) + (id === 'abcde'[round % 5] ? 900 : 10));
    if (round === 7) cpu.set('f', 50_000);
    if (round === 9) cpu.delete('f');
    await board.refresh();
    t.equal(board.rows.length, 3);
    t.equal(
      board.rows[0]?.sandbox,
      round === 7 ? 'f' : 'abcde'[round % 5],
      'the sandbox with the most use is first',
    );
    const others = board.rows.find(({ sandbox }) => sandbox === REST);
    t.ok((others?.counters.cpuMs ?? -1) >= rest, `${others?.counters.cpuMs} after ${rest}`);
    rest = others?.counters.cpuMs ?? 0;
    t.equal(others?.gauges.residentBytes, 10 * (cpu.size - 2));
  }
  t.ok(rest > 0);
});

t.test('a repeated refresh gets the cached rows, and concurrent ones share one', async (t) => {
  let reads = 0;
  const board = new TopUsage(
    () => Array.from({ length: 100 }, (_, at) => ({ id: `s${at}` }) as Sandbox),
    20,
    () => {
      reads++;
      return usage(1);
    },
  );
  await Promise.all([board.refresh(), board.refresh()]);
  await board.refresh();
  t.equal(reads, 100);
  t.equal(board.rows.length, 21);
});

t.test('equal use is ranked by memory, and no counter falls', async (t) => {
  const clock = new FakeClock(t);
  const used = new Map<string, VmUsage>();
  const network = { receivedBytes: 70, receivedPackets: 1, sentBytes: 80, sentPackets: 1 };
  for (const [at, id] of [...'abcd'].entries())
    used.set(id, {
      ...usage(100),
      residentBytes: 1000 * at,
      privateBytes: 100 * at,
      layerBytes: at,
      network,
    });
  let reads = 0;
  const board = new TopUsage(
    () => ['gone', ...used.keys()].map((id) => ({ id }) as Sandbox),
    2,
    ({ id }) => {
      reads++;
      return used.get(id);
    },
  );
  t.same(board.rows, []);
  await board.refresh();
  const counters = { cpuMs: 100, readBytes: 1, writtenBytes: 2, receivedBytes: 70, sentBytes: 80 };
  const twice = { cpuMs: 200, readBytes: 2, writtenBytes: 4, receivedBytes: 140, sentBytes: 160 };
  t.match(board.rows, [
    { sandbox: 'd', counters, gauges: { residentBytes: 3000, privateBytes: 300, layerBytes: 3 } },
    { sandbox: 'c', counters, gauges: { residentBytes: 2000, privateBytes: 200, layerBytes: 2 } },
    { sandbox: 'rest', counters: twice, gauges: { residentBytes: 1000, privateBytes: 100, layerBytes: 1 } },
  ]);
  clock.nowMs += 999;
  await board.refresh();
  t.equal(reads, 5);
  clock.nowMs += 1;
  used.set('a', { ...usage(50), residentBytes: 0, privateBytes: 0, layerBytes: 0 });
  await board.refresh();
  t.equal(reads, 10, 'readings that are a second old are read again');
  t.same(board.rows.at(-1)?.counters, twice, 'a counter that restarted reduces nothing');
});

t.test('reading many sandboxes does not block the event loop', async (t) => {
  let reads = 0;
  const all = Array.from({ length: 64 }, (_, at) => ({ id: `s${at}` }) as Sandbox);
  const board = new TopUsage(
    () => all,
    20,
    () => {
      reads++;
      return usage(1);
    },
  );
  const refreshed = board.refresh();
  t.equal(reads, 31);
  await refreshed;
  t.equal(reads, 64);
  t.notOk(board.rows.find(({ sandbox }) => sandbox === REST)?.counters.receivedBytes);
});

t.test('a process is read from the kernel, and a reused process id is not', async (t) => {
  const child = spawn(process.execPath, [
    '-e',
    'while (process.cpuUsage().user < 200_000); setInterval(() => {}, 1000)',
  ]);
  t.teardown(() => child.kill('SIGKILL'));
  const pid = child.pid ?? 0;
  const startTicks = readStartTicks(pid) ?? -1;
  let found = readProcessUsage({ pid, startTicks });
  while ((found?.cpuMs ?? 0) < 100) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    found = readProcessUsage({ pid, startTicks });
  }
  t.ok((found?.residentBytes ?? 0) > 2 ** 20);
  t.ok((found?.privateBytes ?? 0) < (found?.residentBytes ?? 0));
  t.equal(readProcessUsage({ pid, startTicks: startTicks + 1 }), undefined);
  t.equal(readProcessUsage({ pid: 2 ** 22 + 1, startTicks }), undefined);
});

t.test('a link is found by its complete name', (t) => {
  const dir = t.testdir({ 7: { net: {} } });
  writeFileSync(
    join(dir, '7/net/dev'),
    `${readFileSync('/proc/self/net/dev', 'latin1').split('\n').slice(0, 2).join('\n')}\n  tap01: 9 9 0 0 0 0 0 0 9 9 0 0 0 0 0 0\n   tap0: 100 2 0 0 0 0 0 0 300 4 0 0 0 0 0 0\n`,
  );
  t.same(readLinkUsage(7, 'tap0', dir), {
    receivedBytes: 100,
    receivedPackets: 2,
    sentBytes: 300,
    sentPackets: 4,
  });
  t.equal(readLinkUsage(7, 'tap', dir), undefined);
  t.equal(readLinkUsage(8, 'tap0', dir), undefined);
  t.end();
});
