// What egress rules cost where much flows: one download by a rule of the kernel, through egressd and through the gateway,
// in turn; and, in this process, the search for values of secrets in answers, the authority of a sandbox, and a
// certificate for a name. The guest is a namespace, the gateway the built one. It runs in its own network namespace.
// usage: [ROUNDS=9] [MIB=64] [NICE=-15] node test/bench/egress-streams.ts
// NICE: of all its processes, against the others of a busy machine.
import '../support/network/own-network.ts';
import { readFileSync, writeFileSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import t from 'tap';
import { GATEWAY_OPTIONS } from '../../host-agent/src/app/context.ts';
import { Redaction } from '../../host-agent/src/gateway/substitution/index.ts';
import { Leaves, makeAuthority } from '../../host-agent/src/network/authority/index.ts';
import { HELPERS } from '../support/helper-programs.ts';
import { openInspectLab, WEB_IP } from '../support/network/inspect-lab.ts';
import { median, quantile } from './stats.ts';

t.setTimeout(0);
const ROUNDS = Number(process.env.ROUNDS ?? 9);
const MIB = Number(process.env.MIB ?? 64);
const WAYS = { direct: 9443, 'passed on': 9444, inspected: 9445 } as const;
const RULES = [
  { host: 'ok.test', protocol: 'tcp', ports: [9443] },
  { host: 'ok.test', protocol: 'tls', ports: [9444] },
  { host: 'ok.test', protocol: 'tls', ports: [9445], tls: 'inspect' },
] as const;
const SERVERS = `
const block = Buffer.alloc(1048576, 'x');
const stream = (q, s) => { const next = (n) => { if (n === ${MIB}) return s.end(); if (s.write(block)) setImmediate(next, n + 1); else s.once('drain', () => next(n + 1)); }; next(0); };
for (const port of [9443, 9444, 9445]) https.createServer(certificates['ok.test'], stream).listen(port, IP);`;

const load = (): string => `load ${readFileSync('/proc/loadavg', 'utf8').split(' ')[0]}`;
const report = (line: string): void => console.error(`${line} (${load()})`);
const spread = (values: readonly number[], digits: number): string =>
  `${median(values).toFixed(digits)} (${quantile(values, 0.1).toFixed(digits)}–${quantile(values, 0.9).toFixed(digits)})`;

/** A session has its own share of the machine, whatever its processes' niceness is. */
const prefer = (pid: number | 'self'): void => {
  if (process.env.NICE !== undefined) writeFileSync(`/proc/${pid}/autogroup`, process.env.NICE);
};
prefer('self');
// The session is that of the shell which started this.
t.teardown(() => {
  if (process.env.NICE !== undefined) writeFileSync('/proc/self/autogroup', '0');
});

t.test('streams', async () => {
  const script = resolve(import.meta.dirname, '../../dist/gateway.cjs');
  const { lab, open, roots } = await openInspectLab(t, SERVERS, {
    ...{ program: HELPERS.runtime, args: [...GATEWAY_OPTIONS, script], reads: [script] },
  });
  const { run, slot } = await open(t, { rules: [...RULES] });
  const pidOf = (suffix: string): number => {
    const path = join(lab.dir, 'egress', basename(slot.namespace) + suffix);
    return (JSON.parse(readFileSync(path, 'utf8').split('\n')[1] ?? '{}') as { pid: number }).pid;
  };
  const inTurn = (rounds: number) => `
    const secureContext = tls.createSecureContext({ ca: [ca, ${JSON.stringify(roots)}] });
    const dns = new (require('dns').promises.Resolver)(); dns.setServers(['${slot.gateway}']); await dns.resolve4('ok.test');
    const read = (port) => new Promise((done, fail) => {
      const q = https.get({ host: '${WEB_IP}', port, servername: 'ok.test', secureContext, agent: false, path: '/x', headers: { host: 'ok.test:' + port } }, (r) => {
        const startedAt = performance.now(); let bytes = 0;
        r.on('data', (d) => { bytes += d.length; });
        r.on('end', () => bytes === ${MIB} * 1048576 ? done(${MIB} / ((performance.now() - startedAt) / 1000)) : fail(new Error(r.statusCode + ' ' + bytes))); });
      q.on('error', fail); });
    const ways = ${JSON.stringify(WAYS)}; out.rates = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
    for (let round = -1; round < ${rounds}; round++) { const all = Object.entries(ways); if (round % 2) all.reverse();
      for (const [way, port] of all) { const rate = await read(port); if (round >= 0) out.rates[way].push(rate); } }`;
  // It starts the gateway.
  await run(inTurn(0));
  for (const pid of [pidOf(''), pidOf('.gateway')]) prefer(pid);
  const { rates } = await run(inTurn(ROUNDS));
  const all = rates as Record<keyof typeof WAYS, number[]>;
  for (const [way, values] of Object.entries(all)) {
    const share = values.map((value, at) => (100 * value) / (all.direct[at] ?? Number.NaN));
    report(`stream, ${way}: ${spread(values, 0)} MiB/s, ${spread(share, 0)} % of direct`);
  }
});

t.test('the search for values', async () => {
  const value = Buffer.from('ghp_0123456789abcdefghijklmnopqrstuvwxyz');
  const texts = {
    'bytes without structure': Buffer.from(Array.from({ length: 65_536 }, (_, n) => (n * 7919) % 251)),
    'lines of text': Buffer.from('a line of an answer, as servers write them; 42\n'.repeat(1395)),
    JSON: Buffer.from('{"name":"x\\u0041","path":"a\\/b","list":[1,2,3]},'.repeat(1365)),
  };
  for (const [name, chunk] of Object.entries(texts)) {
    const rates: number[] = [];
    for (let round = -2; round < ROUNDS; round++) {
      const redactor = Redaction.of([{ value }]).redactor();
      const startedAt = process.cpuUsage();
      for (let n = 0; n < 512; n++) redactor.push(chunk);
      redactor.end();
      const { user, system } = process.cpuUsage(startedAt);
      if (round >= 0) rates.push((512 * chunk.length) / 2 ** 20 / ((user + system) / 1e6));
    }
    report(`the search in ${name}: ${spread(rates, 0)} MiB a second of CPU time`);
  }
});

t.test('certificates', async () => {
  const took = { authority: [] as number[], 'a name': [] as number[] };
  const timed = async (to: number[], work: () => Promise<unknown>): Promise<void> => {
    const startedAt = performance.now();
    await work();
    to.push(performance.now() - startedAt);
  };
  const leaves = new Leaves(await makeAuthority('sbx_bench'));
  await leaves.get('first.test');
  for (let n = 0; n < 100; n++) {
    await timed(took.authority, () => makeAuthority(`sbx_${n}`));
    await timed(took['a name'], () => leaves.get(`name-${n}.test`));
  }
  for (const [name, values] of Object.entries(took)) report(`${name}: ${spread(values, 2)} ms`);
});
