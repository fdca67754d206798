// Stryker plugin: runs the tap test files of one module in one new process per mutant, and only the tests that reach
// the mutant. (Stryker's own tap runner starts a process per file and records coverage by file, not by test: a mutant
// of a module with many files would take minutes.)
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';
import { declareClassPlugin, PluginKind } from '@stryker-mutator/api/plugin';
import {
  type CompleteDryRunResult,
  type DryRunResult,
  DryRunStatus,
  determineHitLimitReached,
  type MutantRunOptions,
  type MutantRunResult,
  MutantRunStatus,
  type TestResult,
  type TestRunner,
  TestStatus,
  toMutantRunResult,
} from '@stryker-mutator/api/test-runner';
import { logCalls } from './log-calls.ts';
import { GATE, type HostReport, isInSample } from './shared.ts';
import { StallWatch } from './stall-watch.ts';
import { closeBench, openBench } from './workplace.ts';

/** Results of the run without a mutant, in a file for all processes that run mutants. */
const KNOWN = 'mutation-dry-run.json';
type Known = {
  /** A name that occurs in two files is listed twice. */
  readonly tests: readonly { readonly name: string; readonly file: string; readonly ms: number }[];
};

type Run = {
  readonly files: readonly string[];
  readonly env: Record<string, string>;
  readonly stopsAtFailure: boolean;
  readonly watch: StallWatch;
};
type Outcome = {
  readonly results: readonly TestResult[];
  readonly report: HostReport | undefined;
  readonly stall: string | undefined;
  readonly output: string;
};

class ModuleTests implements TestRunner {
  private readonly files: readonly string[] = JSON.parse(process.env.MUTATION_TEST_FILES ?? '[]');
  private readonly sample = Number(process.env.MUTATION_SAMPLE ?? 1);
  private readonly seed = Number(process.env.MUTATION_SEED ?? 0);
  private known: Known | undefined;

  constructor() {
    // The parent process exited; this process ends with its tests.
    process.once('disconnect', () => process.exit(1));
  }

  capabilities() {
    return { reloadEnvironment: true };
  }

  async dryRun(): Promise<DryRunResult> {
    const first = await this.runAll(this.files);
    const failed = first.results.filter(({ status }) => status === TestStatus.Failed).map(({ id }) => id);
    const tests = first.report?.tests ?? [];
    const again = new Set(tests.filter(({ name }) => failed.includes(name)).map(({ file }) => file));
    // On a loaded host, one of hundreds of tests may fail for that reason: run it again with fewer in parallel.
    const all = again.size === 0 ? [first] : [first, await this.runAll([...again])];
    const broken = all.find(({ stall, report }) => stall !== undefined || report?.coverage === undefined);
    if (broken !== undefined) {
      const what = broken.stall ?? 'the tests ended early';
      return { status: DryRunStatus.Error, errorMessage: `${what}\n${broken.output}` };
    }
    const results = new Map(all.flatMap(({ results }) => results.map((result) => [result.id, result])));
    // A failed result that belongs to no test is that of a leftover process; drop it.
    const names = new Set(tests.map(({ name }) => name));
    if (again.size > 0) for (const id of results.keys()) if (!names.has(id)) results.delete(id);
    const perTest = Object.assign({}, ...all.map(({ report }) => report?.coverage?.perTest));
    const known: Known = {
      tests: tests.map(({ name, file }) => ({ name, file, ms: results.get(name)?.timeSpentMs ?? 0 })),
    };
    writeFileSync(KNOWN, JSON.stringify(known));
    const files = new Map(tests.map(({ name, file }) => [name, file]));
    return {
      status: DryRunStatus.Complete,
      tests: [...results.values()].map((result) => ({
        ...result,
        fileName: join('test', files.get(result.id) ?? ''),
      })),
      mutantCoverage: { static: first.report?.coverage?.static ?? {}, perTest },
    };
  }

  private runAll(files: readonly string[]): Promise<Outcome> {
    const watch = new StallWatch({ idleMs: 120_000, cpuMs: Number.POSITIVE_INFINITY });
    return this.run({ files, env: {}, stopsAtFailure: false, watch });
  }

  async mutantRun({ activeMutant, testFilter, hitLimit }: MutantRunOptions): Promise<MutantRunResult> {
    if (!isInSample(activeMutant.id, this.sample, this.seed)) {
      return { status: MutantRunStatus.Error, errorMessage: 'not in the sample' };
    }
    this.known ??= JSON.parse(readFileSync(KNOWN, 'utf8')) as Known;
    const { tests } = this.known;
    const reaching = tests.filter(({ name }) => testFilter?.includes(name) ?? true);
    const watch = new StallWatch({
      idleMs: 5000 + 3 * Math.max(0, ...reaching.map(({ ms }) => ms)),
      cpuMs: 10_000 + 10 * reaching.reduce((sum, { ms }) => sum + ms, 0),
    });
    const files = [...new Set(reaching.map(({ file }) => file))];
    const env: Record<string, string> = { __STRYKER_ACTIVE_MUTANT__: activeMutant.id };
    if (hitLimit !== undefined) env.MUTATION_HIT_LIMIT = String(hitLimit);
    if (testFilter !== undefined) {
      env.TAP_GREP = `/^(?:${[GATE, ...testFilter].map((name) => escapePattern(name)).join('|')})$/`;
    }
    const { results, report, stall } = await this.run({ files, env, stopsAtFailure: true, watch });
    if (stall !== undefined) return toMutantRunResult({ status: DryRunStatus.Timeout, reason: stall });
    const limit = determineHitLimitReached(report?.hits, hitLimit);
    if (limit !== undefined) return toMutantRunResult(limit);
    return toMutantRunResult({
      status: DryRunStatus.Complete,
      tests: [...results],
    } satisfies CompleteDryRunResult);
  }

  private async run({ files, env, stopsAtFailure, watch }: Run): Promise<Outcome> {
    const bench = openBench(process.env.MUTATION_PLACE ?? '');
    const reportPath = join(bench.dir, 'report.json');
    const host = join(import.meta.dirname, 'host-tests.ts');
    const [program = '', ...args] = [...bench.command, process.execPath, host];
    const child = spawn(program, args, {
      cwd: 'test',
      stdio: ['ignore', 'pipe', 'pipe'],
      // Without tap's own timeout: a slow test has not failed.
      env: {
        ...process.env,
        ...env,
        TMPDIR: bench.dir,
        TAP_TIMEOUT: '0',
        OWN_NETWORK: '1',
        MUTATION_FILES: JSON.stringify(files),
        MUTATION_REPORT: reportPath,
      },
    });
    const results: TestResult[] = [];
    const output: string[] = [];
    let since = 0;
    createInterface({ input: child.stdout }).on('line', (line) => {
      output.push(line);
      const result = parsePoint(line, output.slice(since).join('\n'));
      if (result !== undefined) since = output.length;
      if (result === undefined) return;
      watch.progress();
      if (result.id !== GATE || result.status === TestStatus.Failed) results.push(result);
      if (stopsAtFailure && result.status === TestStatus.Failed) child.kill('SIGKILL');
    });
    createInterface({ input: child.stderr }).on('line', (line) => output.push(line));
    const stopWatching = watch.start(child.pid ?? 0, () => child.kill('SIGKILL'));
    const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
    stopWatching();
    const report = readReport(reportPath);
    await closeBench(bench);
    // A crashed process is a failure even when no test reported one.
    if (
      code !== 0 &&
      watch.stall === undefined &&
      results.every(({ status }) => status !== TestStatus.Failed)
    ) {
      results.push(failed('test process', output.slice(-20).join('\n')));
    }
    return { results, report, stall: watch.stall, output: output.join('\n') };
  }
}

/** A top-level line of TAP, `not ok 3 - name # time=12ms`, and the output before it. */
function parsePoint(line: string, output: string): TestResult | undefined {
  const [, state, name = '', directive = ''] = /^(ok|not ok) \d+ - (.*?)(?: # (.*))?$/.exec(line) ?? [];
  if (state === undefined || /^skip/i.test(directive)) return undefined;
  if (state === 'not ok') return failed(name, output);
  const timeSpentMs = Number(/time=([\d.]+)ms/.exec(directive)?.[1] ?? 0);
  return { id: name, name, timeSpentMs, status: TestStatus.Success };
}

function failed(name: string, failureMessage: string): TestResult {
  return { id: name, name, timeSpentMs: 0, status: TestStatus.Failed, failureMessage };
}

function escapePattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
}

function readReport(path: string): HostReport | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as HostReport;
  } catch {
    return undefined; // The process was killed.
  }
}

export const strykerPlugins = [declareClassPlugin(PluginKind.TestRunner, 'module', ModuleTests), logCalls];
