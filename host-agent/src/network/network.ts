// Networks of sandboxes: a namespace, tap, rules and resolver for each sandbox, and shared rules on the host. The
// host's part is set up for the first sandbox that needs a network, and removed when the daemon stops and no sandbox
// has one.
import { existsSync } from 'node:fs';
import { mkdir, readdir, rm, rmdir, statfs, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { ConnectionsInput } from '@sandboxd/proto';
import { AppError, isAppError } from '../lib/errors.ts';
import { formatIpv4Range } from '../lib/ipv4.ts';
import { Diallers } from './diallers.ts';
import { listTracked, readEndedFlow } from './flows.ts';
import { NetHelper } from './helper.ts';
import { HostSide, type HostSideOptions, hostLacks, listLinks } from './host-side.ts';
import type { NetworkOptions, ServeOptions } from './network-options.ts';
import type { NetworkPolicy } from './network-policy.ts';
import type { PortMode } from './port-control.ts';
import type { PublishedPort } from './port-holder.ts';
import { Published } from './published.ts';
import { RESOLVER_PORT } from './resolver/resolver.ts';
import { guestRules, isToGuest } from './rules/guest.ts';
import type { PortMap } from './rules/host.ts';
import { ServedGuest } from './served-guest.ts';
import { Slots } from './slots.ts';
import type { NetworkSlot } from './subnet.ts';
import { assertNoClash, assertOwnAddresses, findClash, linkOf, readRoutes, Subnet } from './subnet.ts';

/** `statfs` has it for a bind-mounted namespace, and not for the file beneath (linux/magic.h). */
const NSFS_MAGIC = 0x6e736673;

export class Network {
  readonly #options: NetworkOptions;
  readonly #dir: string;
  /** Two helper processes: `quick` for requests that a guest waits for, `slow` for those that take the kernel long. */
  readonly #quick: NetHelper;
  readonly #slow: NetHelper;
  #host: Promise<HostSide> | undefined;
  readonly #slots: Slots;
  /** By guest address. */
  readonly #served = new Map<string, ServedGuest>();
  readonly #published: Published;
  readonly #diallers: Diallers;
  /** A network was created before, so the host has everything that networks need. */
  #hasCreated = false;

  private constructor(options: NetworkOptions) {
    const { program, egressProgram, gateway, portUsers, runDir, log } = options;
    this.#options = options;
    this.#dir = join(runDir, 'net');
    this.#slots = new Slots(this.#dir);
    this.#quick = new NetHelper(program, {
      onLogged: (guestIp, packet) => {
        if (isToGuest(packet, guestIp)) this.#published.received(guestIp);
        else this.#served.get(guestIp)?.reports.refused(packet);
      },
      onEnded: (guestIp, text) => this.#served.get(guestIp)?.reports.ended(readEndedFlow(text)),
      onMissed: (guestIp, count) => this.#served.get(guestIp)?.onMissed(count),
      onUnwatched: (guestIp, err) =>
        log.warn({ err, guestIp }, 'denials and connections of a sandbox are no longer logged'),
    });
    this.#slow = new NetHelper(program);
    this.#diallers = new Diallers({ program: egressProgram, runDir, users: portUsers, gateway, log });
    this.#published = new Published({
      program: options.portProgram,
      runDir,
      users: portUsers,
      change: (namespace, commands) => this.#quick.request(['rules', namespace], commands),
      cut: ({ namespace, guestIp }, { guestPort = 0, hostIp = '-', hostPort = 0 }: Partial<PortMap> = {}) =>
        this.#slow.request(['cut', namespace, guestIp, String(guestPort), hostIp, String(hostPort)]),
    });
  }

  /** Changes nothing on the host. AppError conflict if a route of the host overlaps the configured subnet. */
  static async open(options: NetworkOptions): Promise<Network> {
    if (options.subnet !== undefined) assertNoClash(new Subnet(options.subnet), await readRoutes());
    const { subnet } = HostSide.recorded(options.records) ?? {};
    // Existing sandboxes have addresses of the recorded subnet, so a route that was added later is only logged.
    const clash = subnet && findClash(subnet, await readRoutes());
    if (clash !== undefined)
      options.log.warn(
        `the range of sandboxes' networks, ${subnet}, overlaps the route to ${formatIpv4Range(clash.range)} by ${clash.link || 'no link'}, which came later: this host cannot reach addresses of that route within the range; delete the sandboxes with networks, and start with another --network-subnet`,
      );
    return new Network(options);
  }

  /** Number of allocated slots. */
  get usedSlots(): number {
    return this.#slots.used;
  }

  /** Allocates a free slot, of which nothing exists yet. AppError unsupported names what the host lacks; exhausted. */
  async allocate(): Promise<NetworkSlot> {
    const { subnet } = await this.#open();
    return this.#slots.allocate(subnet);
  }

  /**
   * Creates the namespace, link, tap and rules, all or nothing. The guest cannot reach anything yet.
   * AppError unsupported names what the host lacks.
   */
  async create(slot: NetworkSlot): Promise<void> {
    await this.#open();
    const { namespace, guestIp, gateway, resolverIp, mac, gatewayMac } = slot;
    await mkdir(dirname(namespace), { recursive: true, mode: 0o700 });
    this.#slots.made(slot);
    try {
      await this.#slow.request(
        ['make', namespace, linkOf(slot), guestIp, gateway, resolverIp, mac, gatewayMac],
        guestRules({ ...slot, resolverPort: RESOLVER_PORT }),
      );
      this.#hasCreated = true;
    } catch (error) {
      const isStopping = isAppError(error) && error.code === 'cancelled';
      throw this.#hasCreated || isStopping ? error : hostLacks(error);
    }
  }

  /**
   * Whether its namespace exists, as it has to be: not after a reboot of the host, or of the container that the daemon
   * runs in, nor if a daemon was killed while it made it again.
   */
  async exists({ namespace }: NetworkSlot): Promise<boolean> {
    const { type } = await statfs(namespace).catch(() => ({ type: undefined }));
    return type === NSFS_MAGIC && !existsSync(unfinishedOf(namespace));
  }

  /** A slot with the same addresses in this run directory, for `createAgain`. */
  placed(slot: NetworkSlot): NetworkSlot {
    return this.#slots.placed(slot);
  }

  /**
   * As `create`, of a slot that does not exist any more. It exists when it has been started. AppError conflict for an
   * invalid record.
   */
  async createAgain(slot: NetworkSlot): Promise<void> {
    const { subnet } = await this.#open();
    assertOwnAddresses(slot, subnet);
    // Processes of the lost one may still hold its ports.
    await this.stop(slot);
    await this.#removeSlot(slot.namespace, undefined);
    await mkdir(dirname(slot.namespace), { recursive: true, mode: 0o700 });
    await writeFile(unfinishedOf(slot.namespace), '', { mode: 0o600 });
    await this.create(slot);
  }

  /** An earlier daemon made it: it is taken. AppError internal if another sandbox has it. */
  adopt(slot: NetworkSlot): void {
    this.#slots.adopt(slot);
  }

  /**
   * Also while it runs. `isAsleep`: its guest is away, as after `setPorts('hold')`. AppError conflict for a port in
   * use, invalid_argument for an address that this host does not have.
   */
  async publish(slot: NetworkSlot, ports: readonly PublishedPort[], isAsleep = false): Promise<void> {
    const { subnet } = await this.#open();
    if (ports.length > 0) await this.#published.add(subnet, slot, ports, isAsleep);
  }

  /** Closes a published port; its connections are reset. Idempotent. */
  async unpublish(slot: NetworkSlot, port: PublishedPort): Promise<void> {
    const { subnet } = await this.#open();
    await this.#published.close(subnet, slot, port);
  }

  /** Re-attaches ports that an earlier daemon published. AppError conflict for an invalid record of the slot. */
  async adoptPorts(slot: NetworkSlot, ports: readonly PublishedPort[], isAsleep: boolean): Promise<void> {
    const { subnet } = await this.#open();
    assertOwnAddresses(slot, subnet);
    if (ports.length > 0) await this.#published.adopt(subnet, slot, ports, isAsleep);
  }

  /** See `Published.setMode`. */
  async setPorts(slot: NetworkSlot, mode: PortMode, onHeld?: () => void): Promise<void> {
    const { subnet } = await this.#open();
    await this.#published.setMode(subnet, slot, mode, onHeld);
  }

  /** How many connections to published ports of all guests are open. */
  async countConnections(): Promise<number> {
    const range = HostSide.recorded(this.#options.records)?.subnet.range;
    return range ? Number(await this.#slow.request(['inward', ...formatIpv4Range(range).split('/')])) : 0;
  }

  /** See `Published.endConnections`. */
  async endConnections(slot: NetworkSlot): Promise<void> {
    await this.#published.endConnections(slot);
  }

  /** The guest's TCP connections that its network tracks, as its agent gets them. AppError exhausted: too many. */
  connections(slot: NetworkSlot): Promise<ConnectionsInput> {
    return listTracked(this.#quick, slot);
  }

  /** Starts to resolve names for the guest, and to log its denials. AppError conflict for an invalid record. */
  async start(slot: NetworkSlot, options: ServeOptions): Promise<void> {
    const { subnet } = await this.#open();
    assertOwnAddresses(slot, subnet);
    const { upstream, allowedRanges, log } = this.#options;
    const served = new ServedGuest(slot, options, {
      ...{ subnet, upstream, allowedRanges, log },
      ...{ quick: this.#quick, slow: this.#slow, diallers: this.#diallers },
    });
    // Before anything can fail: what an earlier daemon left open can be changed in any case.
    this.#served.set(slot.guestIp, served);
    await served.begin();
    if (!options.wasServed) await rm(unfinishedOf(slot.namespace), { force: true });
  }

  /**
   * Resolves with the number of connections that were closed: the new policy holds, and nothing passes that it does not
   * allow. AppError conflict where the network was lost. If it rejects, either policy may hold: it has to be shut.
   */
  async change({ guestIp }: NetworkSlot, policy: NetworkPolicy, generation?: number): Promise<number> {
    const served = this.#served.get(guestIp);
    if (served === undefined) throw new AppError('conflict', 'the network of the sandbox was lost');
    return served.change(policy, generation);
  }

  /** Requests have the secrets of the sandbox as they are now. */
  changeSecrets = async (slot: NetworkSlot): Promise<void> => this.#served.get(slot.guestIp)?.changeSecrets();

  /** Nothing that the guest sends passes until the next change. Of a network that was lost, nothing does anyway. */
  async shut({ guestIp }: NetworkSlot): Promise<void> {
    await this.#served.get(guestIp)?.shut();
  }

  /** Whether names are resolved for the guest, by the policy of its last start or change. */
  isServed = ({ guestIp }: NetworkSlot): boolean => this.#served.get(guestIp)?.isServed === true;

  /** The names, as far as they are known, that led the guest to an address. */
  namesOf({ guestIp }: NetworkSlot, address: string): readonly string[] {
    return this.#served.get(guestIp)?.namesOf(address) ?? [];
  }

  /** Stops the resolver and the denial log, and frees the published ports. Idempotent. */
  async stop(slot: NetworkSlot): Promise<void> {
    this.#quick.forget(slot.namespace);
    await this.#served.get(slot.guestIp)?.stop();
    this.#served.delete(slot.guestIp);
    await this.#diallers.stop(slot);
    await this.#published.remove(HostSide.recorded(this.#options.records)?.subnet, slot);
  }

  /** As `clear` and `free`, of a slot that the registry does not have. */
  async destroy(slot: NetworkSlot): Promise<void> {
    await this.clear(slot);
    this.free(slot);
  }

  /** The addresses of a slot that was cleared can be allocated again: call it when the registry has it no longer. */
  free(slot: NetworkSlot): void {
    this.#slots.free(slot);
  }

  /** Removes whatever exists of the slot; its addresses stay allocated. Idempotent. */
  async clear(slot: NetworkSlot): Promise<void> {
    await this.stop(slot);
    await this.#quick.unwatch(slot.namespace);
    await this.#removeSlot(slot.namespace, slot.guestIp);
    this.#slots.cleared(slot);
    // That of an earlier configuration; it contains those of other sandboxes until then.
    const dir = dirname(slot.namespace);
    if (dir !== this.#dir) await rmdir(dir).catch(() => undefined);
  }

  /** Garbage collection: removes slots that no sandbox has, and the host's part if no slot is in use. */
  async tidy(): Promise<void> {
    const { log } = this.#options;
    await this.#tidy().catch((err) =>
      log.error({ err }, 'cannot remove unused networks; the next daemon start tries again'),
    );
  }

  async #tidy(): Promise<void> {
    const earlier = HostSide.recorded(this.#options.records);
    if (earlier === undefined) return;
    const { subnet } = earlier;
    const retained = new Set([subnet.anchor, ...this.#slots.links]);
    const pins = (await readdir(this.#dir).catch(() => [])).map((name) => name.replace(/\.unfinished$/, ''));
    const links = (await listLinks()).filter((name) => name.startsWith(subnet.linkPrefix));
    for (const name of new Set([...pins, ...links])) {
      if (retained.has(name)) continue;
      await this.#removeSlot(join(this.#dir, name), subnet.guestIp(name));
      this.#options.log.info({ link: name }, 'removed an unused network of an earlier daemon');
    }
    await this.#diallers.tidy(retained);
    await this.#published.tidy(subnet, this.#dir);
    if (this.#slots.used === 0) await this.#removeHostSide();
  }

  /** Sandboxes keep their networks. If there are none, the host's part is removed. */
  async close(): Promise<void> {
    const { log } = this.#options;
    await this.#host?.catch(() => undefined);
    for (const served of this.#served.values()) await served.detach();
    this.#published.detach();
    this.#diallers.detach();
    if (this.#slots.used === 0)
      await this.#removeHostSide().catch((err) =>
        log.warn({ err }, 'cannot remove the rules and links of the host for sandbox networks'),
      );
    this.#quick.close();
    this.#slow.close();
  }

  async #removeSlot(namespace: string, guestIp: string | undefined): Promise<void> {
    await this.#slow.request(['remove', namespace, linkOf({ namespace })]);
    await rm(unfinishedOf(namespace), { force: true });
    if (guestIp === undefined) return;
    await this.#slow.request(['forget', guestIp]).catch((err) => {
      this.#options.log.warn({ err, guestIp }, 'cannot remove the conntrack entries of a deleted sandbox');
    });
  }

  async #removeHostSide(): Promise<void> {
    await HostSide.remove(this.#hostSideOptions());
    await rmdir(this.#dir).catch(() => undefined);
    await this.#diallers.removeDirectory();
  }

  #hostSideOptions(): HostSideOptions {
    const { subnet, records, log } = this.#options;
    return { subnet, records, helper: this.#quick, log };
  }

  /** A failed setup is retried by the next call. */
  #open(): Promise<HostSide> {
    if (this.#host === undefined) {
      this.#host = HostSide.open(this.#hostSideOptions());
      this.#host.catch(() => {
        this.#host = undefined;
      });
    }
    return this.#host;
  }
}

/** Beside the namespace from when it is made again until it is started. */
function unfinishedOf(namespace: string): string {
  return `${namespace}.unfinished`;
}
