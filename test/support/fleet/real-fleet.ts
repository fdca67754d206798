// A fleet of built daemons with real guests and of gateways in processes of their own, for tests that kill them. The
// API server and the bucket are in this process.
import { rm } from 'node:fs/promises';
import type { Test } from 'tap';
import { type Daemon, leftovers, makeDirectories, removeDirectories, spawnDaemon } from '../daemon.ts';
import type { Directories } from '../leftovers.ts';
import { startS3 } from '../s3/server.ts';
import { makeStoreSettings, storeFlags } from '../s3/store.ts';
import { until } from '../until.ts';
import { type Fleet, startFleet } from './fleet.ts';

type Host = { readonly directories: Directories; daemon: Daemon | undefined };
type GatewayProcess = Awaited<ReturnType<Fleet['gatewayProcess']>>;

export class RealFleet {
  readonly fleet: Fleet;
  readonly gateways: (GatewayProcess | undefined)[] = [];
  /** How many times a host took a sandbox of another, as far as daemons have ended. */
  moved = 0;
  readonly #hosts = new Map<string, Host>();
  readonly #flags: readonly string[];

  private constructor(fleet: Fleet, flags: readonly string[]) {
    this.fleet = fleet;
    this.#flags = flags;
  }

  /** Daemons that still run at the end of the test are killed, with their guests. */
  static async start(t: Test, { hosts, gateways }: { hosts: readonly string[]; gateways: number }) {
    const flags = storeFlags(makeStoreSettings(t, process.env.S3 ?? (await startS3(t)).url));
    const fleet = await startFleet(t);
    const world = new RealFleet(fleet, flags);
    t.teardown(() => world.#clear());
    for (const name of hosts) {
      world.#hosts.set(name, { directories: await makeDirectories(), daemon: undefined });
      await world.startHost(name);
    }
    await fleet.ready(hosts.length);
    for (let at = 0; at < gateways; at++) await world.startGateway(at);
    return world;
  }

  async startHost(name: string): Promise<void> {
    const host = this.#get(name);
    const flags = [...this.#flags, ...this.fleet.joinFlags(name)];
    host.daemon ??= await spawnDaemon(host.directories, { flags, onExit: 'keep' });
  }

  /** Its guests go on. */
  async killHost(name: string): Promise<void> {
    const host = this.#get(name);
    await host.daemon?.end('SIGKILL');
    this.#countMoves(host);
    host.daemon = undefined;
  }

  /** Its disks are gone too, and its Node, as an operator deletes it with the pods that it has. */
  async loseHost(name: string): Promise<void> {
    await this.killHost(name);
    const { dataDir, runDir } = this.#get(name).directories;
    this.#hosts.delete(name);
    await Promise.all([dataDir, runDir].map((dir) => rm(dir, { recursive: true })));
    const { objects } = this.fleet.api;
    objects.delete('nodes', '', name, 0);
    for (const pod of objects.list('pods')) if (pod.spec.nodeName === name) objects.removePod(pod);
  }

  async startGateway(at: number): Promise<void> {
    this.gateways[at] = await this.fleet.gatewayProcess();
  }

  killGateway(at: number): void {
    this.gateways[at]?.kill();
    this.gateways[at] = undefined;
  }

  cordon(name: string, unschedulable: boolean): void {
    const { objects } = this.fleet.api;
    objects.change('nodes', objects.get('nodes', '', name), { spec: { unschedulable } });
  }

  get urls(): string[] {
    return this.gateways.flatMap((gateway) => gateway?.url ?? []);
  }

  /** Of all hosts; each must run. */
  get daemons(): readonly Daemon[] {
    return [...this.#hosts.values()].map(({ daemon }) => {
      if (daemon === undefined) throw new Error('a host does not run');
      return daemon;
    });
  }

  podNames(): string[] {
    return this.fleet.api.objects.list('pods').map(({ metadata }) => metadata.name);
  }

  /** Ends all hosts as an operator does, once no sandbox is left. Returns what they leave. */
  async end(): Promise<string[]> {
    await until(() => this.podNames().length === 0, 'no pod', 120_000);
    const left: string[] = [];
    for (const [name, { daemon, directories }] of this.#hosts) {
      const code = await daemon?.end();
      this.#countMoves({ daemon });
      if (code !== 0) left.push(`${name} ended with ${code}`);
      // Answers to requests with a key are meant to stay.
      const found = await leftovers(directories, { ignore: ['record idempotency_'] });
      left.push(...found.map((line) => `${name}: ${line}`));
      await removeDirectories(directories);
      this.#hosts.delete(name);
    }
    return left;
  }

  #countMoves({ daemon }: Pick<Host, 'daemon'>): void {
    const arrivals = daemon?.log.filter(({ msg }) => msg === 'a sandbox of another host is here') ?? [];
    this.moved += arrivals.length;
  }

  #get(name: string): Host {
    const host = this.#hosts.get(name);
    if (host === undefined) throw new Error(`no host ${name}`);
    return host;
  }

  /** After a failure: a daemon that is asked for it ends its guests. */
  async #clear(): Promise<void> {
    for (const { daemon, directories } of this.#hosts.values()) {
      await daemon?.end('SIGKILL');
      const last = await spawnDaemon(directories, { onExit: 'destroy' });
      await last.end();
      await removeDirectories(directories);
    }
  }
}
