// What a gateway adds: creates, reads and execs through it, in turn with the same at a host without a fleet. Sandboxes
// are in memory; the API server is the stand-in in this process, or that of KUBE (a kubeconfig).
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { serve } from '../http/support.ts';
import { ask, Fleet, LIMITS, startFleet } from '../support/fleet/fleet.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';

const COUNT = Number(process.env.COUNT ?? 100);
t.setTimeout(600_000);

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
