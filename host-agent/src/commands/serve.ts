// `sandboxd serve`: loads the configuration, runs the daemon, handles signals.
import type { Logger } from 'pino';
import type { Helpers } from '../app/context.ts';
import { type App, createApp } from '../app.ts';
import {
  ConfigError,
  formatListen,
  type LoadedConfig,
  loadConfig,
  renderConfig,
  renderHelp,
} from '../config/index.ts';
import { ENGINE_NAMES } from '../engines/index.ts';
import { toError } from '../lib/errors.ts';
import { type Faults, NO_FAULTS } from '../lib/faults.ts';
import { createLogger } from '../lib/logger.ts';
import { MemoryTrim } from '../lib/memory-trim.ts';
import { scheduleForThroughput } from '../lib/scheduling.ts';
import { ServiceManager } from '../lib/service-manager.ts';
import { VERSION } from '../lib/version.ts';
import { CONFIG_FILE, HELPERS } from './installation.ts';

const EXIT_FAILED = 1;
/** Files of the daemon are private to its user. */
const UMASK = 0o077;

export type ServeOptions = {
  /** Help of the commands, printed before the settings. */
  readonly commandsHelp?: string;
  /** Injected by tests. */
  readonly faults?: Faults;
  /** Replaces the installed helpers when the daemon runs from its sources. */
  readonly helpers?: Helpers;
};

/** Throws ConfigError. */
export async function serve(args: readonly string[], options: ServeOptions = {}): Promise<void> {
  const loaded = loadConfig({
    argv: args,
    env: process.env,
    engineNames: ENGINE_NAMES,
    defaultFile: CONFIG_FILE,
  });
  if (loaded.command === 'help') process.stdout.write(renderHelp(ENGINE_NAMES, options.commandsHelp));
  else if (loaded.command === 'version') process.stdout.write(`sandboxd ${VERSION}\n`);
  else if (loaded.command === 'print-config') process.stdout.write(renderConfig(loaded.values));
  else await runDaemon(loaded, options);
}

async function runDaemon(
  { config, values, warnings }: LoadedConfig,
  { faults = NO_FAULTS, helpers = HELPERS }: ServeOptions,
): Promise<void> {
  process.umask(UMASK);
  const log = createLogger(config.log);
  for (const warning of warnings) log.warn(warning);
  process.on('uncaughtException', (err) => {
    log.fatal({ err }, 'unexpected failure');
    process.exit(EXIT_FAILED);
  });
  // An unhandled rejection concerns one operation, so the others continue.
  process.on('unhandledRejection', (reason) => log.error({ err: toError(reason) }, 'unexpected failure'));
  const unscheduled = scheduleForThroughput();
  if (unscheduled !== undefined)
    log.debug({ reason: unscheduled }, 'cannot change the scheduling class of the daemon');
  const manager = new ServiceManager(log);
  const app = createApp({ config, settings: renderConfig(values), log, helpers, faults });
  obeySignals(app, manager, log);
  try {
    const address = await app.start();
    new MemoryTrim();
    const scheme = 'path' in address ? '' : config.tls === undefined ? 'http://' : 'https://';
    const listening = `listening on ${scheme}${formatListen(address)}`;
    log.info({ version: VERSION, pid: process.pid }, listening);
    await manager.ready(listening);
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    process.stderr.write(`sandboxd: ${toError(error).message}\n`);
    log.debug({ err: error }, 'start failed');
    process.exit(EXIT_FAILED);
  }
}

/**
 * The first signal starts a graceful shutdown, the second stops waiting for requests, the third exits at once. With
 * TLS, or under systemd, SIGHUP reloads instead.
 */
function obeySignals(app: App, manager: ServiceManager, log: Logger): void {
  const hurry = new AbortController();
  let count = 0;
  const onSignal = (signal: NodeJS.Signals) => {
    // A service has no terminal: SIGHUP means reload, even without a certificate to reload.
    if (signal === 'SIGHUP' && (app.reload() || manager.isThere)) return;
    // A closed terminal may send SIGHUP more than once.
    if (signal === 'SIGHUP' && count > 0) return;
    count++;
    if (count === 2) hurry.abort();
    if (count > 2) process.exit(EXIT_FAILED);
    if (count > 1) return;
    log.info({ signal }, 'stopping');
    void manager.stopping();
    app.stop(hurry.signal).then(
      () => {
        log.info('stopped');
        process.exit(0);
      },
      (err: unknown) => {
        log.error({ err }, 'graceful shutdown failed');
        process.exit(EXIT_FAILED);
      },
    );
  };
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, onSignal);
}
