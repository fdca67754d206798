// Runs test suites and says the total: `node scripts/test.ts unit native contract http package vm [--only part-of-a-name]`. The exit
// code is 0 only when every suite ran at least one test (with --only: one of them did), every file came to its end, and nothing failed.
// With SOAK=1 only files that have a long form run, in that form.
import { execFileSync, spawn } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';
import { SHARED_TEMPLATES } from '../test/support/shared-templates.ts';
import { TIME_SCALE } from '../test/support/time-scale.ts';

type Suite = {
  /** Files at once. Those with guests wait a good part of their time, too. */
  readonly jobs: number;
  readonly fileTimeoutS: number;
  /** Whether each test is shown when it is done, for files that take long. */
  readonly isShownLive: boolean;
  /** Where its files are, unless in the folder of its name. */
  readonly folders?: readonly string[];
  readonly env?: () => Record<string, string>;
  /** Undoes what `env` made. */
  readonly after?: (env: Readonly<Record<string, string>>) => void;
  /** Whether files of a folder within the suite use the same thing of the machine: one after another then. */
  readonly sharesFolders?: boolean;
};

const SUITES: Readonly<Record<string, Suite>> = {
  unit: { jobs: 2, fileTimeoutS: 300, isShownLive: false },
  // What runs C or C++ of the guest in a process of its own, on a build that reports each wrong access.
  native: {
    jobs: 2,
    fileTimeoutS: 300,
    isShownLive: false,
    folders: ['native', 'unit/guest-agent'],
    env: sanitizerEnv,
  },
  contract: { jobs: 2, fileTimeoutS: 300, isShownLive: false },
  http: { jobs: 2, fileTimeoutS: 120, isShownLive: false },
  // The Debian package, in a tree of Debian.
  package: { jobs: 2, fileTimeoutS: 1200, isShownLive: true },
  vm: {
    // Elsewhere than on a machine of its own there is one CPU.
    jobs: isSoak() || TIME_SCALE > 1 ? 1 : 3,
    fileTimeoutS: (isSoak() ? 7200 : 900) * TIME_SCALE,
    isShownLive: true,
    sharesFolders: true,
    env: makeTemplates,
    after: ({ [SHARED_TEMPLATES]: dir }) => dir && rmSync(dir, { recursive: true, force: true }),
  },
  // Needs the profile of docs/examples/docker-profile.json.
  docker: { jobs: 1, fileTimeoutS: 1200 * TIME_SCALE, isShownLive: true },
};
/** A file that does not obey its own time limit is killed this much later. */
const KILL_AFTER_S = 15;
const MAX_SHOWN_LINES = 200;
/** Behind a test of the file's top level. */
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

/** A quarter of what a short file costs is to compile what all of them load. */
const compiled = mkdtempSync(join(tmpdir(), 'sandboxd-compiled-'));
process.on('exit', () => rmSync(compiled, { recursive: true, force: true }));

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
  // The longest turn first: begun last, everything would wait for it.
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

/** Directories that tap leaves empty: after a run as root, tests of another user could not use them. */
function removeFixtures(): void {
  try {
    for (const directory of ['.tap/fixtures', '.tap']) rmdirSync(directory);
  } catch {
    // None was made, or another run is using them.
  }
}

/** Node itself is not built for the sanitizer, whose library must come first, and keeps much until it ends. */
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
    // Why, at once: a run that takes hours may be ended from outside before this file comes to its end.
    if (!title?.startsWith('ok')) console.log(explain(output));
    output.length = 0;
  };
  const end = await runProgram(file, { timeoutS: fileTimeoutS, env }, onLine);
  const failure = judge(counts, end);
  // A file that broke is a failure even when no test of it said so.
  const failed = Math.max(counts.failed, failure === undefined ? 0 : 1);
  sum.passed += counts.passed;
  sum.failed += failed;
  sum.skipped += counts.skipped;
  if (failed > 0) console.log(explain(output));
  const verdict = failure ?? (failed > 0 ? `${failed} FAILED` : 'ok');
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  console.log(`  ${file}: ${counts.passed} passed, ${verdict} (${seconds} s)`);
}

/** Resolves with the exit code, or with what ended it instead. A test file is a TAP program of its own. */
function runProgram(
  file: string,
  { timeoutS, env }: { readonly timeoutS: number; readonly env: Readonly<Record<string, string>> },
  onLine: (line: string) => void,
): Promise<number | string> {
  const child = spawn(process.execPath, [file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, NODE_COMPILE_CACHE: compiled, ...env, TAP_TIMEOUT: String(timeoutS) },
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
  return new Promise((resolve) => {
    child.on('close', (code, signal) => {
      clearTimeout(timer);
      resolve(isTooLate ? `no end after ${timeoutS} s` : (code ?? `killed by ${signal}`));
    });
  });
}

/** Counts tests of the file's top level, whose assertions are inside them. Returns the line when it is such a test. */
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

/** The output without what passed. */
function explain(lines: readonly string[]): string {
  const telling = lines.filter(
    (line) => line.trim() !== '' && !/^ *(?:ok \d|# Subtest|1\.\.\d|TAP v)/.test(line),
  );
  const rest = telling.length - MAX_SHOWN_LINES;
  const shown = rest > 0 ? [...telling.slice(0, MAX_SHOWN_LINES), `… and ${rest} lines more`] : telling;
  return shown.map((line) => `    ${line}`).join('\n');
}
