// The checks of `sandboxd doctor`, for clients. They run in a process of their own, as doctor opens the registry beside
// the daemon, and with the daemon's own settings, wherever these come from.
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { HostReport } from '../http/index.ts';
import { toError } from '../lib/errors.ts';
import { type Finding, worstOf } from '../lib/findings.ts';
import { runProgram } from '../lib/programs.ts';
import { VERSION } from '../lib/version.ts';

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
