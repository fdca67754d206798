// Exec over each transport: round trip, time to first byte, and many in parallel.
import type { Daemon } from '../support/daemon.ts';
import { type InteractiveExec, RawExec, WebSocketExec } from '../support/interactive.ts';
import { quantile, type Section } from './stats.ts';

type Times = { readonly firstMs: number; readonly totalMs: number };
const CMD = ['sh', '-c', 'echo x; exit 0'];
const AT_ONCE = 64;

async function oneWay(daemon: Daemon, id: string): Promise<Times> {
  const startedAt = performance.now();
  const response = await daemon.api.fetch(`/sandboxes/${id}/exec`, {
    method: 'POST',
    body: JSON.stringify({ cmd: CMD }),
  });
  let firstMs: number | undefined;
  for await (const _chunk of response.body as ReadableStream<Uint8Array>)
    firstMs ??= performance.now() - startedAt;
  return { firstMs: firstMs ?? Number.NaN, totalMs: performance.now() - startedAt };
}

async function interactive(open: () => InteractiveExec): Promise<Times> {
  const startedAt = performance.now();
  const exec = open();
  await exec.until(() => exec.stdout.length > 0, 'the first byte');
  const firstMs = performance.now() - startedAt;
  await exec.until(() => exec.result !== undefined, 'the result');
  return { firstMs, totalMs: performance.now() - startedAt };
}

function row(name: string, times: readonly Times[]): string[] {
  const ms = (pick: (time: Times) => number, q: number): string =>
    `${quantile(times.map(pick), q).toFixed(1)} ms`;
  return [
    name,
    ms((time) => time.firstMs, 0.5),
    ms((time) => time.firstMs, 0.9),
    ms((time) => time.totalMs, 0.5),
    ms((time) => time.totalMs, 0.9),
  ];
}

export async function benchTransports(daemon: Daemon, id: string, rounds: number): Promise<Section> {
  const fields = { cmd: CMD };
  const transports: Record<string, () => Promise<Times>> = {
    'one-way': () => oneWay(daemon, id),
    'raw connection': () => interactive(() => new RawExec(daemon.url, id, fields)),
    WebSocket: () => interactive(() => new WebSocketExec(daemon.url, id, fields)),
  };
  const times: Record<string, Times[]> = Object.fromEntries(
    Object.keys(transports).map((name) => [name, []]),
  );
  for (let round = 0; round < rounds + 5; round++) {
    for (const [name, run] of Object.entries(transports)) {
      const time = await run();
      if (round >= 5) times[name]?.push(time);
    }
  }
  const startedAt = performance.now();
  const together = await Promise.all(Array.from({ length: AT_ONCE }, () => oneWay(daemon, id)));
  const allMs = performance.now() - startedAt;
  return {
    title: 'Exec per transport',
    note: `${rounds} rounds of \`sh -c 'echo x; exit 0'\` over each transport in turn, a new connection for each interactive one. First byte: of the frame stream, as the client gets it. ${AT_ONCE} at once: one-way, on one vCPU, started together; the last had ended after ${allMs.toFixed(0)} ms (${(allMs / AT_ONCE).toFixed(1)} ms each).`,
    head: ['', 'first byte p50', 'p90', 'result p50', 'p90'],
    rows: [
      ...Object.entries(times).map(([name, list]) => row(name, list)),
      row(`${AT_ONCE} at once`, together),
    ],
  };
}
