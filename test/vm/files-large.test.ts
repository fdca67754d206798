// One file far larger than the guest's memory, in and out: memory stays flat at both ends, and execs go on meanwhile.
// 256 MiB by default, 2 GiB with SOAK=1.
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { bigTar, pull, push } from '../support/files.ts';
import { scaled } from '../support/time-scale.ts';

const sizeMib = process.env.SOAK === '1' ? 2048 : 256;
const MIB = 2 ** 20;

t.setTimeout(scaled(1_800_000));
const daemon = await startDaemon(t);
const { api } = daemon;
const { id } = await api.create({ memory_mib: 256 });

async function daemonMib(): Promise<number> {
  const status = await readFile(`/proc/${daemon.pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024;
}

/** Peaks while `work` runs, each exec a round trip that shares the channel with it. */
async function watch<T>(
  work: Promise<T>,
): Promise<{ value: T; hostMib: number; agentMib: number; execMs: number[] }> {
  let isDone = false;
  const done = work.finally(() => {
    isDone = true;
  });
  done.catch(() => {});
  let hostMib = 0;
  let agentMib = 0;
  const execMs: number[] = [];
  while (!isDone) {
    const startedAt = performance.now();
    const kib = await api.sh(id, "awk '/^Pss:/ {print $2}' /proc/1/smaps_rollup");
    execMs.push(performance.now() - startedAt);
    agentMib = Math.max(agentMib, Number(kib) / 1024);
    hostMib = Math.max(hostMib, await daemonMib());
    await sleep(100);
  }
  return { value: await done, hostMib, agentMib, execMs };
}

const describe = ({
  hostMib,
  agentMib,
  execMs,
}: {
  hostMib: number;
  agentMib: number;
  execMs: number[];
}): string => {
  const sorted = execMs.toSorted((a, b) => a - b);
  return `daemon ${hostMib.toFixed(0)} MiB, agent ${agentMib.toFixed(0)} MiB at most; ${sorted.length} execs, median ${sorted[sorted.length >> 1]?.toFixed(0)} ms, longest ${sorted.at(-1)?.toFixed(0)} ms`;
};

t.test(`${sizeMib} MiB through a sandbox of 256 MiB`, async (t) => {
  const before = await daemonMib();
  t.comment(`daemon ${before.toFixed(0)} MiB before`);
  const sent = createHash('sha256');
  const piece = Buffer.alloc(2 ** 18, 'a large file ');
  let count = 0;
  const archive = bigTar('large', sizeMib * MIB, (bytes) => {
    // Each piece is a new one: an archive that refers to one buffer again and again would not show a mix-up.
    const next = Buffer.from(piece.subarray(0, bytes));
    next.writeUInt32BE(count++);
    sent.update(next);
    return next;
  });
  let startedAt = performance.now();
  const pushed = await watch(push(api, id, '/large', archive));
  t.match(pushed.value, { status: 200, push: { files: 1, bytes: sizeMib * MIB } });
  t.comment(
    `pushed at ${(sizeMib / ((performance.now() - startedAt) / 1000)).toFixed(0)} MiB/s: ${describe(pushed)}`,
  );

  startedAt = performance.now();
  const got = createHash('sha256');
  const pulled = await watch(
    (async () => {
      const response = await pull(api, id, '/large/large', `&max_bytes=${2 ** 40}`);
      for await (const chunk of response.body as ReadableStream<Uint8Array>) got.update(chunk);
      return response.headers.get('content-length');
    })(),
  );
  t.equal(pulled.value, String(sizeMib * MIB));
  t.equal(got.digest('hex'), sent.digest('hex'));
  t.comment(
    `pulled at ${(sizeMib / ((performance.now() - startedAt) / 1000)).toFixed(0)} MiB/s: ${describe(pulled)}`,
  );

  const hostMib = Math.max(pushed.hostMib, pulled.hostMib) - before;
  t.ok(hostMib < 160, `the daemon grew by ${hostMib.toFixed(0)} MiB`);
  const agentMib = Math.max(pushed.agentMib, pulled.agentMib);
  t.ok(agentMib < 80, `the agent had ${agentMib.toFixed(0)} MiB`);
  t.ok(pushed.execMs.length > 0 && pulled.execMs.length > 0, 'commands ran all the while');
});
