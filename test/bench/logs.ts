// The cost of logging for a command, the logged share of a service's output, and the latency of log readers.
import { EXEC_FRAME, ExecFrameDecoder } from '@sandboxd/api';
import { type Daemon, makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { ServiceClient } from '../support/service.ts';
import { median, quantile, type Section, spread } from './stats.ts';
import { stdoutRate } from './throughput.ts';

const SIZE_MIB = 64;
const FLOOD_MS = 4000;
const WRITES = 40;

export async function benchLogs(daemon: Daemon, id: string, rounds: number): Promise<Section> {
  const { withLogs, without } = await compareExec(daemon, id, rounds);
  const ratios = withLogs.map((rate, at) => rate / (without[at] ?? Number.NaN));
  const flood = await floodRates(daemon, id);
  const latenciesMs = await readerLatencies(daemon, id);
  return {
    title: 'Service and logs',
    note: `Cost: ${rounds} rounds of ${SIZE_MIB} MiB of a command's stdout over REST, in turn from a daemon that logs and one with \`--sandbox-logs off\`; ratio of the rounds, to reach: at least 90 %. Flood: \`yes\` with lines of 64 bytes as the service for ${FLOOD_MS / 1000} s; what it wrote, and what of it is in the log (the rest is counted there by an event). Latency: from a line's time stamp in the guest's ring to a reader of \`GET …/service/logs\`, ${WRITES} lines, less the difference of the two clocks.`,
    head: ['', 'median (min–max)'],
    rows: [
      ['stdout of a command, logged', spread(withLogs, 0, 'MiB/s')],
      ['the same, logs off', spread(without, 0, 'MiB/s')],
      ['**logged ÷ not logged**', `**${(median(ratios) * 100).toFixed(0)} %**`],
      ['flood: written by the service', `${flood.written.toFixed(1)} MiB/s`],
      ['flood: in the durable log', `${flood.logged.toFixed(1)} MiB/s`],
      ['write to reader, p50', `${quantile(latenciesMs, 0.5).toFixed(1)} ms`],
      ['write to reader, p90', `${quantile(latenciesMs, 0.9).toFixed(1)} ms`],
    ],
  };
}

async function compareExec(daemon: Daemon, id: string, rounds: number) {
  const directories = await makeDirectories();
  const silent = await spawnDaemon(directories, {
    flags: ['--sandbox-logs', 'off', '--template-disk-bytes', '0'],
  });
  const withLogs: number[] = [];
  const without: number[] = [];
  try {
    const { id: silentId } = await silent.api.create();
    await stdoutRate(silent, silentId, SIZE_MIB / 4);
    await stdoutRate(daemon, id, SIZE_MIB / 4);
    for (let round = 0; round < rounds; round++) {
      withLogs.push(await stdoutRate(daemon, id, SIZE_MIB));
      without.push(await stdoutRate(silent, silentId, SIZE_MIB));
    }
  } finally {
    await silent.end();
    await removeDirectories(directories);
  }
  return { withLogs, without };
}

async function floodRates(daemon: Daemon, id: string): Promise<{ written: number; logged: number }> {
  const service = new ServiceClient(daemon.api, id);
  const startOffset = (await service.log()).next_offset;
  await service.put({ cmd: ['yes', 'x'.repeat(63)] });
  const startedAt = performance.now();
  const before = await service.status();
  await new Promise((resolve) => setTimeout(resolve, FLOOD_MS));
  const after = await service.status();
  const seconds = (performance.now() - startedAt) / 1000;
  await service.post('stop');
  await service.reaches('stopped');
  const writtenBytes = (after.log_dropped_bytes ?? 0) - (before.log_dropped_bytes ?? 0);
  const loggedBytes = (await service.log()).next_offset - startOffset;
  return { written: writtenBytes / seconds / 2 ** 20, logged: loggedBytes / seconds / 2 ** 20 };
}

/** One reader, one line at a time. */
async function readerLatencies(daemon: Daemon, id: string): Promise<number[]> {
  const service = new ServiceClient(daemon.api, id);
  await service.put({
    cmd: ['sh', '-c', `n=0; while [ $n -lt ${WRITES} ]; do n=$((n+1)); date +%s%N; sleep 0.1; done`],
  });
  const offsetMs = await clockOffset(daemon, id);
  const response = await daemon.api.fetch(`/sandboxes/${id}/service/logs`);
  const decoder = new ExecFrameDecoder();
  const arrivals = new Map<string, number>();
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    const nowMs = performance.timeOrigin + performance.now();
    for (const { type, payload } of decoder.push(chunk)) {
      if (type !== EXEC_FRAME.stdout) continue;
      for (const line of payload.toString().trim().split('\n')) arrivals.set(line, nowMs);
    }
    if (arrivals.size >= WRITES) break;
  }
  // Lines that were written before the reader connected are excluded.
  return [...arrivals].slice(5).map(([ns, atMs]) => atMs + offsetMs - Number(ns) / 1e6);
}

/** Guest clock minus host clock, at the precision that a round trip allows. */
async function clockOffset(daemon: Daemon, id: string): Promise<number> {
  let best = { tookMs: Number.POSITIVE_INFINITY, offsetMs: 0 };
  for (let n = 0; n < 10; n++) {
    const sentMs = performance.timeOrigin + performance.now();
    const guestMs = Number(await daemon.api.sh(id, 'date +%s%N')) / 1e6;
    const tookMs = performance.timeOrigin + performance.now() - sentMs;
    if (tookMs < best.tookMs) best = { tookMs, offsetMs: guestMs - (sentMs + tookMs / 2) };
  }
  return best.offsetMs;
}
