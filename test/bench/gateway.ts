// What the gateway costs: connections and requests through TLS that is passed on, TLS that is inspected and HTTP that is
// read, beside the same server by a rule of the kernel, in turn; and its memory. The guest is a namespace, the gateway
// the built one. It runs in its own network namespace. usage: [ROUNDS=60] [SECONDS=4] [NICE=-15] node test/bench/gateway.ts
// NICE: of all its processes, against the others of a busy machine.
import '../support/network/own-network.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import t from 'tap';
import { GATEWAY_OPTIONS } from '../../host-agent/src/app/context.ts';
import { HELPERS } from '../support/helper-programs.ts';
import { openInspectLab, WEB_IP } from '../support/network/inspect-lab.ts';
import { until } from '../support/until.ts';
import { cpuMs, smaps } from './processes.ts';
import { median, quantile } from './stats.ts';

t.setTimeout(0);
const ROUNDS = Number(process.env.ROUNDS ?? 60);
const SECONDS = Number(process.env.SECONDS ?? 4);
const IDLE_CONNECTIONS = 200;

/** Ports of the same servers, by how their rule lets the guest reach them. */
const WAYS = {
  'tls direct': 9443,
  'tls passed on': 9444,
  'tls inspected': 9445,
  'http direct': 9080,
  'http bound': 9081,
  'http read': 9082,
} as const;
type Way = keyof typeof WAYS;
const WAY_NAMES = Object.keys(WAYS) as Way[];
const DIRECT = { host: 'ok.test', protocol: 'tcp', ports: [9443, 9080] } as const;
const RULES = [
  DIRECT,
  { host: 'ok.test', protocol: 'tls', ports: [9444] },
  { host: 'ok.test', protocol: 'tls', ports: [9445], tls: 'inspect' },
  { host: 'ok.test', protocol: 'http', ports: [9081] },
  { host: 'ok.test', protocol: 'http', ports: [9082], methods: ['GET'], paths: ['/**'] },
] as const;

const SERVERS = `
const body = Buffer.alloc(1024, 'x');
const reply = (q, s) => { s.setHeader('content-length', 1024); s.end(body); };
for (const port of [9443, 9444, 9445]) https.createServer({ ...certificates['ok.test'], keepAliveTimeout: 3600e3 }, reply).listen(port, IP);
for (const port of [9080, 9081, 9082]) http.createServer({ keepAliveTimeout: 3600e3 }, reply).listen(port, IP);`;

/** Resolves with the milliseconds of each. */
const CLIENT = (ca: string) => `
const trusted = [ca, ${JSON.stringify(ca)}];
const secureContext = tls.createSecureContext({ ca: trusted });
const optionsOf = (port) => port > 9400 ? { module: https, host: '${WEB_IP}', port, servername: 'ok.test', secureContext, session: undefined } : { module: http, host: '${WEB_IP}', port };
const get = ({ module, ...options }, agent) => new Promise((done, fail) => {
  const startedAt = performance.now();
  const q = module.get({ ...options, agent, path: '/x', headers: { host: 'ok.test:' + options.port } }, (r) => {
    const firstAt = performance.now(); if (r.statusCode !== 200) fail(new Error('status ' + r.statusCode + ' ' + options.port)); r.resume(); r.on('end', () => done(firstAt - startedAt)); });
  q.on('error', fail);
});
const agentOf = ({ module }, sockets = 1) => new module.Agent({ keepAlive: true, maxSockets: sockets, maxCachedSessions: 0 });
`;

const program = HELPERS.runtime;
const script = resolve(import.meta.dirname, '../../dist/gateway.cjs');
const { lab, open, roots } = await openInspectLab(t, SERVERS, {
  ...{ program, args: [...GATEWAY_OPTIONS, script], reads: [script] },
});
const { run, slot, background } = await open(t, { rules: [...RULES] });

const pidOf = (suffix: string): number => {
  const path = join(lab.dir, 'egress', basename(slot.namespace) + suffix);
  return (JSON.parse(readFileSync(path, 'utf8').split('\n')[1] ?? '{}') as { pid: number }).pid;
};
/** A session has its own share of the machine, whatever its processes' niceness is. */
const prefer = (pid: number | 'self'): void => {
  if (process.env.NICE !== undefined) writeFileSync(`/proc/${pid}/autogroup`, process.env.NICE);
};
// The session is that of the shell which started this.
t.teardown(() => {
  if (process.env.NICE !== undefined) writeFileSync('/proc/self/autogroup', '0');
});
const report = (line: string): void => console.error(line);
const memory = async (what: string): Promise<void> => {
  const { rssMib, pssMib, anonymousMib } = await smaps(pidOf('.gateway'));
  const relay = await smaps(pidOf(''));
  report(
    `memory ${what}: gateway ${rssMib.toFixed(1)} MiB resident, ${pssMib.toFixed(1)} PSS, ${anonymousMib.toFixed(1)} anonymous; egressd ${relay.pssMib.toFixed(2)} PSS`,
  );
};
const load = (): string => `load ${readFileSync('/proc/loadavg', 'utf8').split(' ')[0]}`;

const inPairs = (times: Record<Way, number[]>, unit: string): void => {
  for (const way of WAY_NAMES) {
    const base = times[way.startsWith('tls') ? 'tls direct' : 'http direct'];
    const more = times[way].map((value, at) => value - (base[at] ?? 0));
    report(
      `${unit}, ${way}: ${median(times[way]).toFixed(2)} ms, +${median(more).toFixed(2)} in pairs; p95 ${quantile(times[way], 0.95).toFixed(2)} (${load()})`,
    );
  }
};
const each = (body: string): string => `
  ${CLIENT(roots)}
  const dns = new (require('dns').promises.Resolver)(); dns.setServers(['${slot.gateway}']); await dns.resolve4('ok.test');
  const ways = ${JSON.stringify(WAYS)}; out.times = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
  const inTurn = async (once) => { for (let round = -5; round < ${ROUNDS}; round++) { const all = Object.entries(ways); if (round % 2) all.reverse();
    for (const [way, port] of all) { const took = await once(way, port); if (round >= 0) out.times[way].push(took); } } };
  ${body}`;

t.test('the gateway starts', async () => {
  const { first } = await run(
    each(
      `const startedAt = performance.now(); await get(optionsOf(${WAYS['tls inspected']}), false); out.first = performance.now() - startedAt;`,
    ),
  );
  report(`first connection, which starts the gateway: ${Number(first).toFixed(0)} ms (${load()})`);
  for (const pid of [pidOf(''), pidOf('.gateway'), 'self'] as const) prefer(pid);
  await memory('after one connection');
});

t.test('connections', async () => {
  const { times } = await run(each(`await inTurn((way, port) => get(optionsOf(port), false));`));
  inPairs(times as Record<Way, number[]>, 'new connection');
  await memory('after those');
});

t.test('CPU time of connections', async () => {
  for (const way of ['tls passed on', 'tls inspected', 'http bound', 'http read'] as const) {
    const [gatewayBefore, relayBefore] = [await cpuMs([pidOf('.gateway')]), await cpuMs([pidOf('')])];
    await run(
      each(`for (let round = 0; round < ${ROUNDS}; round++) await get(optionsOf(${WAYS[way]}), false);`),
    );
    const gateway = ((await cpuMs([pidOf('.gateway')])) - gatewayBefore) / ROUNDS;
    const relay = ((await cpuMs([pidOf('')])) - relayBefore) / ROUNDS;
    report(
      `CPU a connection, ${way}: gateway ${gateway.toFixed(2)} ms, egressd ${relay.toFixed(2)} ms (${load()})`,
    );
  }
});

t.test('requests on kept connections', async () => {
  const { times } = await run(
    each(`const agents = Object.fromEntries(Object.entries(ways).map(([way, port]) => [way, agentOf(optionsOf(port))]));
      await inTurn((way, port) => get(optionsOf(port), agents[way]));`),
  );
  inPairs(times as Record<Way, number[]>, 'request');
});

t.test('requests a second', async () => {
  for (const way of [...WAY_NAMES, ...WAY_NAMES.toReversed()]) {
    const [gatewayBefore, relayBefore] = [await cpuMs([pidOf('.gateway')]), await cpuMs([pidOf('')])];
    const { count } = await run(
      each(`const at = optionsOf(${WAYS[way]}), agent = agentOf(at, 16); await Promise.all(Array.from({ length: 16 }, () => get(at, agent)));
        const until = performance.now() + ${SECONDS * 1000}; out.count = 0;
        await Promise.all(Array.from({ length: 16 }, async () => { while (performance.now() < until) { await get(at, agent); out.count++; } }));`),
    );
    const total = Number(count);
    const gateway = ((await cpuMs([pidOf('.gateway')])) - gatewayBefore) / total;
    const relay = ((await cpuMs([pidOf('')])) - relayBefore) / total;
    report(
      `requests, ${way}: ${(total / SECONDS).toFixed(0)} a second; CPU a request: gateway ${gateway.toFixed(2)} ms, egressd ${relay.toFixed(2)} ms (${load()})`,
    );
  }
  await memory('after those');
});

t.test('idle connections', async () => {
  const lines = await background(`
    ${CLIENT(roots)}
    const at = optionsOf(${WAYS['tls inspected']}), agent = agentOf(at, ${IDLE_CONNECTIONS});
    for (let count = 0; count < ${IDLE_CONNECTIONS / 20}; count++) await Promise.all(Array.from({ length: (count + 1) * 20 }, () => get(at, agent)));
    console.log('all');`);
  await until(() => lines.includes('all'), 'the connections', 120_000);
  await memory(`with ${IDLE_CONNECTIONS} idle connections`);
});
