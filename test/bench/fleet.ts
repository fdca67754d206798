// What a gateway adds: creates, reads and execs through it, in turn with the same at a host without a fleet. Sandboxes
// are in memory; the API server is the stand-in in this process, or that of KUBE (a kubeconfig). With PLACES=number, also
// what a gateway's process takes for that many sandboxes.
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { serve } from '../http/support.ts';
import { ask, Fleet, LIMITS, startFleet } from '../support/fleet/fleet.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';

const COUNT = Number(process.env.COUNT ?? 100);
t.setTimeout(3_600_000);

t.test('what a gateway adds', async (t) => {
  const isReal = process.env.KUBE !== undefined;
  const fleet = isReal ? new Fleet(t, undefined) : await startFleet(t);
  await Promise.all(['h0', 'h1', 'h2'].map((name) => fleet.host(name)));
  if (isReal) await sleep(3000);
  else await fleet.ready(3);
  const { url } = await fleet.gateway();
  const alone = await startMemoryDaemon(t, { limits: LIMITS });
  const direct = await serve(t, { sandboxes: alone.manager, limits: LIMITS });
  const kinds = { create: [[], []], get: [[], []], exec: [[], []] } as Record<string, [number[], number[]]>;
  const measure = async (kind: string, at: 0 | 1, run: () => Promise<{ status: number }>) => {
    const startedAt = performance.now();
    const answer = await run();
    if (answer.status >= 300) throw new Error(JSON.stringify(answer));
    kinds[kind]?.[at].push(performance.now() - startedAt);
    return answer;
  };
  for (let n = 0; n < COUNT + 10; n++) {
    for (const [at, to] of [direct.url, url].entries() as Iterable<[0 | 1, string]>) {
      const made = await measure('create', at, () => ask(to, 'POST', '/sandboxes', {}));
      const { id } = (made as Awaited<ReturnType<typeof ask>>).body;
      await measure('get', at, () => ask(to, 'GET', `/sandboxes/${id}`));
      const run = { cmd: ['true'] };
      await measure('exec', at, () =>
        ask(to, 'POST', `/sandboxes/${id}/exec`, run, { accept: 'application/json' }),
      );
      await ask(to, 'DELETE', `/sandboxes/${id}`);
    }
  }
  for (const [kind, [own, through]] of Object.entries(kinds)) {
    const [a, b] = [own, through].map((all) => all.slice(10).sort((x, y) => x - y)) as [number[], number[]];
    const at = (all: number[], share: number) => (all[Math.floor(all.length * share)] ?? 0).toFixed(1);
    for (const share of [0.5, 0.9]) {
      const added = (Number(at(b, share)) - Number(at(a, share))).toFixed(1);
      t.comment(
        `${kind} p${share * 100}: host ${at(a, share)} ms, gateway ${at(b, share)} ms, added ${added} ms`,
      );
    }
  }
});

const PLACES = Number(process.env.PLACES ?? 0);
/** As hosts of tests have. */
const PER_HOST = 400;
const CLIENTS = 16;

if (PLACES > 0)
  t.test('memory of a gateway', async (t) => {
    const fleet = await startFleet(t);
    const count = Math.ceil(PLACES / PER_HOST) + 1;
    for (let n = 0; n < count; n++) await fleet.host(`m${n}`);
    // Each host set that of a test.
    t.setTimeout(3_600_000);
    await fleet.ready(count);
    const first = await fleet.gatewayProcess();
    const memory = (pid: number) => {
      const kib = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
      return `${Math.round(Number(kib) / 1024)} MiB`;
    };
    const before = memory(first.pid);
    const startedAt = performance.now();
    let left = PLACES;
    const work = async () => {
      while (left-- > 0) {
        const size = { memory_mib: 128, vcpus: 1 };
        const { status, body } = await ask(first.url, 'POST', '/sandboxes', {
          ...size,
          labels: { app: 'web' },
        });
        if (status >= 300) throw new Error(JSON.stringify(body));
      }
    };
    await Promise.all(Array.from({ length: CLIENTS }, work));
    const rate = PLACES / ((performance.now() - startedAt) / 1000);
    t.comment(`${PLACES} creates by ${CLIENTS} clients: ${rate.toFixed(0)} a second; ${memory(first.pid)}`);
    const second = await fleet.gatewayProcess();
    await sleep(3000);
    t.comment(`a gateway: ${before} without a sandbox; one that starts with all: ${memory(second.pid)}`);
    const { body } = await ask(second.url, 'GET', '/sandboxes?limit=1000');
    t.match(body, { sandboxes: { length: Math.min(PLACES, 1000) } });
    t.comment(`after a page of 1,000: ${memory(second.pid)}`);
  });
