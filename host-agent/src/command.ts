// The command `sandboxd`: reads the configuration, runs the daemon, obeys signals.
import type { Logger } from 'pino';
import about from '../package.json' with { type: 'json' };
import { type App, createApp } from './app.ts';
import {
  ConfigError,
  formatListen,
  type Loaded,
  type LoadedConfig,
  loadConfig,
  renderConfig,
  renderHelp,
} from './config/index.ts';
import { ENGINE_NAMES } from './engines/index.ts';
import { toError } from './lib/errors.ts';
import { type Faults, NO_FAULTS } from './lib/faults.ts';
import { createLogger } from './lib/logger.ts';
import { MemoryTrim } from './lib/memory-trim.ts';
import { scheduleForThroughput } from './lib/scheduling.ts';

const EXIT = { failed: 1, usage: 2 } as const;

/** `faults` are of a test's daemon, which is another program than `sandboxd`. */
export function runCommand(faults: Faults = NO_FAULTS): void {
  main(faults).catch((error: unknown) => {
    process.stderr.write(`sandboxd: ${toError(error).stack}\n`);
    process.exitCode = EXIT.failed;
  });
}

async function main(faults: Faults): Promise<void> {
  const loaded = readConfig();
  if (loaded === undefined) process.exitCode = EXIT.usage;
  else if (loaded.command === 'help') process.stdout.write(renderHelp(ENGINE_NAMES));
  else if (loaded.command === 'version') process.stdout.write(`sandboxd ${about.version}\n`);
  else if (loaded.command === 'print-config') process.stdout.write(renderConfig(loaded.values));
  else await serve(loaded, faults);
}

function readConfig(): Loaded | undefined {
  try {
    return loadConfig({ argv: process.argv.slice(2), env: process.env, engineNames: ENGINE_NAMES });
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    for (const problem of error.problems) process.stderr.write(`sandboxd: ${problem}\n`);
    return undefined;
  }
}

async function serve({ config, warnings }: LoadedConfig, faults: Faults): Promise<void> {
  const log = createLogger(config.log);
  for (const warning of warnings) log.warn(warning);
  process.on('uncaughtException', (err) => {
    log.fatal({ err }, 'unexpected failure');
    process.exit(EXIT.failed);
  });
  // A forgotten rejection concerns one operation; the others go on.
  process.on('unhandledRejection', (reason) => log.error({ err: toError(reason) }, 'unexpected failure'));
  const unscheduled = await scheduleForThroughput();
  if (unscheduled !== undefined) log.debug({ reason: unscheduled }, 'scheduled as any other process');
  const app = createApp(config, log, faults);
  obeySignals(app, log);
  try {
    const address = await app.start();
    new MemoryTrim();
    log.info({ version: about.version, pid: process.pid }, `listening on http://${formatListen(address)}`);
  } catch (error) {
    process.stderr.write(`sandboxd: ${toError(error).message}\n`);
    log.debug({ err: error }, 'start failed');
    process.exit(EXIT.failed);
  }
}

/** The first signal stops in order, the second without waiting for requests, the third at once. */
function obeySignals(app: App, log: Logger): void {
  const hurry = new AbortController();
  let count = 0;
  const onSignal = (signal: NodeJS.Signals) => {
    // A terminal that is closed may say so more than once.
    if (signal === 'SIGHUP' && count > 0) return;
    count++;
    if (count === 2) hurry.abort();
    if (count > 2) process.exit(EXIT.failed);
    if (count > 1) return;
    log.info({ signal }, 'stopping');
    app.stop(hurry.signal).then(
      () => {
        log.info('stopped');
        process.exit(0);
      },
      (err: unknown) => {
        log.error({ err }, 'could not stop in order');
        process.exit(EXIT.failed);
      },
    );
  };
  for (const name of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(name, onSignal);
}
