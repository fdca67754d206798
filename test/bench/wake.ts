// Wake by use: a published connection's first byte from asleep against a resume of the same sandbox, and many sleepers
// that are woken at once.
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Daemon } from '../support/daemon.ts';
import { ECHO } from '../support/sleep-load.ts';
import { quantile, type Section, spread } from './stats.ts';

const MEMORY_MIB = 256;
/** What the last request left to be done in the guest is over then. */
const IDLE_MS = 500;

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Milliseconds until a line is echoed. */
function echo(port: number): Promise<number> {
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('error', reject);
    socket.once('end', () => reject(new Error('the connection was closed')));
    socket.once('data', () => {
      resolve(performance.now() - startedAt);
      socket.destroy();
    });
    socket.write('hello\n');
  });
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
}

export async function benchWake(daemon: Daemon, rounds: number, sleepers: number): Promise<Section> {
  const { api } = daemon;
  const port = await freePort();
  const { id } = await api.create({
    memory_mib: MEMORY_MIB,
    publish: [{ host_port: port, guest_port: 8000 }],
    service: { cmd: ['perl', '-e', ECHO] },
  });
  while ((await echo(port).catch(() => undefined)) === undefined) await sleep(200);
  const pause = async (params: { id: string }) => {
    await sleep(IDLE_MS);
    await api.ask('pauseSandbox', { params, body: {} });
  };
  const resume = (params: { id: string }) => timed(() => api.ask('resumeSandbox', { params, body: {} }));
  /** Of the latest resume, by the daemon's own clock: the load changes from one resume to the next. */
  const ownMs = async (count: number): Promise<number> => {
    for (;;) {
      const all = daemon.log.filter(({ msg, sandbox }) => msg === 'sandbox resumed' && sandbox === id);
      if (all.length >= count) return Number(all.at(-1)?.durationMs);
      await sleep(20);
    }
  };
  const resumes: number[] = [];
  const firsts: number[] = [];
  const awake: number[] = [];
  const extra: number[] = [];
  for (let round = 0; round <= rounds; round++) {
    await pause({ id });
    const resumeMs = await resume({ id });
    const awakeMs = await echo(port);
    await pause({ id });
    const firstMs = await echo(port);
    const ownResumeMs = await ownMs(2 * (round + 1));
    if (round === 0) continue;
    resumes.push(resumeMs);
    awake.push(awakeMs);
    firsts.push(firstMs);
    extra.push(firstMs - ownResumeMs - awakeMs);
  }
  await api.delete(id);

  const ids: string[] = [];
  for (let at = 0; at < sleepers; at++) {
    const { id } = await api.create({ memory_mib: MEMORY_MIB });
    ids.push(id);
    await pause({ id });
  }
  const times = await Promise.all(ids.map((id) => timed(() => api.sh(id, 'true'))));
  await Promise.all(ids.map((id) => api.delete(id)));
  return {
    title: 'Wake by use',
    note: `${rounds} rounds after one warm-up, in turn, over REST: an idle guest of ${MEMORY_MIB} MiB is paused and resumed by a request, and then by a connection to its published port, until an echo server in it has answered a line. Then ${sleepers} paused guests get an exec at the same moment. To reach: the first byte at most 50 ms later than its own resume, by the daemon's log, and a connection take.`,
    head: ['', 'median (min–max)'],
    rows: [
      ['resume, by a request', spread(resumes, 0, 'ms')],
      ['a connection while it runs', spread(awake, 1, 'ms')],
      ['first byte of a connection, from asleep', spread(firsts, 0, 'ms')],
      ['**first byte − its resume − a connection while it runs**', `**${spread(extra, 0, 'ms')}**`],
      [
        `${sleepers} sleepers at once, until an exec has run`,
        `p50 ${quantile(times, 0.5).toFixed(0)} ms, p99 ${quantile(times, 0.99).toFixed(0)} ms`,
      ],
    ],
  };
}
