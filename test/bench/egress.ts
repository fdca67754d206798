// What rules cost: a network that is made with an allowlist, with rules and with all of a preset, in turn; and a change
// of the policy until it holds, beside a guest whose connection it closes. Guests are namespaces; real ones are created
// with rules that inspect and with rules that do not, in turn. It runs in its own network namespace.
// usage: [ROUNDS=40] [ONLY=create] node test/bench/egress.ts
import '../support/network/own-network.ts';
import t from 'tap';
import type { NetworkPolicy } from '../../host-agent/src/network/index.ts';
import { startDaemon } from '../support/daemon.ts';
import { openEgressLab, SSH } from '../support/network/egress-lab.ts';
import { WEB_IP } from '../support/network/lab.ts';
import { until } from '../support/until.ts';
import { settle } from './settled.ts';

t.setTimeout(0);
const ROUNDS = Number(process.env.ROUNDS ?? 40);

const host = (n: number) => ({ host: `h${n}.test`, protocol: 'tcp', ports: [443] }) as const;
const POLICIES: Readonly<Record<string, NetworkPolicy>> = {
  allowlist: { allowlist: ['ok.test'] },
  'ten rules': { allowlist: [], rules: Array.from({ length: 10 }, (_, n) => host(n)) },
  '256 rules in 64 lists of ports': {
    allowlist: [],
    rules: Array.from({ length: 256 }, (_, n) => ({ ...host(n), ports: [443, 8000 + (n % 64)] })),
  },
  internet: { allowlist: [], presets: [{ name: 'internet', rules: [] }] },
};

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
const ms = (value: number): string => value.toFixed(1);

const { lab, open } = await openEgressLab(t);
const skip = process.env.ONLY === 'create';

t.test('a network is made', { skip }, async () => {
  const network = await lab.openNetwork();
  const make = async (policy: NetworkPolicy): Promise<number> => {
    const slot = await network.allocate();
    const startedAt = performance.now();
    await network.create(slot);
    await network.start(slot, {
      ...policy,
      wasServed: false,
      onDenied: () => undefined,
      onEgress: () => undefined,
    });
    const took = performance.now() - startedAt;
    await network.destroy(slot);
    return took;
  };
  const entries = Object.entries(POLICIES);
  for (const [, policy] of entries) await make(policy);
  const times = new Map(entries.map(([name]) => [name, [] as number[]]));
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, policy] of round % 2 === 0 ? entries : entries.toReversed())
      times.get(name)?.push(await make(policy));
  const base = times.get('allowlist') ?? [];
  for (const [name, values] of times) {
    const more = values.map((value, at) => value - (base[at] ?? 0));
    console.error(
      `make ${name}: ${ms(median(values))} ms, +${ms(median(more))} ms over an allowlist in pairs`,
    );
  }
  await network.close();
});

t.test('a change until it holds', { skip }, async (t) => {
  const other = { host: 'other.test', protocol: 'tcp', ports: [22] } as const;
  const [wide, narrow] = [[SSH, other], [other]];
  const { change, background } = await open(t, { rules: wide });
  const lines = await background(`
    console.log('up');
    for (;;) {
      await resolve('ok.test');
      await new Promise((next) => {
        const s = net.connect(9000, '${WEB_IP}', () => console.log('connected'));
        s.on('data', () => {});
        s.on('error', () => {}); s.on('close', () => { console.log('ended ' + (performance.timeOrigin + performance.now())); setTimeout(next, 20); });
      });
    }`);
  const took: number[] = [];
  const closed: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    lines.length = 0;
    await change({ rules: wide });
    await until(() => lines.includes('connected'), 'a connection', 60_000);
    lines.length = 0;
    const startedAt = performance.now();
    await change({ rules: narrow });
    took.push(performance.now() - startedAt);
    await until(() => lines.some((line) => line.startsWith('ended')));
    const endedAt = Number(lines.find((line) => line.startsWith('ended'))?.split(' ')[1]);
    closed.push(endedAt - performance.timeOrigin - startedAt);
  }
  console.error(`change: ${ms(median(took))} ms; the guest sees its reset after ${ms(median(closed))} ms`);
  const nothing: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const startedAt = performance.now();
    await change({ rules: [{ ...other, ports: [round + 1] }] });
    nothing.push(performance.now() - startedAt);
  }
  console.error(`change without connections: ${ms(median(nothing))} ms`);
});

t.test('a create of a real guest', async (t) => {
  const daemon = await startDaemon(t, { flags: ['--dns-upstream', lab.names.address] });
  const { api } = daemon;
  const rule = { host: 'ok.test', protocol: 'tls', ports: [443] };
  const networks = [
    ['without a network', undefined],
    ['passed on', { enabled: true, rules: [rule] }],
    ['inspected', { enabled: true, rules: [{ ...rule, tls: 'inspect' }] }],
  ] as const;
  const times = new Map(networks.map(([name]) => [name, [] as number[]]));
  const create = async ([name, network]: (typeof networks)[number], isCounted: boolean) => {
    const startedAt = performance.now();
    const { id } = await api.create({ ...(network && { network }) });
    const createdAt = performance.now();
    // The authority is there before the first command.
    await api.sh(id, 'true');
    if (isCounted) times.get(name)?.push(createdAt - startedAt, performance.now() - startedAt);
    await api.delete(id);
  };
  for (const each of networks) await create(each, false);
  await settle(daemon);
  await settle(daemon, { network: networks[1][1] });
  for (let round = 0; round < ROUNDS; round++)
    for (const each of round % 2 === 0 ? networks : networks.toReversed()) await create(each, true);
  const [until, ran] = [0, 1].map(
    (which) => (values: readonly number[]) => values.filter((_, at) => at % 2 === which),
  );
  const base = times.get('passed on') ?? [];
  for (const [name, values] of times) {
    const more = values.map((value, at) => value - (base[at] ?? 0));
    const show = (part = until) =>
      `${ms(median(part?.(values) ?? []))} ms, +${ms(median(part?.(more) ?? []))} in pairs`;
    console.error(`create ${name}: ${show()}; until a command ran: ${show(ran)}`);
  }
});
