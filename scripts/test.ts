// Runs test suites and prints the total: `node scripts/test.ts unit native contract http package vm [--only
// part-of-a-name]`. The exit code is 0 only when every suite ran at least one test (with --only: one of them did),
// every file finished, and no test failed. With SOAK=1, only files with a long form run, in that form.
import { execFileSync, spawn } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { BUNDLES } from '../test/support/bundle.ts';
import { SHARED_TEMPLATES } from '../test/support/shared-templates.ts';
import { TIME_SCALE } from '../test/support/time-scale.ts';

type Suite = {
  /** Files in parallel. Files with guests also spend much of their time waiting. */
  readonly jobs: number;
  readonly fileTimeoutS: number;
  /** Whether to print each test when it finishes, for long files. */
  readonly isShownLive: boolean;
  /** Folders of its files, if not the folder of the same name. */
  readonly folders?: readonly string[];
  readonly env?: () => Record<string, string>;
  /** Releases what `env` created. */
  readonly after?: (env: Readonly<Record<string, string>>) => void;
  /** Whether files of one subfolder share a resource of the machine, so that they must run one after another. */
  readonly sharesFolders?: boolean;
};

const SUITES: Readonly<Record<string, Suite>> = {
  unit: { jobs: isSoak() ? 1 : 3, fileTimeoutS: isSoak() ? 3600 : 300, isShownLive: isSoak() },
  // Runs the guest's C and C++ in separate processes, built to report each invalid memory access.
  native: {
    jobs: 2,
    fileTimeoutS: 300,
    isShownLive: false,
    folders: ['native', 'unit/guest-agent'],
    env: sanitizerEnv,
  },
  contract: { jobs: 3, fileTimeoutS: 300, isShownLive: false },
  http: { jobs: 3, fileTimeoutS: 300, isShownLive: false },
  // The Debian package, in a Debian tree.
  package: { jobs: 2, fileTimeoutS: 1200, isShownLive: true },
  vm: {
    // A soak run and the emulated test host use one CPU.
    jobs: isSoak() || TIME_SCALE > 1 ? 1 : 3,
    fileTimeoutS: (isSoak() ? 7200 : 900) * TIME_SCALE,
    isShownLive: true,
    sharesFolders: true,
    env: makeTemplates,
    after: ({ [SHARED_TEMPLATES]: dir }) => dir && rmSync(dir, { recursive: true, force: true }),
  },
  // Needs the profile of docs/examples/docker-profile.json.
  docker: { jobs: 1, fileTimeoutS: 1200 * TIME_SCALE, isShownLive: true },
  // Needs the profile of test/egress-programs/profile.json.
  'egress-programs': { jobs: 1, fileTimeoutS: 1200 * TIME_SCALE, isShownLive: true },
  // Needs the profile code.
  code: { jobs: 1, fileTimeoutS: 1200 * TIME_SCALE, isShownLive: true },
};
/** A file that ignores its own timeout is killed this much later. */
const KILL_AFTER_S = 15;
/** From the end of a file to that of its output. */
const DRAIN_MS = 5000;
const MAX_SHOWN_LINES = 200;
/** Ends the diagnostics of a top-level test. */
const END_OF_REASON = '  ...';

type Counts = { passed: number; failed: number; skipped: number; planned: number | undefined };

process.chdir(resolve(import.meta.dirname, '../test'));
const { positionals: names, values } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string', default: '' } },
});
if (names.length === 0 || names.some((name) => !Object.hasOwn(SUITES, name))) {
  console.error(`usage: node scripts/test.ts <${Object.keys(SUITES).join('|')}>… [--only part-of-a-name]`);
  process.exit(2);
}

/** Shared compile cache: a quarter of a short file's cost is compiling what all files load. */
const compiled = mkdtempSync(join(tmpdir(), 'sandboxd-compiled-'));
const bundles = mkdtempSync(join(tmpdir(), 'sandboxd-bundles-'));
process.on('exit', () => {
  for (const each of [compiled, bundles]) rmSync(each, { recursive: true, force: true });
});

const sum = { passed: 0, failed: 0, skipped: 0 };
for (const name of names) {
  const suite = SUITES[name];
  if (suite !== undefined) await runSuite(name, suite);
}
removeFixtures();
if (sum.passed + sum.failed === 0) {
  console.log(`  no test has ${values.only} in its path: FAILED`);
  sum.failed++;
}
if (sum.skipped > 0) console.log(`\n${sum.skipped} skipped`);
console.log(`\n${sum.passed} passed, ${sum.failed} failed`);
process.exitCode = sum.failed === 0 ? 0 : 1;

async function runSuite(name: string, suite: Suite): Promise<void> {
  const patterns = (suite.folders ?? [name]).map((folder) => `${folder}/**/*.test.ts`);
  const files = globSync(patterns).filter(
    (file) => file.includes(values.only) && (!isSoak() || hasLongForm(file)),
  );
  console.log(`\n${name}: ${files.length} files`);
  if (files.length === 0 && values.only !== '') return;
  const before = sum.passed + sum.failed;
  const turnOf = (file: string) =>
    suite.sharesFolders === true && dirname(file) !== name ? dirname(file) : file;
  // Longest first: a long file that starts last would delay the end.
  const queue = [...Map.groupBy(files.sort(), turnOf).values()].sort((a, b) => b.length - a.length);
  const env = suite.env?.() ?? {};
  const work = async () => {
    for (let turn = queue.shift(); turn !== undefined; turn = queue.shift())
      for (const file of turn) await runFile(file, suite, env);
  };
  await Promise.all(Array.from({ length: suite.jobs }, work));
  suite.after?.(env);
  if (sum.passed + sum.failed > before) return;
  console.log(`  suite ${name} ran no tests: FAILED`);
  sum.failed++;
}

/** Removes tap's empty directories: after a run as root, tests of another user could not use them. */
function removeFixtures(): void {
  try {
    for (const directory of ['.tap/fixtures', '.tap']) rmdirSync(directory);
  } catch {
    // The directory does not exist, or another run uses it.
  }
}

/** Node itself is not built with the sanitizer, so its library must be preloaded, and Node's leaks are ignored. */
function sanitizerEnv(): Record<string, string> {
  const library = execFileSync('gcc', ['-print-file-name=libasan.so'], { encoding: 'utf8' }).trim();
  return {
    LD_PRELOAD: library,
    ASAN_OPTIONS: 'detect_leaks=0',
    SANDBOX_AGENT_DIR: resolve('../dist/sanitized'),
  };
}

function makeTemplates(): Record<string, string> {
  try {
    const dir = execFileSync(process.execPath, ['support/make-templates.ts'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    return { [SHARED_TEMPLATES]: dir };
  } catch (error) {
    console.log(`  no template for all: ${error}; each daemon makes its own`);
    return {};
  }
}

function isSoak(): boolean {
  return process.env.SOAK === '1';
}

function hasLongForm(file: string): boolean {
  return readFileSync(file, 'utf8').includes('process.env.SOAK');
}

async function runFile(
  file: string,
  { fileTimeoutS, isShownLive }: Suite,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const startedAt = performance.now();
  const counts: Counts = { passed: 0, failed: 0, skipped: 0, planned: undefined };
  const output: string[] = [];
  const onLine = (line: string) => {
    output.push(line);
    const title = countLine(line, counts);
    if (!isShownLive || (title === undefined && line !== END_OF_REASON)) return;
    if (title !== undefined) console.log(`    ${title}`);
    // Printed at once: a run of several hours may be killed before this file finishes.
    if (!title?.startsWith('ok')) console.log(explain(output));
    output.length = 0;
  };
  const end = await runProgram(file, { timeoutS: fileTimeoutS, env }, onLine);
  const failure = judge(counts, end);
  // A crashed file is a failure even when no test reported one.
  const failed = Math.max(counts.failed, failure === undefined ? 0 : 1);
  sum.passed += counts.passed;
  sum.failed += failed;
  sum.skipped += counts.skipped;
  if (failed > 0) console.log(explain(output));
  const verdict = failure ?? (failed > 0 ? `${failed} FAILED` : 'ok');
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`  ${file}: ${counts.passed} passed, ${verdict} (${seconds} s)`);
}

/** Resolves with the exit code, or with the reason of the end. A test file is a TAP program. */
function runProgram(
  file: string,
  { timeoutS, env }: { readonly timeoutS: number; readonly env: Readonly<Record<string, string>> },
  onLine: (line: string) => void,
): Promise<number | string> {
  const child = spawn(process.execPath, [file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      NODE_COMPILE_CACHE: compiled,
      [BUNDLES]: bundles,
      ...env,
      TAP_TIMEOUT: String(timeoutS),
    },
  });
  let isTooLate = false;
  const timer = setTimeout(
    () => {
      isTooLate = true;
      child.kill('SIGKILL');
    },
    (timeoutS + KILL_AFTER_S) * 1000,
  );
  createInterface({ input: child.stdout }).on('line', onLine);
  createInterface({ input: child.stderr }).on('line', onLine);
  // A program that outlives the file, which crashed, has its output open.
  child.on('exit', () => {
    const close = (): void => {
      child.stdout.destroy();
      child.stderr.destroy();
    };
    setTimeout(close, DRAIN_MS).unref();
  });
  return new Promise((resolve) => {
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve(isTooLate ? `no end after ${timeoutS} s` : (code ?? `killed by ${signal}`));
    });
  });
}

/** Counts top-level tests of the file; their assertions are nested. Returns the line if it is such a test. */
function countLine(line: string, counts: Counts): string | undefined {
  const plan = /^1\.\.(\d+)/.exec(line);
  if (plan !== null) counts.planned = Number(plan[1]);
  const point = /^(ok|not ok) \d+/.exec(line);
  if (point === null) return undefined;
  if (/ # (?:skip|todo)/i.test(line)) counts.skipped++;
  else if (point[1] === 'ok') counts.passed++;
  else counts.failed++;
  return line;
}

function judge({ passed, failed, skipped, planned }: Counts, end: number | string): string | undefined {
  if (typeof end === 'string') return `CRASHED: ${end}`;
  if (planned === undefined) return `CRASHED: exit code ${end} before its end`;
  if (planned !== passed + failed + skipped) return `CRASHED: ${planned} tests planned`;
  if (planned === 0) return 'ran NO TESTS';
  return end !== 0 && failed === 0 ? `CRASHED: exit code ${end}` : undefined;
}

/** The output without passed tests. */
function explain(lines: readonly string[]): string {
  const relevant = lines.filter(
    (line) => line.trim() !== '' && !/^ *(?:ok \d|# Subtest|1\.\.\d|TAP v)/.test(line),
  );
  const rest = relevant.length - MAX_SHOWN_LINES;
  const shown = rest > 0 ? [...relevant.slice(0, MAX_SHOWN_LINES), `… and ${rest} lines more`] : relevant;
  return shown.map((line) => `    ${line}`).join('\n');
}
