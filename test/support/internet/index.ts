// An internet of network namespaces: a router, and machines around it with public, private and special addresses, each
// with listening services. The test itself and its daemons are on one of them, the host: it imports
// ../network/own-network.ts before everything else.
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Test } from 'tap';
import { NameServer } from './name-server.ts';
import { Place } from './place.ts';

export { Place } from './place.ts';

const run = promisify(execFile);

/**
 * Addresses by machine; all except `host` have an echo service on port 7 (TCP and UDP) and a web page with their name.
 */
const MACHINES = {
  /** Where the test and its daemons run. */
  host: ['45.33.10.10', '45.33.11.10', '2a02:4780:10::10'],
  /** A machine in the host's network. */
  neighbour: ['45.33.10.20', '2a02:4780:10::20'],
  dns: ['9.9.9.10'],
  web: ['93.184.216.34', '2a02:4780:20::34'],
  web2: ['93.184.216.35', '2a02:4780:20::35'],
  /** The metadata service of a cloud. */
  metadata: ['169.254.169.254', 'fd00:ec2::254'],
  /** Private networks, which guests must not reach. */
  inside: ['10.20.0.5', '172.20.0.5', '192.168.50.5', 'fd12:3456::5'],
  /** Other ranges that are not public: carrier-grade NAT, benchmarks, documentation, reserved. */
  special: [
    '100.64.0.5',
    '198.18.0.5',
    '203.0.113.5',
    '192.0.2.5',
    '198.51.100.5',
    '192.88.99.5',
    '240.0.0.5',
  ],
} as const;

type MachineName = keyof typeof MACHINES;

const ROUTER = '45.33.10.1';
const ROUTER_V6 = 'fe80::1';

type Internet = {
  readonly machines: Readonly<Record<MachineName, Place>>;
  readonly router: Place;
  readonly names: NameServer;
  /** Flags for a daemon. */
  readonly daemonFlags: readonly string[];
};

export async function openInternet(t: Pick<Test, 'teardown'>): Promise<Internet> {
  const prefix = `inet${process.pid}`;
  const dir = await mkdtemp(join(tmpdir(), 'internet-'));
  const place = (name: string, addresses: readonly string[] = []): Place =>
    new Place(name, name === 'host' ? undefined : `${prefix}-${name}`, addresses);
  const router = place('router');
  const machines = Object.fromEntries(
    Object.entries(MACHINES).map(([name, addresses]) => [name, place(name, addresses)]),
  ) as Record<MachineName, Place>;
  const places = [router, ...Object.values(machines)];
  t.teardown(async () => {
    for (const each of places) await each.close();
    const deletions = places.flatMap(({ namespace }) =>
      namespace === undefined ? [] : [`netns delete ${namespace}`],
    );
    await batch(undefined, ['link delete eth0', ...deletions], ['-force']).catch(() => undefined);
    await rm(dir, { recursive: true, force: true });
  });
  await lay(router, Object.values(machines));
  await Promise.all(
    Object.values(machines)
      .filter((machine) => machine !== machines.host)
      .map((machine) => listen(machine, dir)),
  );
  const names = new NameServer(machines.dns, dir);
  await names.serve([]);
  return {
    ...{ machines, router, names },
    daemonFlags: ['--dns-upstream', machines.dns.address],
  };
}

/** Runs many commands of `ip` in one process. */
async function batch(
  namespace: string | undefined,
  commands: readonly string[],
  flags: readonly string[] = [],
): Promise<void> {
  const where = namespace === undefined ? [] : ['-n', namespace];
  const child = run('ip', [...flags, ...where, '-batch', '-']);
  child.child.stdin?.end(`${commands.join('\n')}\n`);
  await child;
}

const isV6 = (address: string): boolean => address.includes(':');

async function lay(router: Place, machines: readonly Place[]): Promise<void> {
  const own = (name: string): string => `veth-${name}`;
  const spaces = [router, ...machines].flatMap(({ namespace }) => namespace ?? []);
  await batch(undefined, [
    ...spaces.map((namespace) => `netns add ${namespace}`),
    ...machines.map(({ name, namespace }) => {
      const link = `link add ${own(name)} netns ${router.namespace} type veth peer name eth0`;
      return namespace === undefined ? link : `${link} netns ${namespace}`;
    }),
  ]);
  await router.sh(
    'sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0',
  );
  await batch(router.namespace, [
    `address add ${ROUTER}/32 dev lo`,
    'link set lo up',
    ...machines.flatMap(({ name, addresses }) => [
      `link set ${own(name)} addrgenmode none`,
      `link set ${own(name)} up`,
      `address add ${ROUTER_V6}/64 dev ${own(name)} nodad`,
      ...addresses.map((address) => `route add ${address} dev ${own(name)}`),
    ]),
  ]);
  await Promise.all(machines.map((machine) => connect(machine)));
}

/** The router answers ARP for all machines. */
async function connect({ namespace, addresses }: Place): Promise<void> {
  await batch(namespace, [
    'link set lo up',
    'link set eth0 up',
    ...addresses.map((address) => `address add ${address} dev eth0${isV6(address) ? ' nodad' : ''}`),
    `route add ${ROUTER} dev eth0 scope link`,
    `route add default via ${ROUTER} dev eth0`,
    ...(addresses.some(isV6) ? [`route add default via ${ROUTER_V6} dev eth0`] : []),
  ]);
}

/** Starts an echo service that first prints the peer's address, and a web page with the machine's name. */
async function listen(machine: Place, dir: string): Promise<void> {
  const pages = join(dir, machine.name);
  await mkdir(pages);
  await writeFile(join(pages, 'index.html'), machine.name);
  // A sparse file of zeros.
  await run('truncate', ['-s', '256M', join(pages, 'large')]);
  const echo = `'SYSTEM:"echo $SOCAT_PEERADDR; exec cat"'`;
  const echoes = machine.addresses.flatMap((address) => {
    const [family, bound] = isV6(address) ? [6, `[${address}]`] : [4, address];
    return [
      `socat -T 600 TCP${family}-LISTEN:7,bind=${bound},fork,reuseaddr ${echo}`,
      // Bound, so that it answers from the requested address.
      `socat -T 5 UDP${family}-RECVFROM:7,bind=${bound},fork ${echo}`,
    ];
  });
  const programs = [`busybox httpd -f -p '[::]:80' -h ${pages}`, ...echoes, 'wait'];
  machine.start('sh', '-c', programs.join(' & '));
  await machine.listening('tcp', 80);
  for (const address of machine.addresses)
    for (const protocol of ['tcp', 'udp'] as const) await machine.listening(protocol, 7, address);
}
