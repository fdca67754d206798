// Last step of the start: the REST API and the separate listener for metrics.
import { cpus } from 'node:os';
import { type Config, formatListen } from '../config/index.ts';
import {
  type Authenticator,
  type Certificate,
  type ClientOf,
  createHttpApp,
  createMetricsApp,
  type HttpApp,
  HttpServer,
  type HttpServices,
  NO_AUDIT,
  openConsole,
} from '../http/index.ts';
import type { LogStore } from '../logs/index.ts';
import { readHostCapacity } from '../sandboxes/admission.ts';
import type { SandboxManager } from '../sandboxes/manager.ts';
import type { SandboxSecrets } from '../secrets/index.ts';
import type { AppContext } from './context.ts';
import { HostChecks } from './host-checks.ts';
import type { OpenedEngines } from './open-engines.ts';
import type { OpenedRootfs } from './open-rootfs.ts';
import type { OpenedEvents, OpenedStore } from './open-store.ts';
import { findExchangeable } from './weak-settings.ts';

/** Of the listener that serves metrics only. */
const METRICS_CONNECTIONS = 64;

export type HttpDeps = Pick<OpenedStore, 'keys' | 'answers' | 'audit'> &
  Pick<OpenedEngines, 'isolation' | 'engines'> &
  Pick<OpenedEvents, 'journal' | 'metrics' | 'telemetry'> &
  OpenedRootfs & {
    readonly sandboxes: SandboxManager;
    readonly logs: LogStore | undefined;
    readonly egressLog: HttpServices['egressLog'];
    /** Undefined without TLS. */
    readonly certificate: Certificate | undefined;
    readonly authenticator: Authenticator;
    /** Undefined without an ingress. */
    readonly portLinks: HttpServices['portLinks'];
    readonly placement: HttpServices['placement'];
    readonly presets: HttpServices['presets'];
    readonly secretStore: HttpServices['secrets'];
    readonly sandboxSecrets: SandboxSecrets;
    readonly limits: Config['limits'];
    readonly maxConnections: number;
    readonly clientOf: ClientOf;
    /** Aborts when the daemon begins to drain requests. */
    readonly stopping: AbortSignal;
  };

/** The metrics are served at once; the caller lets the returned server listen. */
export async function openHttp(
  { config, settings, log, helpers, resources }: AppContext,
  deps: HttpDeps,
): Promise<{ readonly server: HttpServer; readonly app: HttpApp }> {
  const { audit = NO_AUDIT, certificate, maxConnections, authenticator, clientOf } = deps;
  const checks = new HostChecks({
    ...{ command: helpers.doctor, settings, dir: config.runDir, stopping: deps.stopping },
    more: async () =>
      (await findExchangeable(config))
        .filter(({ setting }) => setting === 'config')
        .map(({ setting, ...finding }) => ({ name: setting, ...finding })),
  });
  const services = toServices(config, { ...deps, audit, log, checks });
  const shared = { log, authenticator, audit, allowedHosts: config.allowedHosts, certificate, clientOf };
  const app = createHttpApp(services);
  const server = new HttpServer({
    ...shared,
    app,
    corsOrigins: config.corsOrigins,
    maxConnections,
    clientShare: {
      connections: config.maxConnectionsPerClient ?? Math.ceil(maxConnections / 2),
      peersProgram: helpers.peers,
    },
  });
  if (config.metrics.listen !== undefined) {
    const metricsApp = createMetricsApp(services);
    const options = { ...shared, app: metricsApp, maxConnections: METRICS_CONNECTIONS };
    const metricsServer = new HttpServer(options);
    resources.defer(() => metricsServer.close());
    const address = await metricsServer.listen(config.metrics.listen);
    log.info(`metrics are served on ${formatListen(address)}`);
  }
  return { server, app };
}

function toServices(
  { defaults, dataDir }: Config,
  deps: Omit<HttpDeps, 'audit'> & Pick<HttpServices, 'audit' | 'log'> & { readonly checks: HostChecks },
): HttpServices {
  const { log, metrics, telemetry, journal, authenticator, audit, sandboxes, images, logs } = deps;
  const { profiles, engines, isolation, answers, stopping } = deps;
  const isDefault = (name: string): boolean => name === defaults.profile;
  return {
    log,
    metrics,
    telemetry,
    events: journal,
    authenticator,
    audit,
    answers,
    sandboxes,
    placement: deps.placement,
    limitUse: sandboxes.limitUse,
    images,
    logs,
    egressLog: deps.egressLog,
    presets: deps.presets,
    secrets: deps.secretStore,
    digestSecrets: (text) => deps.sandboxSecrets.digest(text),
    console: openConsole(),
    portLinks: deps.portLinks,
    stopping,
    limits: { ...deps.limits, hostCpus: cpus().length },
    listProfiles: async () =>
      (await profiles.list()).map((profile) => ({ ...profile, isDefault: isDefault(profile.name) })),
    listUnbakedProfiles: async () =>
      (await profiles.listUnbaked()).map((name) => ({ name, isDefault: isDefault(name) })),
    checkHost: () => deps.checks.read(),
    readCapacity: () => readHostCapacity(dataDir),
    readDrain: () => sandboxes.moves.drain.progress(),
    engine: () => ({
      state: engines.state,
      name: engines.ifChosen?.name ?? '',
      accelerator: engines.ifChosen?.accelerator ?? '',
      version: engines.version,
      reason: engines.reason,
      tried: engines.tried,
      jail: isolation.report,
    }),
  };
}
