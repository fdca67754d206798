// Many sandboxes with rules at once: a network and an egressd for each, what both cost, how long a change of one takes
// beside all others, and how long the next daemon needs to adopt them. Guests are namespaces; forks and woken sandboxes
// have networks of the same kind. It runs in its own network namespace. usage: [SANDBOXES=200] node test/bench/many-rules.ts
import '../support/network/own-network.ts';
import { readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import t from 'tap';
import type { NetworkSlot } from '../../host-agent/src/network/index.ts';
import { openEgressLab } from '../support/network/egress-lab.ts';
import { cpuMs, smaps } from './processes.ts';
import { median, quantile } from './stats.ts';

t.setTimeout(0);
const SANDBOXES = Number(process.env.SANDBOXES ?? 200);
const AT_ONCE = 4;
const RULES = [
  { host: 'ok.test', protocol: 'tls', ports: [443] },
  { host: '*.other.test', protocol: 'http', ports: [80] },
  { host: 'ok.test', protocol: 'tcp', ports: [22] },
] as const;
const POLICY = { allowlist: ['shared.test'], rules: RULES };
const NEXT = { allowlist: ['shared.test'], rules: RULES.slice(1) };

const { lab } = await openEgressLab(t);
const load = (): string => `load ${readFileSync('/proc/loadavg', 'utf8').split(' ')[0]}`;
const report = (line: string): void => console.error(`${line} (${load()})`);
const show = (values: readonly number[]): string =>
  `${median(values).toFixed(1)} ms, p95 ${quantile(values, 0.95).toFixed(1)}`;
const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
};
const quiet = { onDenied: () => undefined, onEgress: () => undefined };
const pidOf = ({ namespace }: NetworkSlot): number => {
  const lines = readFileSync(join(lab.dir, 'egress', basename(namespace)), 'utf8').split('\n');
  return (JSON.parse(lines[1] ?? '{}') as { pid: number }).pid;
};
/** So many at a time, as sandboxes are started. */
const each = async (slots: readonly NetworkSlot[], work: (slot: NetworkSlot) => Promise<void>) => {
  const left = [...slots];
  const next = async (): Promise<void> => {
    for (let slot = left.shift(); slot !== undefined; slot = left.shift()) await work(slot);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, next));
};

const before = process.memoryUsage().rss;
let network = await lab.openNetwork();
const slots: NetworkSlot[] = [];
for (let count = 0; count < SANDBOXES; count++) slots.push(await network.allocate());
t.teardown(async () => {
  await each(slots, (slot) => network.destroy(slot));
  await network.close();
});

t.test('networks are made', async () => {
  const made: number[] = [];
  const all = await timed(() =>
    each(slots, async (slot) => {
      made.push(
        await timed(async () => {
          await network.create(slot);
          await network.start(slot, { ...POLICY, wasServed: false, ...quiet });
        }),
      );
    }),
  );
  report(`${SANDBOXES} made, ${AT_ONCE} at a time: ${(all / 1000).toFixed(1)} s; each ${show(made)}`);
});

t.test('memory', async () => {
  const memory = await Promise.all(slots.map((slot) => smaps(pidOf(slot))));
  const pss = memory.map(({ pssMib }) => pssMib);
  const total = pss.reduce((sum, value) => sum + value, 0);
  const mib = (value: number): string => `${value.toFixed(2)} MiB`;
  report(`egressd: ${mib(median(pss))} PSS each, ${mib(total)} of all`);
  report(`daemon: +${mib((process.memoryUsage().rss - before) / 2 ** 20)}`);
  const pids = slots.map(pidOf);
  const cpuBefore = await cpuMs(pids);
  await new Promise((resolve) => setTimeout(resolve, 5000));
  report(`CPU time of all when idle: ${(((await cpuMs(pids)) - cpuBefore) / 5).toFixed(1)} ms a second`);
});

t.test('changes', async () => {
  const took: number[] = [];
  for (const slot of slots.slice(0, 40)) took.push(await timed(() => network.change(slot, NEXT)));
  report(`a change of one: ${show(took)}`);
  const atOnce = await timed(() =>
    each(slots, async (slot) => {
      await network.change(slot, POLICY);
    }),
  );
  report(`a change of all: ${(atOnce / 1000).toFixed(2)} s`);
});

t.test('the next daemon', async () => {
  const pids = slots.map(pidOf);
  await network.close();
  network = await lab.openNetwork();
  const adopted = await timed(async () => {
    for (const slot of slots) network.adopt(slot);
    await each(slots, async (slot) => {
      await network.start(slot, { ...POLICY, wasServed: true, ...quiet });
    });
  });
  report(`adopted: ${(adopted / 1000).toFixed(2)} s`);
  t.same(slots.map(pidOf), pids, 'by the same processes');
});
