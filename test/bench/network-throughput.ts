// A program: TCP throughput between a guest and another host, and of the same VMM on a tap that is connected directly
// to the peer. It runs in its own network namespace and prints its section as JSON. usage: BENCH_ARGUMENTS="[rounds]
// [MiB]" node test/bench/network-throughput.ts
import '../support/network/own-network.ts';
import { execFile } from 'node:child_process';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Api, SandboxJson } from '../support/api.ts';
import { makeDirectories, removeDirectories, spawnDaemon } from '../support/daemon.ts';
import { openInternet } from '../support/internet/index.ts';
import { median, type Section, spread } from './stats.ts';

const [ROUNDS = 9, SIZE_MIB = 64] = (process.env.BENCH_ARGUMENTS ?? '')
  .split(' ')
  .filter(Boolean)
  .map(Number);
const [SINK, PORT, HOST_PORT] = [9000, 8000, 8080];

/** Sends this much to a port and waits until it was received: MiB/s. Perl, because git brings it to every profile. */
const SEND = `
use IO::Socket::INET; use Time::HiRes 'time';
my ($host, $port, $mib) = @ARGV;
my $block = 'x' x 1048576;
my $s = IO::Socket::INET->new(PeerAddr => $host, PeerPort => $port, Timeout => 60) or die "connect: $@";
my $at = time;
for (1..$mib) { my $n = 0; $n += syswrite($s, $block, 1048576 - $n, $n) // die "send: $!" while $n < 1048576 }
shutdown($s, 1);
sysread($s, my $got, 99);
die "$got received" if $got != $mib * 1048576;
print $mib / (time - $at), "\\n";
`;
/** Receives everything and prints the number of bytes. */
const TAKE = `
use IO::Socket::INET;
$| = 1;
my $l = IO::Socket::INET->new(LocalAddr => $ARGV[0], LocalPort => $ARGV[1], Listen => 9, ReuseAddr => 1) or die "listen: $@";
print "up\\n";
while (my $c = $l->accept) {
  my ($n, $got, $buffer) = (0);
  $n += $got while $got = sysread($c, $buffer, 1048576);
  syswrite($c, $n); close($c);
}
`;

const undo: (() => unknown)[] = [];
const teardown = (work: () => unknown): void => void undo.unshift(work);
const internet = await openInternet({ teardown } as never);
const { host, web } = internet.machines;
/** The router itself, one link away. */
const NEXT = '45.33.10.1';
await internet.names.serve([`host-record=web.test,${web.address},600`, `host-record=next.test,${NEXT},600`]);
const directories = await makeDirectories();
const daemon = await spawnDaemon(directories, { flags: internet.daemonFlags });
const { api } = daemon;
const options = {
  network: { enabled: true, allowlist: ['web.test', 'next.test'] },
  service: { cmd: ['perl', '-e', TAKE, '0.0.0.0', String(PORT)] },
};

/** Runs the script in a namespace of this host; returns its first line. */
async function onHost(namespace: string, script: string, ...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)('nsenter', [
    ...[`--net=${namespace}`, '--', 'perl', '-e', script],
    ...args,
  ]);
  return stdout;
}

async function inGuest({ id }: SandboxJson, place: string): Promise<number> {
  const { stdout, stderr } = await (api as Api).exec(id, [
    ...['perl', '-e', SEND, place, String(SINK), String(SIZE_MIB)],
  ]);
  if (stderr !== '') throw new Error(stderr);
  return Number(stdout);
}

const fromHost = async (namespace: string, place: string, port: number): Promise<number> =>
  Number(await onHost(namespace, SEND, place, String(port), String(SIZE_MIB)));

async function measure(): Promise<Section> {
  const ours = await api.create({ ...options, publish: [{ host_port: HOST_PORT, guest_port: PORT }] });
  const known = await readdir(join(directories.runDir, 'net'));
  const bare = await api.create(options);
  const [pin = ''] = (await readdir(join(directories.runDir, 'net'))).filter((name) => !known.includes(name));
  const tap = join(directories.runDir, 'net', pin);
  // From here on, the tap is connected directly to the processes in its namespace.
  await promisify(execFile)('nsenter', [`--net=${tap}`, '--', 'nft', 'flush', 'ruleset']);
  const { gateway = '', guest_ip: guestIp = '' } = bare.network ?? {};
  for (const [where, address] of [
    [web.path, web.address],
    [internet.router.path, NEXT],
    [tap, gateway],
  ] as const) {
    const sink = web.start('nsenter', `--net=${where}`, '--', 'perl', '-e', TAKE, address, String(SINK));
    await new Promise((resolve) => sink.stdout?.once('data', resolve));
  }
  for (const { id } of [ours, bare])
    await api.sh(id, `until grep -q :1F40 /proc/net/tcp; do sleep 0.2; done`);
  const out: [number[], number[], number[]] = [[], [], []];
  const into: [number[], number[], number[]] = [[], [], []];
  for (let round = -1; round < ROUNDS; round++) {
    const rates = [
      [out[1], () => inGuest(bare, gateway)],
      [out[0], () => inGuest(ours, 'next.test')],
      [out[2], () => inGuest(ours, 'web.test')],
      [into[1], () => fromHost(tap, guestIp, PORT)],
      [into[0], () => fromHost(internet.router.path, host.address, HOST_PORT)],
      [into[2], () => fromHost(host.path, '127.0.0.1', HOST_PORT)],
    ] as const;
    for (const [list, rate] of round % 2 === 0 ? rates : rates.toReversed()) {
      const value = await rate();
      // The first round is the warm-up.
      if (round >= 0) list.push(value);
    }
  }
  const percent = (part: readonly number[], whole: readonly number[]): string =>
    `**${(median(part.map((rate, index) => rate / (whole[index] ?? Number.NaN))) * 100).toFixed(0)} %**`;
  const row = (name: string, part: readonly number[], whole: readonly number[]) => [
    ...[name, spread(whole, 0, 'MiB/s'), spread(part, 0, 'MiB/s'), percent(part, whole)],
  ];
  return {
    title: 'Network throughput',
    note: `${ROUNDS} rounds after one warm-up of ${SIZE_MIB} MiB each over one TCP connection, in turn and the other way round each second time. Bare: a sandbox of the same create whose namespace has no rules, with the other end in that namespace, on the tap itself. Sandbox: by way of its gates, the host and its masquerade, or of its published port. Ratio: median of the rounds' ratios; to reach: at least 80 %.`,
    head: ['', 'bare tap', 'sandbox', 'ratio'],
    rows: [
      row('guest → the next host', out[0], out[1]),
      row('the next host → published port', into[0], into[1]),
      row('guest → a host behind a router', out[2], out[1]),
      row('the host itself → published port, passed on by `portd`', into[2], into[1]),
    ],
  };
}

try {
  process.stdout.write(`${JSON.stringify(await measure())}\n`);
} finally {
  await daemon.end();
  for (const work of undo) await work();
  await removeDirectories(directories);
}
process.exit(0);
