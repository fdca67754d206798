// Exec round trips: the overhead of the host over the time in the guest.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Daemon } from '../support/daemon.ts';
import { PlainClient } from './plain-client.ts';
import { quantile, type Section } from './stats.ts';

/** The guest's JavaScript is compiled on use. */
const WARM_UP = 200;

function row(name: string, values: readonly number[]): string[] {
  return [name, ...[0.5, 0.9, 0.99].map((q) => `${quantile(values, q).toFixed(2)} ms`)];
}

export async function benchExec(daemon: Daemon, id: string, rounds: number): Promise<Section> {
  using client = new PlainClient(daemon.url);
  const body = Buffer.from(JSON.stringify({ cmd: ['true'] }));
  const totalMs: number[] = [];
  for (let round = 0; round < rounds + WARM_UP; round++) {
    const { ms } = await client.request('POST', `/sandboxes/${id}/exec`, body);
    if (round >= WARM_UP) totalMs.push(ms);
  }
  // The daemon logs after the response.
  await sleep(200);
  const inGuest = daemon.log
    .filter(({ msg }) => msg === 'exec ended')
    .slice(-rounds)
    .map((line) => Number(line.agentUs) / 1000);
  const overhead = totalMs.map((ms, index) => ms - (inGuest[index] ?? Number.NaN));
  return {
    title: 'Exec round trip',
    note: `${rounds} sequential runs of \`true\` over one-way exec, on one kept connection, after ${WARM_UP} to warm up. In the guest: from the request's arrival at the agent to its result being sent, by the agent's own clock. Host overhead: the rest, per run (HTTP client included); to reach: at most 3 ms at p50.`,
    head: ['', 'p50', 'p90', 'p99'],
    rows: [row('round trip', totalMs), row('in the guest', inGuest), row('**host overhead**', overhead)],
  };
}
