// A fleet in this process: hosts whose sandboxes are in memory, gateways, and a Kubernetes that is a stand-in or real.
import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import { toLocal } from '../../../host-agent/src/app/open-fleet.ts';
import {
  FleetFront,
  FleetSeal,
  HostConnections,
  KubeClient,
  KubernetesCatalogue,
  NodeAgent,
  type PlaceRecord,
  readKubeconfig,
} from '../../../host-agent/src/fleet/index.ts';
import type { Authenticator, HttpServer, Placement } from '../../../host-agent/src/http/index.ts';
import { isWebSocketRequest, takesConnection } from '../../../host-agent/src/http/server/hijack.ts';
import { AnswerRecords } from '../../../host-agent/src/idempotency/index.ts';
import { IngressServer } from '../../../host-agent/src/ingress/index.ts';
import { serve } from '../../http/support.ts';
import {
  type MemoryDaemon,
  type MemoryDaemonOptions,
  makeHome,
  startMemoryDaemon,
} from '../memory-host/daemon.ts';
import { until } from '../until.ts';
import { ApiServer } from './api-server.ts';

const SECRET = 'a secret of the fleet of this test, long enough';
export const LIMITS = { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, sandboxes: 500, fork: 64 };

export type FleetHost = {
  readonly name: string;
  readonly url: string;
  readonly daemon: MemoryDaemon;
  readonly agent: NodeAgent;
  readonly server: HttpServer;
  readonly records: { all(): { readonly id: string; readonly record: PlaceRecord }[] };
  /** As a kill: the sandboxes go on, and the API server is told nothing. */
  crash(): Promise<void>;
};

export type HostOptions = MemoryDaemonOptions & {
  readonly authenticator?: Authenticator;
  readonly token?: string;
  readonly unusedMs?: number;
  readonly instance?: string;
};

export class Fleet {
  readonly #t: Test;
  readonly #dir: string;
  readonly #api: ApiServer | undefined;
  readonly namespace: string;
  readonly seal: FleetSeal;
  readonly log: Logger = pino({ level: process.env.FLEET_LOG ?? 'silent' });

  /** `api`: the stand-in; absent: the cluster that KUBE has the kubeconfig of. */
  constructor(t: Test, api: ApiServer | undefined, namespace = 'sandboxd') {
    this.#t = t;
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
    const placement: Placement = {
      isFleet: true,
      admit: async (request) => {
        if (agent === undefined) throw new Error('too early');
        return await agent.admit(request);
      },
    };
    const answers = new AnswerRecords(daemon.store, this.log);
    const { server, url } = await serve(this.#t, {
      sandboxes: daemon.manager,
      placement,
      answers,
      events: daemon.journal,
      limits: LIMITS,
      ...(options.authenticator && { authenticator: options.authenticator }),
    });
    const records = daemon.store.table<PlaceRecord>('fleet_places');
    agent = new NodeAgent({
      client: this.client(options.token, 'host'),
      seal: this.seal,
      name,
      instance: options.instance ?? home.dataDir,
      url: new URL(url),
      namespace: this.namespace,
      readCapacity: async () => ({ cpus: 64, memoryMib: 100_000, sandboxes: 400 }),
      records,
      sandboxes: toLocal({ sandboxes: daemon.manager, events: daemon.events }),
      log: this.log,
      renewMs: 200,
      ...(options.unusedMs !== undefined && { unusedMs: options.unusedMs }),
    });
    agent.start();
    let stopped: Promise<void> | undefined;
    const stop = (): Promise<void> => {
      stopped ??= (async () => {
        await agent?.stop();
        await server.close();
        await answers.close();
      })();
      return stopped;
    };
    this.#t.teardown(stop);
    if (options.token === undefined) await agent.joined();
    const crash = async (): Promise<void> => {
      await stop();
      await daemon.crash();
    };
    return { name, url, daemon, agent, server, records, crash };
  }

  /** `writeMs`: ample by default, because a busy machine takes long. */
  async gateway({
    writeMs = 20_000,
    ...times
  }: {
    writeMs?: number;
    sweepMs?: number;
    unboundMs?: number;
  } = {}) {
    const { seal } = this;
    const client = this.client(undefined, 'gateway');
    const connections = new HostConnections({});
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
      ...{ catalogue, map, connections, seal, log: this.log },
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
    return { url: `http://127.0.0.1:${port}`, port, map, catalogue, stop };
  }

  /** Resolves when the API server holds that many hosts for ready. */
  async ready(count: number): Promise<void> {
    const isReady = ({ status }: { status?: { conditions?: { type: string; status: string }[] } }) =>
      status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True');
    await until(() => this.api.objects.list('nodes').filter(isReady).length === count, 'ready nodes');
  }
}

export async function startFleet(t: Test): Promise<Fleet> {
  const api = new ApiServer();
  await api.listen();
  t.teardown(() => api.stop().catch(() => undefined));
  return new Fleet(t, api);
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

function realKubeconfig(role: 'host' | 'gateway' | undefined): string {
  const { KUBE = '', KUBE_HOST, KUBE_GATEWAY } = process.env;
  if (role === undefined) return KUBE;
  return { host: KUBE_HOST, gateway: KUBE_GATEWAY }[role] ?? KUBE;
}
