// A fleet in this process: hosts whose sandboxes are in memory, gateways, and a Kubernetes that is a stand-in or real.
import { randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import { parse } from 'yaml';
import { openCordons, readSnapshotHoldings, toLocal } from '../../../host-agent/src/app/open-fleet.ts';
import { PODS_TABLE } from '../../../host-agent/src/app/open-pods.ts';
import type { HostTls } from '../../../host-agent/src/fleet/front/host-connections.ts';
import {
  FleetFront,
  FleetSeal,
  HostConnections,
  type IdentityRecord,
  type KeysOfRecord,
  KubeClient,
  KubernetesCatalogue,
  NodeAgent,
  NodeIdentity,
  type PlaceRecord,
  type PodRecord,
  readKubeconfig,
  SharedKeys,
} from '../../../host-agent/src/fleet/index.ts';
import type { ConsoleFiles, Placement } from '../../../host-agent/src/http/index.ts';
import { isWebSocketRequest, takesConnection } from '../../../host-agent/src/http/server/hijack.ts';
import { AnswerRecords } from '../../../host-agent/src/idempotency/index.ts';
import { IngressServer } from '../../../host-agent/src/ingress/index.ts';
import { serveE2b } from '../../http/e2b-front.ts';
import { serve } from '../../http/support.ts';
import { NO_CONSOLE } from '../console.ts';
import { type MemoryDaemon, makeHome, startMemoryDaemon } from '../memory-host/daemon.ts';
import { until } from '../until.ts';
import { ApiServer } from './api-server.ts';
import { portHostTo, serveHostIngress, trusting } from './doors.ts';
import { openForeignPods } from './foreign.ts';
import { startGateway } from './gateway-process.ts';
import type { FleetHost, HostOptions } from './host.ts';
import { realKubeconfig } from './real-cluster.ts';
import { Signer } from './signer.ts';

const SECRET = 'a secret of the fleet of this test, long enough';
export const LIMITS = { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, sandboxes: 500, fork: 64 };

const SILENT = pino({ level: process.env.FLEET_LOG ?? 'silent' });

export type { FleetHost, HostOptions };

export class Fleet {
  readonly #t: Test;
  readonly #dir: string;
  readonly #api: ApiServer | undefined;
  readonly namespace: string;
  readonly seal: FleetSeal;
  readonly log: Logger;

  /** `api`: the stand-in; absent: the cluster that KUBE has the kubeconfig of. */
  constructor(t: Test, api: ApiServer | undefined, namespace = 'sandboxd', log = SILENT) {
    this.#t = t;
    this.log = log;
    this.#api = api;
    this.namespace = namespace;
    this.#dir = mkdtempSync(join(tmpdir(), 'fleet-test-'));
    t.teardown(() => rmSync(this.#dir, { recursive: true, force: true }));
    const path = join(this.#dir, 'secret');
    writeFileSync(path, SECRET, { mode: 0o600 });
    this.seal = FleetSeal.read(path);
  }

  /** The stand-in. */
  get api(): ApiServer {
    if (this.#api === undefined) throw new Error('this API server is a real one');
    return this.#api;
  }

  /** With the rights of a role of `deploy/kubernetes`, if KUBE_HOST and KUBE_GATEWAY are given. */
  client(token?: string, role?: 'host' | 'gateway'): KubeClient {
    const path = this.#api?.writeKubeconfig(join(this.#dir, randomUUID()), token) ?? realKubeconfig(role);
    const client = new KubeClient(readKubeconfig(path));
    this.#t.teardown(() => client.close());
    return client;
  }

  /** Resolves when the host is a ready node, unless its token is wrong. */
  async host(name: string, options: HostOptions = {}): Promise<FleetHost> {
    const home = options.home ?? (await makeHome(this.#t));
    const daemon = await startMemoryDaemon(this.#t, { limits: LIMITS, ...options, home });
    let agent: NodeAgent | undefined;
    const started = (): NodeAgent => {
      if (agent === undefined) throw new Error('too early');
      return agent;
    };
    const placement: Placement = {
      needsPlace: true,
      admit: async (request) => {
        await options.beforeAdmit?.();
        return await started().admit(request);
      },
      hold: (request) => started().hold(request),
    };
    const answers = new AnswerRecords(daemon.store, this.log);
    const { seal } = this;
    const { authenticator, ports: to, issued } = options;
    const ingress =
      to === undefined
        ? undefined
        : await serveHostIngress(this.#t, { daemon, seal, authenticator, to, issued });
    const { server, url, app } = await serve(this.#t, {
      sandboxes: daemon.manager,
      placement,
      answers,
      events: daemon.journal,
      secrets: daemon.secrets.secretStore,
      limits: LIMITS,
      readDrain: () => daemon.manager.moves.drain.progress(),
      portLinks: ingress?.portLinks,
      ...trusting(seal),
      ...(authenticator && { authenticator }),
      ...options.services,
    });
    const keyring = options.e2b && { ...options.e2b, store: daemon.store };
    const portHost = to === undefined ? undefined : portHostTo(to, daemon);
    const front = {
      app,
      sandboxes: daemon.manager,
      daemon,
      ...trusting(seal),
      ...(portHost && { portHost }),
      placement,
      templateStore: options.templateStore,
    };
    const e2b = keyring && (await serveE2b(this.#t, { ...front, keyring }));
    const records = daemon.store.table<PlaceRecord>('fleet_places');
    const identity = this.#identity(name, options, daemon);
    const client =
      identity === undefined
        ? this.client(options.token, 'host')
        : new KubeClient(this.#bootstrap(options), identity);
    agent = new NodeAgent({
      client,
      seal,
      name,
      instance: options.instance ?? home.dataDir,
      url: new URL(url),
      runsPods: options.pods !== undefined,
      doors: { ingress: ingress?.url, e2b: e2b && new URL(e2b.url) },
      namespace: this.namespace,
      readCapacity: async () => ({ cpus: 64, memoryMib: 100_000, sandboxes: 400 }),
      readHoldings: () => [...readSnapshotHoldings(daemon.manager), ...(options.holdings ?? [])],
      records,
      sandboxes: { ...toLocal({ sandboxes: daemon.manager, events: daemon.events }), ...options.local },
      log: this.log,
      renewMs: 200,
      ...(options.fenceMs !== undefined && { fenceMs: options.fenceMs }),
      ...(options.unusedMs !== undefined && { unusedMs: options.unusedMs }),
    });
    const sharedKeys =
      options.sharedKeys &&
      new SharedKeys({
        ...{ client, seal, namespace: this.namespace, log: this.log },
        ...{ keys: options.sharedKeys, maxKeys: options.maxKeys },
        records: daemon.store.table<KeysOfRecord>('fleet_host'),
      });
    await sharedKeys?.restore();
    sharedKeys?.start();
    const cordons = openCordons(agent, { store: daemon.store, sandboxes: daemon.manager }, this.log);
    const podRecords = daemon.store.table<PodRecord>(PODS_TABLE);
    const pods =
      options.pods &&
      openForeignPods(options.pods, daemon, {
        ...{ client, seal, node: name, namespace: this.namespace, log: this.log, records: podRecords },
        isFenced: () => agent?.isFenced === true,
      });
    if (pods !== undefined) void agent.joined().then(() => pods.start());
    identity?.start();
    if (identity === undefined) agent.start();
    else void identity.found().then(() => agent?.start());
    let stopped: Promise<void> | undefined;
    const stop = (): Promise<void> => {
      stopped ??= (async () => {
        await identity?.close();
        await pods?.stop();
        const answered = cordons.stop();
        await agent?.stop();
        await sharedKeys?.close();
        await answered;
        client.close();
        await server.close();
        await answers.close();
      })();
      return stopped;
    };
    this.#t.teardown(stop);
    const {
      token,
      bootstrapToken,
      isAwaited = token === undefined && bootstrapToken === undefined,
    } = options;
    if (isAwaited) await agent.joined();
    if (isAwaited) await until(() => options.sharedKeys?.isAwaiting !== true, 'the keys of the fleet');
    const crash = async (): Promise<void> => {
      await e2b?.close();
      await stop();
      await daemon.crash();
    };
    return {
      name,
      url,
      daemon,
      agent,
      server,
      ingress: ingress?.server,
      ingressPort: Number(ingress?.url.port),
      e2b,
      records,
      podRecords,
      identity,
      client,
      crash,
    };
  }

  #identity(
    name: string,
    options: HostOptions,
    { store, secrets: { sealer } }: MemoryDaemon,
  ): NodeIdentity | undefined {
    if (options.bootstrapToken === undefined) return undefined;
    return new NodeIdentity({
      ...{
        name,
        sealer,
        log: this.log,
        checkMs: options.checkMs ?? 20,
        ...(options.now && { now: options.now }),
      },
      records: store.table<IdentityRecord>('fleet_identity'),
      readAccess: () => this.#bootstrap(options),
    });
  }

  #bootstrap({ bootstrapToken: token }: HostOptions) {
    const path = this.#api?.writeKubeconfig(join(this.#dir, randomUUID())) ?? realKubeconfig(undefined);
    const config = parse(readFileSync(path, 'utf8'));
    config.users[0].user = token === '' ? {} : { token };
    const own = join(this.#dir, randomUUID());
    writeFileSync(own, JSON.stringify(config), { mode: 0o600 });
    return readKubeconfig(own);
  }

  /** Of a daemon that joins the stand-in. */
  joinFlags(name: string): string[] {
    const kubeconfig = this.api.writeKubeconfig(join(this.#dir, randomUUID()));
    return ['--join', kubeconfig, '--join-name', name, '--fleet-secret-file', join(this.#dir, 'secret')];
  }

  /** `writeMs`: ample by default, because a busy machine takes long. */
  async gateway({
    writeMs = 20_000,
    tls = {},
    console = NO_CONSOLE,
    ...times
  }: {
    tls?: HostTls;
    writeMs?: number;
    sweepMs?: number;
    unboundMs?: number;
    lostMs?: number;
    takingMs?: number;
    console?: ConsoleFiles;
  } = {}) {
    const { seal } = this;
    const client = this.client(undefined, 'gateway');
    const connections = new HostConnections(tls);
    const catalogue = new KubernetesCatalogue({
      client,
      seal,
      namespace: this.namespace,
      log: this.log,
      writeMs,
      ...times,
    });
    const ended = new AbortController();
    const map = await catalogue.watch(ended.signal);
    const front = new FleetFront({
      ...{ catalogue, map, connections, seal, log: this.log, console },
      hasTls: false,
      allowedHosts: [{ scheme: 'http', at: { host: 'x', port: undefined } }],
    });
    const server = new IngressServer({
      ...{ gateway: front, log: this.log, certificate: undefined },
      ...{ takesConnection, isUpgrade: isWebSocketRequest, protocols: ['http/1.1'] },
    });
    const address = await server.listen({ host: '127.0.0.1', port: 0 });
    const port = 'port' in address ? address.port : 0;
    const stop = async (): Promise<void> => {
      ended.abort();
      await server.close();
    };
    this.#t.teardown(stop);
    return { url: `http://127.0.0.1:${port}`, port, map, catalogue, connections, seal, stop };
  }

  /** One in a process of its own, for tests that kill it. */
  async gatewayProcess(): ReturnType<typeof startGateway> {
    const secret = join(this.#dir, 'secret');
    const kubeconfig = this.#api?.writeKubeconfig(join(this.#dir, randomUUID())) ?? realKubeconfig('gateway');
    return await startGateway(this.#t, [
      `--kubeconfig=${kubeconfig}`,
      `--fleet-secret-file=${secret}`,
      `--fleet-namespace=${this.namespace}`,
    ]);
  }

  /** Resolves when the API server holds that many hosts for ready. */
  async ready(count: number): Promise<void> {
    const isReady = ({ status }: { status?: { conditions?: { type: string; status: string }[] } }) =>
      status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True');
    await until(() => this.api.objects.list('nodes').filter(isReady).length === count, 'ready nodes');
  }
}

/** `hasIdentities`: the API server has TLS, and signs certificates of nodes. */
export async function startFleet(t: Test, { hasIdentities = false, log = SILENT } = {}): Promise<Fleet> {
  const api = new ApiServer(hasIdentities ? new Signer(t) : undefined);
  await api.listen();
  t.teardown(() => api.stop().catch(() => undefined));
  return new Fleet(t, api, undefined, log);
}

export type Asked = { status: number; body: Record<string, unknown> & { id: string }; headers: Headers };

export async function ask(
  url: string,
  method: string,
  path: string,
  body?: object,
  headers: Record<string, string> = {},
): Promise<Asked> {
  const response = await fetch(`${url}${path}`, {
    method,
    headers: { ...(body && { 'content-type': 'application/json' }), ...headers },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text === '' ? {} : JSON.parse(text), headers: response.headers };
}
