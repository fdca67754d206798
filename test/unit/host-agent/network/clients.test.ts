// Resolver clients and our answers: the real C libraries and runtimes that Debian provides, and others by the bytes
// that they send. The upstream is a real dnsmasq.
import '../../../support/network/own-network.ts';
import { execFile } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { decode } from 'dns-packet';
import { pino } from 'pino';
import t from 'tap';
import { Allowlist } from '../../../../host-agent/src/network/resolver/allowlist.ts';
import { ResolverClient } from '../../../../host-agent/src/network/resolver/client.ts';
import { Resolver } from '../../../../host-agent/src/network/resolver/resolver.ts';
import { HostUpstream } from '../../../../host-agent/src/network/resolver/upstream.ts';
import { NameServer as Dnsmasq } from '../../../support/internet/name-server.ts';
import { Place } from '../../../support/internet/place.ts';
import { NameServer } from '../../../support/network/name-server.ts';
import { scaled } from '../../../support/time-scale.ts';

t.setTimeout(scaled(180_000));
const run = promisify(execFile);
const LOOKUP = resolve(import.meta.dirname, '../../../guest/lookup.c');
/** Realistic names; some are long. */
const NAMES: Readonly<Record<string, number>> = {
  'one.test': 1,
  'eight.storage-region-europe.amazonlike.test': 8,
  'sixteen.storage.googleapis-like.test': 16,
  'seventeen.ok.test': 17,
  'twenty-nine.ok.test': 29,
  'sixty.registry.bench-like.test': 60,
};
const [SLOW, NONE, GONE] = ['slow.test', 'none.test', 'gone.test'];
const SLOW_MS = 3000;

const dir = await mkdtemp('/tmp/dns-clients-');
t.teardown(() => rm(dir, { recursive: true, force: true }));
const host = new Place('host', undefined, ['93.184.217.1']);
t.teardown(() => host.close());
// Not only loopback: some clients do not query an address family that the host lacks.
await host.sh(
  'ip link set lo up; ip link add eth0 type veth peer name eth1; ip addr add 93.184.217.1/24 dev eth0',
);
await host.sh('ip link set eth0 up; ip link set eth1 up');
await writeFile(join(dir, 'resolv.conf'), 'nameserver 127.0.0.1\n');
await host.sh(`mount --bind ${dir}/resolv.conf /etc/resolv.conf`);

const dnsmasq = new Dnsmasq(host, dir);
await dnsmasq.serve([
  `listen-address=${host.address}`,
  ...Object.entries(NAMES).flatMap(([name, count]) =>
    Array.from({ length: count }, (_, at) => `host-record=${name},93.184.216.${at + 1},60`),
  ),
  `txt-record=${NONE},text`,
]);
const slow = await NameServer.open();
t.teardown(() => slow[Symbol.asyncDispose]());
slow.set(SLOW, ['93.184.216.1']);
slow.delayMs = SLOW_MS;
const [quickly, slowly] = [new HostUpstream([host.address]), new HostUpstream([slow.address])];
const opened = new Set<string>();
const client = new ResolverClient({
  names: new Allowlist([...Object.keys(NAMES), SLOW, NONE, GONE]),
  addresses: { allowed: [], subnet: { base: 0x0a570000, prefixLength: 16 } },
  upstream: { resolve: (name) => (name === SLOW ? slowly : quickly).resolve(name) },
  open: async (addresses) => {
    for (const { address } of addresses) opened.add(address);
  },
  onDenied: () => undefined,
  onFailed: () => undefined,
});
const asker = { address: '127.0.0.1', client };
const resolver = await Resolver.open({ host: '127.0.0.1', port: 53 }, asker, pino({ level: 'silent' }));
t.teardown(() => resolver.close());

/** The addresses that it finds, sorted; its error if there are none. */
type Client = (name: string) => Promise<readonly string[]>;

const linesOf =
  (...command: readonly string[]): Client =>
  async (name) => {
    const [program = '', ...args] = command;
    const { stdout } = await run(program, [...args, name]);
    return [...stdout.matchAll(/93\.184\.216\.\d+/g)].map(([address]) => address);
  };

async function compile(compiler: string, ...flags: readonly string[]): Promise<Client> {
  const program = join(dir, `lookup-${compiler}${flags.join('')}`);
  await run(compiler, [...flags, '-O1', '-Wall', '-Werror', '-o', program, LOOKUP]);
  return linesOf(program);
}

const script = (text: string): Client =>
  linesOf(process.execPath, '-e', `${text}.then((found) => console.log(JSON.stringify(found)))`);

/** How much of a long answer they get: `all` retry by TCP if UDP truncates. */
const CLIENTS: readonly (readonly [what: string, reach: 'all' | 'datagram', client: Client])[] = [
  ['glibc', 'all', await compile('gcc')],
  ['glibc, getent', 'all', linesOf('getent', 'ahostsv4')],
  ['musl', 'datagram', await compile('musl-gcc', '-static')],
  ['Node, as c-ares', 'all', script('require("dns").promises.resolve4(process.argv[1])')],
  ['Node, as the C library', 'all', script('require("dns").promises.lookup(process.argv[1], {all: true})')],
  ['busybox', 'datagram', linesOf('busybox', 'nslookup')],
];

for (const [what, reach, client] of CLIENTS) {
  t.test(`${what} finds what there is`, async (t) => {
    for (const [name, count] of Object.entries(NAMES)) {
      const all = Array.from({ length: count }, (_, at) => `93.184.216.${at + 1}`);
      const found = new Set(await client(name));
      const fits = Math.floor((512 - 12 - (name.length + 6)) / 16);
      const least = reach === 'all' ? count : Math.min(count, fits);
      t.ok(found.size >= least, `${found.size} of ${count} for ${name}`);
      t.same(
        [...found].filter((address) => !all.includes(address) || !opened.has(address)),
        [],
      );
    }
    t.same([...new Set(await client('ONE.Test'))], ['93.184.216.1'], 'in whatever case');
    for (const name of [GONE, NONE, 'other.test']) {
      const found = await client(name).catch(() => []);
      t.same(found, [], name);
    }
  });
}

t.test(
  'each of them waits for a name server that takes 3 s, which is not asked for each of them',
  async (t) => {
    const startedAt = performance.now();
    const found = await Promise.all(
      CLIENTS.map(([what, , client]) => client(SLOW).catch((error) => [`${what}: ${error}`])),
    );
    for (const [at, [what]] of CLIENTS.entries()) t.same([...new Set(found[at])], ['93.184.216.1'], what);
    const tookMs = performance.now() - startedAt;
    t.ok(tookMs > SLOW_MS - 100 && tookMs < scaled(4 * SLOW_MS), `${tookMs} ms`);
    t.ok(slow.asked.length <= CLIENTS.length, `${slow.asked.length} questions`);
  },
);

const RD = 0x0100;
const AD = 0x0020;
const CD = 0x0010;
const COOKIE = '000a00080102030405060708';
type Edns = { readonly size: number; readonly isDnssec?: boolean; readonly options?: string };

/** The flags and EDNS that each sends in an address query. */
const QUERIES: readonly (readonly [what: string, flags: number, edns?: Edns])[] = [
  ['glibc', RD],
  ['glibc with trust-ad', RD | AD],
  ['glibc with edns0', RD, { size: 1200 }],
  ['musl before 1.2', RD],
  ['musl 1.2 and later', RD | AD],
  ['Go', RD, { size: 1232 }],
  ['c-ares 1.18 of Debian, adig', RD],
  ['c-ares 1.34', RD, { size: 1232, options: COOKIE }],
  ['systemd-resolved', RD, { size: 1472 }],
  ['systemd-resolved with DNSSEC', RD | CD, { size: 65_494, isDnssec: true }],
  ['dig', RD | AD, { size: 1232, options: COOKIE }],
  ['dig +noedns, drill, Windows', RD],
  ['unbound', RD | CD, { size: 1232, isDnssec: true }],
  ['dnsmasq', RD, { size: 4096 }],
  ['Hickory, of Rust', RD, { size: 1232 }],
  ['one that takes less than it must', RD, { size: 0 }],
];

function toQuery(name: string, flags: number, edns: Edns | undefined): Buffer {
  const header = Buffer.from([0xab, 0xcd, flags >> 8, flags & 255, 0, 1, 0, 0, 0, 0, 0, edns ? 1 : 0]);
  const labels = name.split('.').map((label) => Buffer.concat([Buffer.of(label.length), Buffer.from(label)]));
  const question = Buffer.concat([header, ...labels, Buffer.from([0, 0, 1, 0, 1])]);
  if (edns === undefined) return question;
  const options = Buffer.from(edns.options ?? '', 'hex');
  const head = [
    0,
    0,
    41,
    edns.size >> 8,
    edns.size & 255,
    0,
    0,
    edns.isDnssec ? 0x80 : 0,
    0,
    0,
    options.length,
  ];
  return Buffer.concat([question, Buffer.from(head), options]);
}

async function askByUdp(query: Buffer): Promise<Buffer> {
  const socket = createSocket('udp4');
  socket.send(query, 53, '127.0.0.1');
  const [answer] = (await once(socket, 'message', { signal: AbortSignal.timeout(scaled(10_000)) })) as [
    Buffer,
  ];
  socket.close();
  return answer;
}

async function askByTcp(query: Buffer): Promise<Buffer> {
  const socket = connect(53, '127.0.0.1');
  socket.end(Buffer.concat([Buffer.from([query.length >> 8, query.length & 255]), query]));
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).subarray(2);
}

t.test('what each sends is answered within what it takes', async (t) => {
  for (const [what, flags, edns] of QUERIES)
    for (const [name, count] of Object.entries(NAMES)) {
      const query = toQuery(name, flags, edns);
      const questionBytes = name.length + 6;
      const [byUdp, byTcp] = [await askByUdp(query), await askByTcp(query)];
      const most = Math.min(1232, Math.max(512, edns?.size ?? 0));
      const fits = Math.floor((most - 12 - questionBytes - (edns ? 11 : 0)) / 16);
      t.ok(byUdp.length <= most, `${what}: ${name} in ${byUdp.length} bytes`);
      for (const [answer, expected] of [
        [byUdp, Math.min(count, fits)],
        [byTcp, count],
      ] as const) {
        t.same(answer.subarray(12, 12 + questionBytes), query.subarray(12, 12 + questionBytes));
        t.match(decode(answer), { id: 0xabcd, rcode: 'NOERROR', flag_ra: true });
        const { flag_tc, answers, additionals } = decode(answer);
        t.same([answers?.length, flag_tc], [expected, expected < count], `${what}: ${name}`);
        t.equal(additionals?.length, edns ? 1 : 0, 'EDNS for those that know it');
      }
    }
});
