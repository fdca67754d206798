// The parts of a fleet that a test starts, kills and cuts off: hosts with their disks and clocks, gateways, the API
// server and the bucket.
import { execFileSync } from 'node:child_process';
import { basename } from 'node:path';
import { pino } from 'pino';
import type { Test } from 'tap';
import { makeHome } from '../../memory-host/daemon.ts';
import { startS3 } from '../../s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../s3/store.ts';
import { scaled } from '../../time-scale.ts';
import { type Fleet, type FleetHost, startFleet } from '../fleet.ts';
import { ChaosBucket } from './bucket.ts';
import { type Clock, withClock } from './clocks.ts';
import type { Random } from './random.ts';

export const NAMES = ['h0', 'h1', 'h2'];
export const TOKEN = 'abcdef.0123456789abcdef';
/** An engine holds a host for dead that has not renewed its Lease for this long. */
const GRACE_MS = scaled(5000);
const UNUSED_MS = scaled(3000);
const LOST_MS = scaled(3000);
const LONG_START_MS = 60_000;
/** Whose logs are kept. */
const MAX_PAST = 20;
/** Lines of the logs of gateways and hosts about the fleet, the last ones. */
const MAX_LINES = 20_000;

/** Of the sandbox that a pod is the place of. */
export const idOf = (pod: string): string => pod.split('-').slice(0, 2).join('_');

export type Gateway = Awaited<ReturnType<Fleet['gateway']>> & { readonly clock: Clock };

export class World {
  readonly test: Test;
  readonly random: Random;
  readonly fleet: Fleet;
  readonly bucket: ChaosBucket;
  readonly settings: ReturnType<typeof makeStoreSettings>;
  /** Those that run. */
  readonly hosts = new Map<string, FleetHost>();
  readonly gateways: Gateway[] = [];
  readonly problems = new Set<string>();
  isApiDown = false;
  readonly #homes = new Map<string, Awaited<ReturnType<typeof makeHome>>>();
  readonly #clocks = new Map<string, Clock>();
  readonly #stores = new Map<string, ReturnType<typeof openTestStore>>();
  readonly #limitMs: number;
  readonly #lines: readonly string[];
  /** Of daemons that have ended, the last ones first. */
  readonly #past: FleetHost[] = [];
  /** Parts that start or end now. */
  readonly #busy = new Map<string, Promise<void>>();

  private constructor(
    test: Test,
    parts: Pick<World, 'fleet' | 'bucket' | 'settings' | 'random'> & {
      readonly limitMs: number;
      readonly lines: readonly string[];
    },
  ) {
    this.test = test;
    this.fleet = parts.fleet;
    this.bucket = parts.bucket;
    this.settings = parts.settings;
    this.random = parts.random;
    this.#limitMs = parts.limitMs;
    this.#lines = parts.lines;
  }

  static async start(test: Test, random: Random, limitMs: number): Promise<World> {
    const lines: string[] = [];
    const write = (line: string): void => {
      if (lines.push(line.trim()) > MAX_LINES) lines.splice(0, MAX_LINES / 10);
    };
    const log = process.env.FLEET_LOG === undefined ? pino({ level: 'info' }, { write }) : undefined;
    const fleet = await startFleet(test, { hasIdentities: true, ...(log && { log }) });
    fleet.api.bootstrapTokens.add(TOKEN);
    test.teardown(fleet.api.watchLeases(GRACE_MS));
    const s3 = await startS3(test);
    const settings = makeStoreSettings(test, s3.url);
    const bucket = new ChaosBucket(s3, random);
    const world = new World(test, { fleet, bucket, settings, random, limitMs, lines });
    // Before what closes the servers, which waits for answers.
    test.teardown(() => bucket.heal());
    for (const name of NAMES) await world.startHost(name);
    await fleet.ready(NAMES.length);
    for (let n = 0; n < 2; n++) await world.startGateway();
    return world;
  }

  /** Does it in the background, unless that part is starting or ending already. */
  begin(part: string, work: () => Promise<unknown>): void {
    if (this.#busy.has(part)) return;
    const done = work()
      .catch((error: unknown) => this.problems.add(`${part}: ${error}`))
      .then(() => void this.#busy.delete(part));
    this.#busy.set(part, done);
  }

  /** Of all that run. */
  get clocks(): readonly Clock[] {
    return [...this.#clocks.values(), ...this.gateways.map(({ clock }) => clock)];
  }

  async startHost(name: string): Promise<void> {
    const clock = this.#clocks.get(name) ?? { offsetMs: 0 };
    this.#clocks.set(name, clock);
    const atMs = performance.now();
    const home = this.#homes.get(name) ?? (await makeHome(this.test));
    this.#homes.set(name, home);
    // As a guest that runs does, it changes its memory between two saves.
    home.host.onSave = (count) => {
      home.host.savedMemory = `memory ${name} ${String(count).padStart(6)}`;
    };
    const opened = openTestStore(this.test, this.settings);
    this.#stores.set(name, opened);
    const options = {
      home,
      snapshotStore: opened.store,
      unusedMs: UNUSED_MS,
      isAwaited: false,
      timeoutMs: this.#limitMs,
    };
    const start = () => this.fleet.host(name, { ...options, bootstrapToken: TOKEN, checkMs: scaled(500) });
    this.hosts.set(name, await withClock(clock, start));
    // All hosts share one event loop here, and a start reads the logs of each sandbox of the last hour.
    const tookMs = performance.now() - atMs;
    if (tookMs > LONG_START_MS) this.test.comment(`${name} started in ${Math.round(tookMs / 1000)} s`);
  }

  async crashHost(name: string): Promise<void> {
    const host = this.hosts.get(name);
    this.hosts.delete(name);
    this.bucket.endSilence();
    const { store, collector } = this.#stores.get(name) ?? {};
    store?.close();
    collector?.close();
    if (host !== undefined) this.#past.unshift(host);
    for (const { daemon } of this.#past.splice(MAX_PAST)) daemon.lines.length = 0;
    await host?.crash();
  }

  /** Where a sandbox is now, and what hosts have logged about it. */
  explain(id: string): string[] {
    const hosts = [...this.hosts.values()];
    const holders = hosts.filter(({ daemon }) => daemon.manager.list().some((each) => each.id === id));
    const lines = [...hosts, ...this.#past].flatMap(({ name, daemon }) =>
      daemon.lines
        .map((line) => JSON.stringify(line))
        .filter((line) => line.includes(id))
        .map((line) => `${name}: ${line}`),
    );
    const happened = [...hosts, ...this.#past].flatMap(({ name, daemon }) =>
      daemon.happened.flatMap((event) =>
        JSON.stringify(event).includes(id) ? [`${name}: ${event.kind}`] : [],
      ),
    );
    return [
      `${id}: at ${holders.map(({ name }) => name).join()} of ${hosts.map(({ name }) => name).join()}; guest ${this.guests().includes(id)}; pod ${this.pods().find((pod) => idOf(pod) === id)}`,
      ...happened,
      ...lines,
      ...this.#lines.filter((line) => line.includes(id)),
    ];
  }

  async startGateway(): Promise<Gateway> {
    const clock = { offsetMs: 0 };
    const gateway = await withClock(clock, () => this.fleet.gateway({ sweepMs: 500, lostMs: LOST_MS }));
    const own = { ...gateway, clock };
    this.gateways.push(own);
    return own;
  }

  cordon(name: string, unschedulable: boolean): void {
    const { objects } = this.fleet.api;
    const node = objects.find('nodes', '', name);
    if (node !== undefined) objects.change('nodes', node, { spec: { unschedulable } });
  }

  /** Of each host that runs, what its registry has. */
  registries(): { readonly host: string; readonly id: string; readonly state: string }[] {
    return [...this.hosts.values()].flatMap(({ name, daemon }) =>
      daemon.manager.list().map(({ id, state }) => ({ host: name, id, state })),
    );
  }

  /** Ids of guests that run, also on hosts whose daemon is off. */
  guests(): string[] {
    return [...this.#homes.values()].flatMap(({ host }) =>
      host.running.map(({ identity }) => basename(identity.paths.socketDir)),
    );
  }

  homes(): ReadonlyMap<string, { readonly dataDir: string; readonly runDir: string }> {
    return this.#homes;
  }

  pods(): string[] {
    return this.fleet.api.objects.list('pods').map(({ metadata }) => metadata.name);
  }

  /** Everything answers again, and each host runs. */
  async heal(): Promise<void> {
    const { api } = this.fleet;
    nft('flush set inet chaos silent');
    if (this.isApiDown) await api.listen();
    this.isApiDown = false;
    this.bucket.heal();
    for (const clock of this.clocks) clock.offsetMs = 0;
    healIdentities(this.fleet);
    for (const name of NAMES) this.cordon(name, false);
    await Promise.all(this.#busy.values());
    for (const name of NAMES) if (!this.hosts.has(name)) await this.startHost(name);
  }
}

export function healIdentities({ api }: Fleet): void {
  api.distrusted.clear();
  api.bootstrapTokens.add(TOKEN);
  api.approval = 'approve';
  if (api.signer !== undefined) api.signer.lifetimeS = undefined;
  for (const { metadata, status } of api.objects.list('certificatesigningrequests'))
    if (status === undefined) api.decide(metadata.name);
}

export function nft(...args: string[]): void {
  execFileSync('nft', args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

/** Ports in the set get nothing, and send nothing, though their connections stay open. */
export function prepareNetwork(): void {
  execFileSync('ip', ['link', 'set', 'lo', 'up']);
  nft('add table inet chaos');
  nft('add set inet chaos silent { type inet_service; flags timeout; }');
  nft('add chain inet chaos input { type filter hook input priority 0; }');
  nft('add rule inet chaos input tcp dport @silent drop');
  nft('add rule inet chaos input tcp sport @silent drop');
}
