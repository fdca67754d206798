// Exec under load on a real guest: many at once, readers and writers that stop, long streams, thousands in turn.
// SOAK=1 runs the long forms.
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { EXEC_FRAME, encodeExecFrame } from '@sandboxd/api';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { RawExec, WebSocketExec } from '../support/interactive.ts';
import { scaled } from '../support/time-scale.ts';

const isLong = process.env.SOAK === '1';
t.setTimeout(scaled(isLong ? 3_600_000 : 600_000));
const daemon = await startDaemon(t);
const { api, url } = daemon;
const { id } = await api.create();
const MIB = 2 ** 20;
/** Both ends have collected what was garbage when nothing was asked of them for so long. */
const IDLE_MS = scaled(5000);

const daemonFds = (): number => readdirSync(`/proc/${daemon.pid}/fd`).length;
function daemonMib(): number {
  const text = readFileSync(`/proc/${daemon.pid}/smaps_rollup`, 'utf8');
  return Number(/^Anonymous:\s+(\d+)/m.exec(text)?.[1]) / 1024;
}
const agentMib = async (): Promise<number> =>
  Number(await api.sh(id, "awk '/^Anonymous:/ {print $2/1024}' /proc/1/smaps_rollup"));

/** Runs `work` and returns how far the daemon's anonymous memory rose above its value before. */
async function daemonGrowth(work: () => Promise<void>): Promise<number> {
  const before = daemonMib();
  let peak = before;
  const timer = setInterval(() => {
    peak = Math.max(peak, daemonMib());
  }, 50);
  await work();
  clearInterval(timer);
  return peak - before;
}

t.test('200 at once, each with its own output', async (t) => {
  const outputs = await Promise.all(
    Array.from({ length: 200 }, (_, n) =>
      api.exec(id, ['sh', '-c', `echo out ${n}; echo err ${n} >&2; exit ${n % 256}`]),
    ),
  );
  t.same(
    outputs.map(({ stdout, stderr, result }) => [stdout, stderr, result.exit_code]),
    Array.from({ length: 200 }, (_, n) => [`out ${n}\n`, `err ${n}\n`, n % 256]),
  );
});

t.test('a client that stops reading stalls its command, at little cost', async (t) => {
  const agentBefore = await agentMib();
  const execs: (RawExec | WebSocketExec)[] = [];
  const growth = await daemonGrowth(async () => {
    for (const cmd of [['yes'], ['cat', '/dev/zero']]) {
      execs.push(new RawExec(url, id, { cmd }), new WebSocketExec(url, id, { cmd }));
    }
    for (const exec of execs) {
      exec.isCounting = true;
      await exec.until(() => exec.outputBytes > 0, 'output');
      exec.pause();
    }
    await sleep(scaled(3000));
  });
  const usedMs = async (): Promise<string> =>
    api.sh(id, 'for p in $(pgrep -x yes; pgrep -x cat); do cut -d" " -f14,15 /proc/$p/stat; done');
  // What lies between command and client fills first, which takes a busy host its time.
  let used: string | undefined;
  for (let tries = 0; tries < scaled(60); tries++) {
    const now = await usedMs();
    if (now === used) break;
    used = now;
    await sleep(500);
  }
  await sleep(500);
  t.equal(await usedMs(), used, 'the commands stand still');
  const agentGrowth = (await agentMib()) - agentBefore;
  t.comment(`4 stalled streams: daemon +${growth.toFixed(1)} MiB, agent +${agentGrowth.toFixed(1)} MiB`);
  // 1 MiB a stream, and what a JavaScript heap swings by on its own.
  t.ok(growth < 4 + 32, `${growth} MiB in the daemon`);
  t.ok(agentGrowth < 4 + 8, `${agentGrowth} MiB in the agent`);
  const [first] = execs;
  const seen = first?.outputBytes ?? 0;
  first?.resume();
  await first?.until(() => first.outputBytes > seen + 8 * MIB, 'more output');
  for (const exec of execs) exec.destroy();
  for (let tries = 0; tries < scaled(100) && (await usedMs()) !== ''; tries++) await sleep(100);
  t.equal(await usedMs(), '', 'and end with their clients');
});

t.test('a command that does not read stalls its client, at little cost', async (t) => {
  const exec = new RawExec(url, id, { cmd: ['sh', '-c', 'until [ -e /run/go ]; do sleep 0.1; done; wc -c'] });
  const block = encodeExecFrame(EXEC_FRAME.stdin, Buffer.alloc(65_536, 1));
  let sentBytes = 0;
  let isDone = false;
  const growth = await daemonGrowth(async () => {
    const sending = (async () => {
      while (sentBytes < 64 * MIB && !isDone) {
        await exec.send(block);
        sentBytes += 65_536;
      }
    })();
    await sleep(2000);
    // What sockets and pipes of the operating systems hold, and 1 MiB each in host and guest.
    t.ok(sentBytes < 16 * MIB, `${sentBytes / MIB} MiB went out`);
    isDone = true;
    await api.sh(id, 'touch /run/go');
    await sending;
  });
  t.ok(growth < 32, `${growth} MiB`);
  await exec.closeStdin();
  t.match(await exec.ended(), { exit_code: 0 });
  t.equal(exec.text.trim(), String(sentBytes));
});

t.test('frames of single bytes that wait cost little more than their bytes', async (t) => {
  const exec = new RawExec(url, id, { cmd: ['sh', '-c', 'sleep 3; wc -c'] });
  const one = encodeExecFrame(EXEC_FRAME.stdin, Buffer.of(120));
  const packed = Buffer.concat(Array.from({ length: 10_000 }, () => one));
  const growth = await daemonGrowth(async () => {
    for (let n = 0; n < 40; n++) await exec.send(packed);
    await exec.closeStdin();
    t.match(await exec.ended(), { exit_code: 0 });
  });
  t.equal(exec.text.trim(), '400000');
  // Most of it is garbage of the moment.
  t.ok(growth < 80, `${growth} MiB`);
});

t.test(`${isLong ? '1 GiB' : '96 MiB'} each way with flat memory`, async (t) => {
  const sizeMib = isLong ? 1024 : 96;
  const agentBefore = await agentMib();
  const growth = await daemonGrowth(async () => {
    const input = new RawExec(url, id, { cmd: ['wc', '-c'] });
    const block = encodeExecFrame(EXEC_FRAME.stdin, Buffer.alloc(65_536, 1));
    for (let sent = 0; sent < sizeMib * MIB; sent += 65_536) await input.send(block);
    await input.closeStdin();
    await input.ended();
    t.equal(input.text.trim(), String(sizeMib * MIB));
    const output = new WebSocketExec(url, id, { cmd: ['head', '-c', String(sizeMib * MIB), '/dev/zero'] });
    output.isCounting = true;
    t.match(await output.ended(), { exit_code: 0 });
    t.equal(output.outputBytes, sizeMib * MIB);
  });
  const agentGrowth = (await agentMib()) - agentBefore;
  t.comment(`daemon +${growth.toFixed(1)} MiB at most, agent +${agentGrowth.toFixed(1)} MiB`);
  // Below what flows; a heap under load swings by tens of MiB.
  t.ok(growth < 96, `${growth} MiB in the daemon`);
  t.ok(agentGrowth < 10, `${agentGrowth} MiB in the agent`);
});

t.test('bulk output does not keep commands from running', async (t) => {
  const bulk = new RawExec(url, id, { cmd: ['yes'] });
  bulk.isCounting = true;
  await bulk.until(() => bulk.outputBytes > MIB, 'output');
  for (let n = 0; n < 10; n++) {
    const before = bulk.outputBytes;
    t.equal(await api.sh(id, `echo ${n}`), String(n));
    await bulk.until(() => bulk.outputBytes > before, 'bulk output meanwhile');
  }
  t.equal(bulk.isEnded, false, 'and the bulk goes on');
  bulk.destroy();
});

t.test(`${isLong ? 2000 : 60} in turn leave nothing behind`, async (t) => {
  const count = isLong ? 2000 : 60;
  const state = async () => ({
    agentFds: Number(await api.sh(id, 'ls /proc/1/fd | wc -l')),
    cgroups: Number(await api.sh(id, 'ls -d /sys/fs/cgroup/exec/*/ | wc -l')),
    // The kernel has as many threads as it likes.
    processes: Number(await api.sh(id, 'ps --ppid 2 -p 2 --deselect -o pid= | wc -l')),
    daemonFds: daemonFds(),
  });
  const some = (n: number): Promise<unknown> => {
    if (n % 10 === 3)
      return new RawExec(
        url,
        id,
        { cmd: ['cat'] },
        encodeExecFrame(EXEC_FRAME.stdinClose, Buffer.alloc(0)),
      ).ended();
    if (n % 10 === 5) return api.exec(id, ['/no/such']);
    if (n % 10 === 7) return new RawExec(url, id, { cmd: ['true'], tty: { cols: 80, rows: 24 } }).ended();
    if (n % 10 === 9) return api.exec(id, ['sh', '-c', 'head -c 300000 /dev/zero']);
    return api.exec(id, ['true']);
  };
  const runAll = async (total: number): Promise<void> => {
    let next = 0;
    await Promise.all(
      Array.from({ length: 8 }, async () => {
        while (next < total) await some(next++);
      }),
    );
    await sleep(IDLE_MS);
  };
  // Both ends grow until their collectors have found their pace.
  await runAll(isLong ? 600 : 40);
  const before = { ...(await state()), agentMib: await agentMib(), daemonMib: daemonMib() };
  await runAll(count);
  const after = { ...(await state()), agentMib: await agentMib(), daemonMib: daemonMib() };
  t.comment(JSON.stringify({ before, after }));
  t.ok(after.agentFds <= before.agentFds, `${after.agentFds} descriptors of the agent`);
  t.ok(after.cgroups <= before.cgroups, `${after.cgroups} cgroups`);
  t.ok(after.processes <= before.processes + 1, `${after.processes} processes`);
  t.ok(after.daemonFds <= before.daemonFds + 4, `${after.daemonFds} descriptors of the daemon`);
  t.ok(after.agentMib - before.agentMib < 8, `agent ${after.agentMib} MiB`);
  t.ok(after.daemonMib - before.daemonMib < 16, `daemon ${after.daemonMib} MiB`);
});
