// A real daemon process for tests, with its own data and run directory, and a check that it leaves nothing behind.
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Test } from 'tap';
import { Api } from './api.ts';
import { DAEMON_PROGRAM, type Directories, FAULTY_DAEMON, leftovers } from './leftovers.ts';

import { makeFetchPatient } from './patient-fetch.ts';
import { seedTemplates } from './shared-templates.ts';
import { scaled, TIME_SCALE } from './time-scale.ts';

export { type Directories, leftovers } from './leftovers.ts';

await makeFetchPatient();

const ROOT = resolve(import.meta.dirname, '../..');
/** Where `make setup` puts kernels and baked profiles. */
export const BAKED_DATA_DIR = resolve(process.env.DATA_DIR ?? join(ROOT, '.data'));
const START_TIMEOUT_MS = scaled(60_000);
const STOP_TIMEOUT_MS = scaled(60_000);

/** Environment of test daemons; a test's own flags and variables take precedence. */
export const ENVIRONMENT: NodeJS.ProcessEnv = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('SANDBOXD_TEST_'))),
  ...(process.env.SANDBOXD_TEST_ENGINE && { SANDBOXD_ENGINE: process.env.SANDBOXD_TEST_ENGINE }),
  ...(TIME_SCALE > 1 && {
    SANDBOXD_PROBE_TIMEOUT_S: String(Math.min(600, scaled(60))),
    SANDBOXD_BOOT_TIMEOUT_S: String(scaled(60)),
    SANDBOXD_WATCHDOG_TIMEOUT_S: String(scaled(30)),
    SANDBOXD_RESUME_TIMEOUT_S: String(scaled(60)),
  }),
};

export type DaemonOptions = {
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** A file that names faults, see faulty-daemon.ts, which runs in place of the built daemon. */
  readonly faultsPath?: string;
  /** Effect of SIGTERM on sandboxes; most tests destroy them. */
  readonly onExit?: 'keep' | 'destroy';
  /** Directories of an earlier daemon, for restarts; this daemon does not remove them. */
  readonly directories?: Directories;
  /** Another build of the daemon. */
  readonly program?: string;
  readonly templates?: Templates;
};

/** Whether it starts with the template of the whole test run, if there is one, or without any. */
export type Templates = 'shared' | 'own';

export type LogLine = Readonly<Record<string, unknown>> & { readonly msg?: string };

export class Daemon {
  readonly url: string;
  readonly api: Api;
  readonly directories: Directories;
  readonly #child: ChildProcess;
  readonly #lines: string[];
  readonly #exited: Promise<number | null>;

  constructor(
    child: ChildProcess,
    url: string,
    directories: Directories,
    lines: string[],
    exited: Promise<number | null>,
  ) {
    this.#child = child;
    this.url = url;
    this.api = new Api(url, () => tail(this.log.filter(({ diagnosis }) => diagnosis !== undefined)));
    this.directories = directories;
    this.#lines = lines;
    this.#exited = exited;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Every log line so far. */
  get log(): LogLine[] {
    return parseLines(this.#lines);
  }

  /** Sends a signal and resolves with the exit code. */
  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    this.#child.kill(signal);
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    const code = await this.#exited;
    clearTimeout(timer);
    return code;
  }

  get exited(): Promise<number | null> {
    return this.#exited;
  }
}

export async function makeDirectories({
  bakedDataDir = BAKED_DATA_DIR,
  templates = 'shared' as Templates,
} = {}): Promise<Directories> {
  await mkdir(join(bakedDataDir, 'test'), { recursive: true });
  const dataDir = await mkdtemp(join(bakedDataDir, 'test', 'd-'));
  for (const name of ['profiles', 'kernels', 'layers', 'engines', 'agents']) {
    await mkdir(join(bakedDataDir, name), { recursive: true });
    await symlink(join(bakedDataDir, name), join(dataDir, name));
  }
  if (templates === 'shared') await seedTemplates(dataDir);
  return { dataDir, runDir: await mkdtemp(join(tmpdir(), 'sbxd-')) };
}

export async function removeDirectories(directories: Directories): Promise<void> {
  await rm(directories.runDir, { recursive: true, force: true });
  await rm(directories.dataDir, { recursive: true, force: true });
}

/** Starts the built daemon on a free loopback port. The teardown checks its exit, and that nothing is left of it. */
export async function startDaemon(t: Test, options: DaemonOptions = {}): Promise<Daemon> {
  // With a disk budget, it would first evict the shared template.
  const templates = options.flags?.includes('--template-disk-bytes') ? 'own' : options.templates;
  const directories = options.directories ?? (await makeDirectories(templates && { templates }));
  const daemon = await spawnDaemon(directories, options);
  t.teardown(async () => {
    const code = await daemon.end();
    if (options.directories !== undefined) return;
    const left = await leftovers(directories);
    await removeDirectories(directories);
    if (code !== 0 || left.length > 0) {
      throw new Error(
        `the daemon ended with ${code} and left: ${left.join(', ') || 'nothing'}\n${tail(daemon.log)}`,
      );
    }
  });
  return daemon;
}

export async function spawnDaemon(directories: Directories, options: DaemonOptions = {}): Promise<Daemon> {
  // A test is not about how long a guest waits for its share of a busy machine.
  const isPatient = options.flags?.includes('--boot-timeout-s') !== true;
  const flags = [
    ...(isPatient ? ['--boot-timeout-s', '300'] : []),
    '--listen',
    '127.0.0.1:0',
    '--data-dir',
    directories.dataDir,
    '--run-dir',
    directories.runDir,
    '--on-exit',
    options.onExit ?? 'destroy',
  ];
  const { faultsPath } = options;
  const [program, ...first] =
    faultsPath === undefined ? [options.program ?? DAEMON_PROGRAM] : [process.execPath, FAULTY_DAEMON];
  const all = [...first, ...flags, '--log-format', 'json', ...(options.flags ?? [])];
  const child = spawn(program, all, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...ENVIRONMENT, ...(faultsPath !== undefined && { TEST_FAULTS: faultsPath }), ...options.env },
  });
  const lines: string[] = [];
  const exited = new Promise<number | null>((done) => {
    child.once('exit', done);
    child.once('error', () => done(null));
  });
  const url = await new Promise<string>((done, fail) => {
    const timer = setTimeout(
      () => fail(new Error(`no address after ${START_TIMEOUT_MS} ms:\n${lines.join('\n')}`)),
      START_TIMEOUT_MS,
    );
    let pending = '';
    const take = (chunk: Buffer): void => {
      pending += chunk.toString();
      const parts = pending.split('\n');
      pending = parts.pop() ?? '';
      lines.push(...parts);
      for (const line of parseLines(parts)) {
        const url = /^listening on (http:\S+)/.exec(line.msg ?? '')?.[1];
        if (url !== undefined) done(url);
      }
    };
    child.stdout?.on('data', take);
    child.stderr?.on('data', take);
    void exited.then((code) => {
      clearTimeout(timer);
      fail(new Error(`the daemon ended with ${code}:\n${[...lines, pending].join('\n')}`));
    });
    child.once('error', fail);
  });
  return new Daemon(child, url, directories, lines, exited);
}

function parseLines(lines: readonly string[]): LogLine[] {
  return lines.flatMap((line) => {
    try {
      return [JSON.parse(line) as LogLine];
    } catch {
      return [];
    }
  });
}

function tail(log: readonly LogLine[]): string {
  return log
    .slice(-20)
    .map((line) => JSON.stringify(line).slice(0, 8000))
    .join('\n');
}
