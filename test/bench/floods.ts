// What four sandboxes that open connections as fast as they can cost a fifth: its new connections, by a rule of the
// kernel, through egressd and through the gateway, in rounds of each flood in turn. Guests are namespaces, the gateway the
// built one. The fifth has a server of its own: that of the floods, and their programs, have the lowest priority. It runs
// in its own network namespace.
// usage: [ROUNDS=4] [SECONDS=5] node test/bench/floods.ts
import '../support/network/own-network.ts';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import t from 'tap';
import { GATEWAY_OPTIONS } from '../../host-agent/src/app/context.ts';
import { HELPERS } from '../support/helper-programs.ts';
import { openInspectLab, WEB_IP } from '../support/network/inspect-lab.ts';
import { OTHER_IP } from '../support/network/lab.ts';
import { median, quantile } from './stats.ts';

t.setTimeout(0);
const ROUNDS = Number(process.env.ROUNDS ?? 4);
const SECONDS = Number(process.env.SECONDS ?? 5);
const FLOODING = 4;
/** Where the floods go. */
const FLOODED = 'other.test';
/** Ports of both servers, by how a rule lets a guest reach them. */
const WAYS = { direct: 9443, 'passed on': 9444, inspected: 9445 } as const;
type Way = keyof typeof WAYS;
const WAY_NAMES = Object.keys(WAYS) as Way[];
/** None; connections of TCP by a rule of the kernel; the same as egressd or the gateway judges them, and as they refuse. */
const FLOODS = {
  none: undefined,
  'by the kernel alone': { port: WAYS.direct, name: FLOODED },
  'passed on': { port: WAYS['passed on'], name: FLOODED },
  refused: { port: WAYS['passed on'], name: 'evil.test' },
  inspected: { port: WAYS.inspected, name: FLOODED },
} as const;
type Flood = keyof typeof FLOODS;
const FLOOD_NAMES = Object.keys(FLOODS) as Flood[];

const rulesFor = (host: string) =>
  [
    { host, protocol: 'tcp', ports: [WAYS.direct] },
    { host, protocol: 'tls', ports: [WAYS['passed on']] },
    { host, protocol: 'tls', ports: [WAYS.inspected], tls: 'inspect' },
  ] as const;
const SERVERS = `
for (const port of [${Object.values(WAYS).join(', ')}])
  https.createServer(certificates['ok.test'], (q, s) => s.end('x')).listen(port, IP);`;

const script = resolve(import.meta.dirname, '../../dist/gateway.cjs');
const { lab, open, roots, certificates } = await openInspectLab(t, SERVERS, {
  ...{ program: HELPERS.runtime, args: [...GATEWAY_OPTIONS, script], reads: [script] },
});
lab.names.set(FLOODED, [OTHER_IP]);
await lab.serve(
  lab.internet,
  `require('os').setPriority(19);
   for (const port of [${Object.values(WAYS).join(', ')}])
     require('https').createServer(${JSON.stringify(certificates[FLOODED])}, (q, s) => s.end('x')).listen(port, '${OTHER_IP}');
   setTimeout(() => console.log('up'), 300);`,
);
const openOne = (host: string) => open(t, { rules: [...rulesFor(host)] });
type Opened = Awaited<ReturnType<typeof openOne>>;

/** The guest's resolver opens the address for the rule of the kernel. */
const resolveFirst = ({ slot }: Opened, name: string): string =>
  `const dns = new (require('dns').promises.Resolver)(); dns.setServers(['${slot.gateway}']); await dns.resolve4('${name}');`;

const request = ({ run, ...guest }: Opened, seconds: number) =>
  run(`
  const secureContext = tls.createSecureContext({ ca: [ca, ${JSON.stringify(roots)}] });
  ${resolveFirst({ run, ...guest }, 'ok.test')}
  const get = (port) => new Promise((done, fail) => {
    const startedAt = performance.now();
    const q = https.get({ host: '${WEB_IP}', port, servername: 'ok.test', secureContext, agent: false, path: '/x', headers: { host: 'ok.test:' + port } }, (r) => {
      const took = performance.now() - startedAt; r.resume(); r.on('end', () => r.statusCode === 200 ? done(took) : fail(new Error('status ' + r.statusCode))); });
    q.on('error', fail); });
  const ways = ${JSON.stringify(WAYS)}; out.times = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
  // The others start meanwhile.
  await new Promise((next) => setTimeout(next, 1500));
  const until = performance.now() + ${seconds * 1000};
  while (performance.now() < until)
    for (const [way, port] of Object.entries(ways)) out.times[way].push(await get(port));`);

/** A whole hello each time, and its answer is not read. Costs the guest's own program as little as can be. */
const flood = (guest: Opened, { port, name }: { port: number; name: string }, seconds: number) =>
  guest.run(`
  require('os').setPriority(19);
  ${resolveFirst(guest, FLOODED)}
  const { Duplex } = require('stream');
  const hello = await new Promise((done) => { tls.connect({ servername: '${name}', socket: new Duplex({ read() {}, write(bytes) { done(bytes); } }) }).on('error', () => {}); });
  const until = performance.now() + ${seconds * 1000}; out.count = 0; out.answered = 0;
  const one = () => new Promise((next) => {
    const s = net.connect(port, '${OTHER_IP}', () => s.write(hello));
    s.on('data', () => { out.answered++; s.resetAndDestroy(); }); s.on('error', () => {}); s.on('close', next); s.setTimeout(1000, () => s.destroy()); });
  const port = ${port};
  await Promise.all(Array.from({ length: 16 }, async () => { while (performance.now() < until) { await one(); out.count++; } }));`);

const load = (): string => `load ${readFileSync('/proc/loadavg', 'utf8').split(' ')[0]}`;

t.test('the requests of one sandbox beside four that flood', async () => {
  const quiet = await openOne('ok.test');
  const flooding: Opened[] = [];
  for (let n = 0; n < FLOODING; n++) flooding.push(await openOne(FLOODED));
  await request(quiet, 1);
  const times = new Map(
    FLOOD_NAMES.map((name) => [name, new Map(WAY_NAMES.map((way) => [way, [] as number[]]))]),
  );
  const rates = new Map(FLOOD_NAMES.map((name) => [name, { opened: 0, answered: 0 }]));
  for (let round = 0; round < ROUNDS; round++)
    for (const name of round % 2 === 0 ? FLOOD_NAMES : FLOOD_NAMES.toReversed()) {
      const of = FLOODS[name];
      const seconds = SECONDS + 2;
      const floods = of === undefined ? [] : flooding.map((guest) => flood(guest, of, seconds));
      const [found = {}, ...counts] = await Promise.all([request(quiet, SECONDS), ...floods]);
      for (const way of WAY_NAMES)
        times
          .get(name)
          ?.get(way)
          ?.push(...((found.times as Record<Way, number[]>)[way] ?? []));
      const sum = rates.get(name);
      for (const { count, answered } of counts)
        if (sum !== undefined) {
          sum.opened += Number(count) / seconds / ROUNDS;
          sum.answered += Number(answered) / seconds / ROUNDS;
        }
    }
  for (const name of FLOOD_NAMES)
    for (const way of WAY_NAMES) {
      const values = times.get(name)?.get(way) ?? [];
      const more = (than: Flood, share: number) =>
        (100 * (quantile(values, share) / quantile(times.get(than)?.get(way) ?? [], share) - 1)).toFixed(0);
      const { opened = 0, answered = 0 } = rates.get(name) ?? {};
      const over = (['none', 'by the kernel alone'] as const)
        .map((than) => `${more(than, 0.5)} %, p99 ${more(than, 0.99)} % over ${than}`)
        .join('; ');
      console.error(
        `flood ${name} (${opened.toFixed(0)} a second, ${answered.toFixed(0)} answered), ${way}: ${median(values).toFixed(1)} ms, p99 ${quantile(values, 0.99).toFixed(1)} ms of ${values.length}; ${over} (${load()})`,
      );
    }
});
