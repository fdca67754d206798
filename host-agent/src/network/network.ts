// Networks of sandboxes: a namespace with a tap and its rules for each, rules of the host for all, and the resolver. Nothing of
// it is on the host before the first sandbox wants it, nor after the last one of a daemon that stops.
import { randomInt } from 'node:crypto';
import { mkdir, readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Logger } from 'pino';
import { AppError, isAppError } from '../lib/errors.ts';
import { formatIpv4Range, type Ipv4Range } from '../lib/ipv4.ts';
import type { Table } from '../store/store.ts';
import { AllowedAddresses, readOpenings } from './allowed-addresses.ts';
import { DenialLog } from './denial-log.ts';
import { NetHelper } from './helper.ts';
import { HostSide, type HostSideOptions, type HostSideRecord, hostLacks } from './host-side.ts';
import { listLinks } from './links.ts';
import type { PublishedPort, Users } from './port-holder.ts';
import { Published } from './published.ts';
import { ResolverClient } from './resolver/client.ts';
import { RESOLVER_PORT } from './resolver/port.ts';
import { Resolver } from './resolver/resolver.ts';
import type { Upstream } from './resolver/upstream.ts';
import { GUEST_TABLE, guestRules } from './rules/guest.ts';
import type { NetworkSlot } from './slot.ts';
import { assertNoClash, findClash, readRoutes, Subnet } from './subnet.ts';

export type NetworkOptions = {
  /** The range that slots are of; absent: one that is free. */
  readonly subnet?: Ipv4Range | undefined;
  /** Special ranges that names may lead to. */
  readonly allowedRanges: readonly Ipv4Range[];
  readonly upstream: Upstream;
  /** For the files that keep namespaces. */
  readonly runDir: string;
  readonly records: Table<HostSideRecord>;
  /** Path of the program that changes namespaces. */
  readonly program: string;
  /** Path of the program that holds published ports. */
  readonly portProgram: string;
  /** Whom that runs as. */
  readonly portUsers: Users;
  readonly log: Logger;
};

export type ServeOptions = {
  readonly allowlist: readonly string[];
  /** An earlier daemon did so, too: what it opened stays open. */
  readonly wasServed: boolean;
  /** Gets what the guest was refused, as lines for its log. */
  readonly onDenied: (text: string) => void;
};

const TAP = 'tap0';
/** The same for every guest: each is alone on its link, and a copy of a guest need not change its own. */
const GUEST_MAC = '02:00:00:00:00:02';
const GATEWAY_MAC = '02:00:00:00:00:01';

export class Network {
  readonly #options: NetworkOptions;
  readonly #dir: string;
  /** For what a guest waits for; the other one for what takes the kernel long. */
  readonly #quick: NetHelper;
  readonly #slow: NetHelper;
  #host: Promise<HostSide> | undefined;
  /** Names of the links that a sandbox has, or is about to have. */
  readonly #taken = new Set<string>();
  readonly #denials = new Map<string, DenialLog>();
  /** Guests' addresses by the namespaces that are listened to. */
  readonly #listening = new Map<string, string>();
  /** By guests' addresses. */
  readonly #resolvers = new Map<string, Resolver>();
  readonly #published: Published;
  #next: number | undefined;
  /** Then the host has all that networks need. */
  #hasMade = false;

  private constructor(options: NetworkOptions) {
    const { program, runDir } = options;
    this.#options = options;
    this.#dir = join(runDir, 'net');
    const onLogged = (guestIp: string, packet: Buffer) => this.#denials.get(guestIp)?.packet(packet);
    this.#quick = new NetHelper(program, onLogged, () => this.#listenAgain());
    this.#slow = new NetHelper(program);
    this.#published = new Published({
      program: options.portProgram,
      dir: join(runDir, 'ports'),
      users: options.portUsers,
      change: (namespace, commands) => this.#quick.ask(['rules', namespace], commands),
    });
  }

  /** Changes nothing on the host. AppError conflict where the subnet is one that the host has a route to. */
  static async open(options: NetworkOptions): Promise<Network> {
    if (options.subnet !== undefined) assertNoClash(new Subnet(options.subnet), await readRoutes());
    const { subnet } = HostSide.recorded(options.records) ?? {};
    // Sandboxes have addresses of it: what was chosen before the route came cannot be changed under them.
    const clash = subnet && findClash(subnet, await readRoutes());
    if (clash !== undefined)
      options.log.warn(
        `the range of sandboxes' networks, ${subnet}, overlaps the route to ${formatIpv4Range(clash.range)} by ${clash.link || 'no link'}, which came later: what is there and in that range is not reached from this host; delete the sandboxes with networks, and start with another --network-subnet`,
      );
    return new Network(options);
  }

  /** How many sandboxes have one, or are about to. */
  get usedSlots(): number {
    return this.#taken.size;
  }

  /** A slot that nobody has; nothing of it exists yet. AppError unsupported with what the host lacks, exhausted. */
  async allocate(): Promise<NetworkSlot> {
    const { subnet } = await this.#open();
    for (let tries = 0; tries < subnet.slots; tries++) {
      // Long not used: what still comes to the one that had it last does not find the next.
      this.#next = ((this.#next ?? randomInt(subnet.slots)) + 1) % subnet.slots;
      const number = this.#next;
      const link = subnet.link(number);
      if (!subnet.isForSandboxes(number) || this.#taken.has(link)) continue;
      this.#taken.add(link);
      const macs = { mac: GUEST_MAC, gatewayMac: GATEWAY_MAC };
      return { namespace: join(this.#dir, link), tap: TAP, ...macs, ...subnet.addresses(number) };
    }
    throw new AppError('exhausted', `all ${subnet.slots - 2} networks of ${subnet} are taken`);
  }

  /** Makes it: all of it, or nothing. Its guest reaches nothing. AppError unsupported with what the host lacks. */
  async create(slot: NetworkSlot): Promise<void> {
    await this.#open();
    const { namespace, guestIp, gateway, resolverIp, mac, gatewayMac } = slot;
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    try {
      await this.#slow.ask(
        ['make', namespace, linkOf(slot), guestIp, gateway, resolverIp, mac, gatewayMac],
        guestRules({ ...slot, resolverPort: RESOLVER_PORT }),
      );
      this.#hasMade = true;
    } catch (error) {
      const isStopping = isAppError(error) && error.code === 'cancelled';
      throw this.#hasMade || isStopping ? error : hostLacks(error);
    }
  }

  /** An earlier daemon made it: it is taken. */
  adopt(slot: NetworkSlot): void {
    this.#taken.add(linkOf(slot));
  }

  /** AppError conflict for a port that somebody has, invalid_argument for an address that is not the host's. */
  async publish(slot: NetworkSlot, ports: readonly PublishedPort[]): Promise<void> {
    const { subnet } = await this.#open();
    if (ports.length > 0) await this.#published.add(subnet, slot, ports);
  }

  /** What an earlier daemon published. */
  async adoptPorts(slot: NetworkSlot, ports: readonly PublishedPort[]): Promise<void> {
    const { subnet } = await this.#open();
    if (ports.length > 0) await this.#published.adopt(subnet, slot, ports);
  }

  /** From now on names are answered to its guest, and what it is refused is told. */
  async start(slot: NetworkSlot, { allowlist, wasServed, onDenied }: ServeOptions): Promise<void> {
    const { subnet } = await this.#open();
    const { namespace, guestIp, resolverIp } = slot;
    const denials = new DenialLog(onDenied);
    const change = (commands: string) => this.#quick.ask(['rules', namespace], commands);
    const open = new AllowedAddresses(change);
    if (wasServed) open.remember(readOpenings(await change(`list set ${GUEST_TABLE} allowed`)));
    const { upstream, allowedRanges, log } = this.#options;
    this.#denials.set(guestIp, denials);
    await this.#listen(slot);
    const client = new ResolverClient({
      allowlist,
      upstream,
      addresses: { allowed: allowedRanges, subnet: subnet.range },
      open: (addresses) => open.open(addresses),
      onDenied: (name, why) => denials.name(name, why),
      onFailed: (name, error, step) => {
        const level = denials.trouble(name, step) && step === 'open' ? 'warn' : 'debug';
        log[level]({ err: error, guestIp, name }, 'cannot resolve a name for a sandbox');
      },
    });
    // Its own: what waits there in the kernel is in nobody else's way.
    const at = { host: resolverIp, port: RESOLVER_PORT };
    this.#resolvers.set(guestIp, await Resolver.open(at, { address: guestIp, client }, log));
  }

  /** Nothing is answered any more, and its ports are free. Can be called again. */
  async stop(slot: NetworkSlot): Promise<void> {
    this.#denials.delete(slot.guestIp);
    this.#listening.delete(slot.namespace);
    await this.#resolvers.get(slot.guestIp)?.close();
    this.#resolvers.delete(slot.guestIp);
    await this.#published.remove(HostSide.recorded(this.#options.records)?.subnet, slot);
  }

  /** Removes whatever there is of it; its addresses may then be another's. Can be called again. */
  async destroy(slot: NetworkSlot): Promise<void> {
    await this.stop(slot);
    await this.#quick.ask(['unwatch', slot.namespace]);
    await this.#removeSlot(linkOf(slot), slot.guestIp);
    this.#taken.delete(linkOf(slot));
  }

  /** Removes what an earlier daemon left of slots that are nobody's; everything, where nobody has one. */
  async tidy(): Promise<void> {
    const { log } = this.#options;
    await this.#tidy().catch((err) =>
      log.error({ err }, 'cannot remove what is left of networks; the next start tries again'),
    );
  }

  async #tidy(): Promise<void> {
    const earlier = HostSide.recorded(this.#options.records);
    if (earlier === undefined) return;
    const { subnet } = earlier;
    const kept = new Set([subnet.anchor, ...this.#taken]);
    const pins = await readdir(this.#dir).catch(() => []);
    const links = (await listLinks()).filter((name) => name.startsWith(subnet.linkPrefix));
    for (const name of new Set([...pins, ...links])) {
      if (kept.has(name)) continue;
      await this.#removeSlot(name, subnet.guestIp(name));
      this.#options.log.info({ link: name }, 'removed a network that an earlier daemon left');
    }
    await this.#published.tidy(subnet, this.#dir);
    if (this.#taken.size === 0) await this.#removeHostSide();
  }

  /** Sandboxes keep theirs. Without any, the host is as it was. */
  async close(): Promise<void> {
    const { log } = this.#options;
    await this.#host?.catch(() => undefined);
    for (const resolver of this.#resolvers.values()) await resolver.close();
    if (this.#taken.size === 0)
      await this.#removeHostSide().catch((err) =>
        log.warn({ err }, 'cannot remove what networks had of the host'),
      );
    this.#quick.close();
    this.#slow.close();
  }

  async #removeSlot(link: string, guestIp: string | undefined): Promise<void> {
    await this.#slow.ask(['remove', join(this.#dir, link), link]);
    if (guestIp === undefined) return;
    await this.#slow.ask(['forget', guestIp]).catch((err) => {
      this.#options.log.warn(
        { err, guestIp },
        'the host goes on tracking connections of a sandbox that is gone',
      );
    });
  }

  async #removeHostSide(): Promise<void> {
    await HostSide.remove(this.#hostSideOptions());
    await rmdir(this.#dir).catch(() => undefined);
  }

  #hostSideOptions(): HostSideOptions {
    const { subnet, records, log } = this.#options;
    return { subnet, records, helper: this.#quick, log };
  }

  /** What failed is tried again by the next who asks. */
  #open(): Promise<HostSide> {
    if (this.#host === undefined) {
      this.#host = HostSide.open(this.#hostSideOptions());
      this.#host.catch(() => {
        this.#host = undefined;
      });
    }
    return this.#host;
  }

  async #listen({ namespace, guestIp }: Pick<NetworkSlot, 'namespace' | 'guestIp'>): Promise<void> {
    this.#listening.set(namespace, guestIp);
    await this.#quick.ask(['watch', namespace, guestIp]);
  }

  #listenAgain(): void {
    for (const [namespace, guestIp] of this.#listening)
      this.#quick.ask(['watch', namespace, guestIp]).catch((err) => {
        this.#options.log.warn({ err, guestIp }, 'what a sandbox is refused is not logged any more');
      });
  }
}

/** The file of a namespace has the name of its link. */
function linkOf({ namespace }: NetworkSlot): string {
  return namespace.slice(namespace.lastIndexOf('/') + 1);
}
