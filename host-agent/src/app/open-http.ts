// Last step of the start: the REST API and the separate listener for metrics.

import { rm, writeFile } from 'node:fs/promises';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { getAssetKeys, getRawAsset, isSea } from 'node:sea';
import { type Config, formatListen } from '../config/index.ts';
import {
  type Authenticator,
  type Certificate,
  type ClientOf,
  ConsoleFiles,
  createHttpApp,
  createMetricsApp,
  type HostReport,
  type HttpApp,
  HttpServer,
  type HttpServices,
  NO_AUDIT,
} from '../http/index.ts';
import { toError } from '../lib/errors.ts';
import { type Finding, worstOf } from '../lib/findings.ts';
import { runProgram } from '../lib/programs.ts';
import { VERSION } from '../lib/version.ts';
import type { LogStore } from '../logs/index.ts';
import { readHostCapacity } from '../sandboxes/admission.ts';
import type { SandboxManager } from '../sandboxes/manager.ts';
import type { SandboxSecrets } from '../secrets/index.ts';
import type { AppContext } from './context.ts';
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

// The console within the executable.

/** Prefix of its files among the assets of the executable. */
const CONSOLE = 'console/';

/** Another way to run the program has none. */
export function openConsole(): ConsoleFiles {
  const names = isSea() ? getAssetKeys().filter((name) => name.startsWith(CONSOLE)) : [];
  const files = names.map((name) => [name.slice(CONSOLE.length), new Uint8Array(getRawAsset(name))] as const);
  return new ConsoleFiles(new Map(files));
}

// The checks of `sandboxd doctor`, for clients. They run in a process of their own, as doctor opens the registry beside
// the daemon, and with the daemon's own settings, wherever these come from.

/** Doctor gives each program that it runs 20 s. */
const TIMEOUT_MS = 120_000;
const FRESH_MS = 60_000;
const MAX_REPORT_BYTES = 2 ** 22;
const SETTINGS = 'settings';

type DoctorOptions = {
  /** How doctor is started: the program, and its first arguments. */
  readonly command: readonly [program: string, ...args: string[]];
  /** Settings of the daemon, as a settings file has them. */
  readonly settings: string;
  /** The settings are written there while doctor runs. */
  readonly dir: string;
  /** What doctor cannot see: findings about the settings file, which is another one for it. */
  readonly more: () => Promise<readonly Finding[]>;
  /** Aborts when the daemon stops. */
  readonly stopping: AbortSignal;
};

export class HostChecks {
  readonly #options: DoctorOptions;
  #latest: { readonly report: Promise<HostReport>; readonly until: number } | undefined;

  constructor(options: DoctorOptions) {
    this.#options = options;
  }

  /** One run serves all who ask within a minute. Never rejects: that they cannot be run is a finding. */
  read(): Promise<HostReport> {
    if (this.#latest === undefined || this.#latest.until < performance.now())
      this.#latest = { report: this.#run(), until: Number.POSITIVE_INFINITY };
    return this.#latest.report;
  }

  async #run(): Promise<HostReport> {
    const { command, settings, dir, stopping: signal } = this.#options;
    const [program, ...args] = command;
    const path = join(dir, 'doctor-settings.json');
    try {
      await writeFile(path, settings, { mode: 0o600 });
      const { stdout } = await runProgram(program, [...args, '--quick', '--json', `--config=${path}`], {
        timeout: TIMEOUT_MS,
        maxBuffer: MAX_REPORT_BYTES,
        signal,
      }).catch((error: Error & { readonly stdout?: string }) => {
        // Its exit code has the worst level.
        if (error.stdout?.startsWith('{')) return { stdout: error.stdout };
        throw error;
      });
      return withFindings(JSON.parse(stdout) as HostReport, await this.#options.more());
    } catch (error) {
      return toFailure(toError(error).message.split('\n', 1)[0] ?? '');
    } finally {
      await rm(path, { force: true });
      if (this.#latest !== undefined) this.#latest = { ...this.#latest, until: performance.now() + FRESH_MS };
    }
  }
}

function withFindings(report: HostReport, more: readonly Finding[]): HostReport {
  const groups = report.groups.map(({ group, findings }) => ({
    group,
    findings:
      group === SETTINGS && more.length > 0
        ? [...findings.filter(({ level }) => level !== 'ok'), ...more]
        : findings,
  }));
  return { ...report, groups, worst: worstOf(groups), checked_at: new Date().toISOString() };
}

function toFailure(reason: string): HostReport {
  const finding = {
    name: 'checks',
    level: 'fault' as const,
    seen: `cannot be run: ${reason}`,
    advice: 'run `sudo sandboxd doctor` on the host',
  };
  return {
    checked_at: new Date().toISOString(),
    version: VERSION,
    worst: 'fault',
    groups: [{ group: 'checks', findings: [finding] }],
  };
}
