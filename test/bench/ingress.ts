// A web server in a guest behind the ingress, and behind a published port of the host: requests in turn, and bytes.
// usage: node test/bench/ingress.ts, as root; both ways are measured in turn, in a network of their own
import '../support/network/own-network.ts';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { createServer } from 'node:net';
import t from 'tap';
import { startDaemon } from '../support/daemon.ts';
import { installInGuest } from '../support/guest-node.ts';
import { Lab } from '../support/network/lab.ts';
import { scaled } from '../support/time-scale.ts';

t.setTimeout(scaled(1_800_000));
const ROUNDS = 6;
const REQUESTS = 100;
const CLIENTS = 16;
const APP = 3000;
const MIB = 2 ** 20;

const lab = await Lab.open(t);
const probe = createServer().listen(0, '127.0.0.1');
await once(probe, 'listening');
const { port: ingress } = probe.address() as { port: number };
probe.close();
const daemon = await startDaemon(t, {
  flags: [
    ...['--dns-upstream', lab.names.address, '--ingress-listen', `127.0.0.1:${ingress}`],
    ...['--ingress-sandbox-rate', '0'],
  ],
});
const { api } = daemon;
const { id } = await api.create({
  memory_mib: 512,
  network: { enabled: true, allowlist: ['host.invalid'] },
  publish: [{ host_port: 8080, guest_port: APP }],
});
const node = await installInGuest(api, id, ['web-app'], []);
await api.ask('openPort', { params: { id }, body: { port: APP, access: 'public' } });
const command = `nohup ${node.command('web-app').join(' ')} ${APP} > /root/log 2>&1 &`;
await api.sh(id, command, { env: node.env });
await api.sh(id, 'until grep -q listening /root/log; do sleep 0.2; done');

type Way = { readonly name: string; readonly port: number; readonly host: string; readonly agent: Agent };
const WAYS: readonly Way[] = [
  { name: 'publish', port: 8080, host: 'localhost' },
  { name: 'ingress', port: ingress, host: `${APP}-${id.replace('_', '-')}.localhost:${ingress}` },
].map((way) => ({ ...way, agent: new Agent({ keepAlive: true, maxSockets: CLIENTS }) }));

async function ask({ port, host, agent }: Way, path: string): Promise<number> {
  const request = get({ host: '127.0.0.1', port, path, agent, headers: { host } });
  const [answer] = await once(request, 'response');
  let bytes = 0;
  for await (const chunk of answer) bytes += chunk.length;
  if (answer.statusCode !== 200) throw new Error(`status ${answer.statusCode}`);
  return bytes;
}

const median = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0;
const latencies = new Map(WAYS.map(({ name }) => [name, [] as number[]]));
const rates = new Map(WAYS.map(({ name }) => [name, [] as number[]]));
const speeds = new Map(WAYS.map(({ name }) => [name, [] as number[]]));
const cpu = new Map(WAYS.map(({ name }) => [name, [] as number[]]));
/** CPU time of the daemon, in ms; a tick of the kernel's clock has 10. */
const readCpuMs = (): number => {
  const fields = readFileSync(`/proc/${daemon.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10;
};
for (let round = 0; round < ROUNDS; round++)
  for (const way of WAYS) {
    const usedMs = readCpuMs();
    for (let at = 0; at < REQUESTS; at++) {
      const startedAt = performance.now();
      await ask(way, '/src/version.js');
      latencies.get(way.name)?.push(performance.now() - startedAt);
    }
    let left = REQUESTS;
    const startedAt = performance.now();
    const client = async (): Promise<void> => {
      while (left-- > 0) await ask(way, '/src/version.js');
    };
    await Promise.all(Array.from({ length: CLIENTS }, client));
    rates.get(way.name)?.push((REQUESTS * 1000) / (performance.now() - startedAt));
    cpu.get(way.name)?.push((readCpuMs() - usedMs) / (2 * REQUESTS));
    const beganAt = performance.now();
    const bytes = await ask(way, `/bytes/${8 * MIB}`);
    // A server closes connections that are idle for some seconds.
    way.agent.destroy();
    speeds.get(way.name)?.push(bytes / MIB / ((performance.now() - beganAt) / 1000));
  }
const table = WAYS.map(({ name }) => ({
  way: name,
  'p50 ms': median(latencies.get(name) ?? []).toFixed(2),
  [`requests/s, ${CLIENTS} clients`]: median(rates.get(name) ?? []).toFixed(0),
  'daemon ms of CPU a request': median(cpu.get(name) ?? []).toFixed(2),
  'MiB/s': median(speeds.get(name) ?? []).toFixed(1),
}));
console.table(table);
