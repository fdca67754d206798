// A program in its own network namespace: results of the addon's network functions, as JSON.
import './addon-dir.ts';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { parseMac } from '../../../../guest-agent/src/machine/network.ts';
import { addon } from '../../../../guest-agent/src/native/addon.ts';

const NAME = 'guest0';
const run = (...args: string[]): string => execFileSync('ip', args, { encoding: 'utf8' });

type Pair = { readonly client: Socket; readonly fate: Promise<string> };

async function open(port: number, host: string): Promise<Pair> {
  const client = connect(port, host);
  await once(client, 'connect');
  const fate = once(client, 'error').then(
    ([error]: unknown[]) => (error as NodeJS.ErrnoException).code ?? '',
  );
  return { client, fate };
}

const look = () => ({
  links: JSON.parse(run('-j', 'address', 'show', 'dev', NAME)),
  routes: run('route').trim().split(/\s*\n/),
  neighbours: run('neighbour', 'show', 'dev', NAME).trim(),
  ipv6: readFileSync(`/proc/sys/net/ipv6/conf/${NAME}/disable_ipv6`, 'utf8').trim(),
});

run('link', 'set', 'lo', 'up');
run('link', 'add', NAME, 'type', 'veth', 'peer', 'name', 'other0');
run('link', 'set', 'other0', 'up');
run('link', 'set', NAME, 'up');
run('address', 'add', '10.1.0.2/24', 'dev', NAME);
run('route', 'add', '192.0.2.0/24', 'via', '10.1.0.9');
run('neighbour', 'add', '10.1.0.9', 'lladdr', '02:00:00:00:00:09', 'dev', NAME, 'nud', 'permanent');

const server = createServer((socket) => socket.on('error', () => undefined).write('x')).listen(0, '0.0.0.0');
await once(server, 'listening');
const { port } = server.address() as { port: number };
// A guest that was paused: its network knows one of two connections, and nothing of those to the guest itself.
run('address', 'add', '10.1.0.3/24', 'dev', 'other0');
const tuple = (own: number, peer: number) => {
  const bytes = Buffer.alloc(8);
  bytes.writeUInt16BE(own, 0);
  bytes.writeUInt16BE(peer, 2);
  bytes.set([10, 1, 0, 3], 4);
  return bytes;
};
const openFrom = async (host: string): Promise<Pair> => {
  const client = connect({ port: Number(port), host, localAddress: '10.1.0.2' });
  await once(client, 'connect');
  const fate = Promise.race([
    once(client, 'error').then(([error]: unknown[]) => (error as NodeJS.ErrnoException).code ?? ''),
    once(client, 'end').then(() => 'end'),
  ]);
  client.resume();
  return { client, fate };
};
const [kept, forgotten, own] = await Promise.all([
  openFrom('10.1.0.3'),
  openFrom('10.1.0.3'),
  openFrom('10.1.0.2'),
]);
const abortedForgotten = addon.abortForgotten(
  Uint8Array.of(10, 1, 0, 2),
  tuple(kept.client.localPort ?? 0, port),
);
const forgottenFate = await forgotten.fate;
const keptFates = await Promise.race([
  Promise.race([kept.fate, own.fate]),
  new Promise((resolve) => setTimeout(resolve, 300)).then(() => 'live'),
]);
kept.client.resetAndDestroy();
own.client.resetAndDestroy();
run('address', 'del', '10.1.0.3/24', 'dev', 'other0');

const [outer, inner] = await Promise.all([open(port, '10.1.0.2'), open(port, '127.0.0.1')]);
const aborted = addon.abortConnections();
const outerFate = await outer.fate;
const innerFate = await Promise.race([inner.fate, once(inner.client, 'data').then(() => 'lives')]);

const mac = '02:00:00:00:00:02';
const gatewayMac = parseMac('02:00:00:00:00:01');
addon.setInterface(NAME, parseMac(mac), '10.8.0.2', 30, '10.8.0.1', gatewayMac);
const first = look();
for (const [address, label] of [
  ['10.8.0.3/32', NAME],
  ['10.2.0.2/24', `${NAME}:1`],
  ['10.3.0.2/24', `${NAME}:1`],
] as const)
  run('address', 'add', address, 'dev', NAME, 'label', label);
run('route', 'add', '198.51.100.0/24', 'via', '10.2.0.9');
addon.setInterface(NAME, parseMac(mac), '10.9.0.2', 30, '10.9.0.1', gatewayMac);
const second = look();
const failures = ['nothing0', NAME].map((name, index) => {
  try {
    // A gateway outside the interface's subnet.
    addon.setInterface(
      name,
      parseMac(mac),
      '10.9.0.2',
      30,
      index === 0 ? '10.9.0.1' : '10.8.0.1',
      gatewayMac,
    );
    return 'none';
  } catch (error) {
    return String(error);
  }
});
addon.setInterface(NAME, parseMac(mac), '10.9.0.2', 30, '10.9.0.1', gatewayMac);
const again = await open(port, '10.9.0.2');

process.stdout.write(
  JSON.stringify({
    forgotten: [abortedForgotten, forgottenFate, keptFates],
    aborted,
    outerFate,
    innerFate,
    failures,
    seen: [first, second, look()],
  }),
);
again.client.destroy();
inner.client.destroy();
server.close();
