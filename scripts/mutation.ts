// `make mutation MODULE=sandboxes` or `MODULE=sandboxes/manager.ts`: makes one change to the code at a time, and
// checks whether a test without guests fails. Lists the surviving mutants. docs/testing.md explains exclusions and the
// output.
import { globSync, mkdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import process from 'node:process';
import { parseArgs } from 'node:util';
import type { PartialStrykerOptions } from '@stryker-mutator/api/core';
import { Stryker } from '@stryker-mutator/core';
import { MODULES, testFilesOf } from './mutation/modules.ts';
import { summarize } from './mutation/summary.ts';
import { openWorkplace, removePlace } from './mutation/workplace.ts';

const ROOT = resolve(import.meta.dirname, '..');
/** Files that a module's tests need, in addition to packages and the build. */
const PARTS = [
  'api',
  'proto',
  'client',
  'guest-agent',
  'rootfs-builder',
  'host-agent',
  'test',
  'docs',
  'scripts',
];
const WORK = 'dist/.mutation';
/** Mutants in parallel: a test mostly waits. */
const JOBS = 3;

process.chdir(ROOT);
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { sample: { type: 'string' }, seed: { type: 'string', default: '0' } },
});
const [name = '', file] = (positionals[0] ?? '').split(/\/(.*)/s);
const module = Object.hasOwn(MODULES, name) ? MODULES[name] : undefined;
const mutated = globSync(module === undefined ? [] : `${module.source}/${file ?? '**/*.ts'}`).sort();
if (
  module === undefined ||
  mutated.length === 0 ||
  !/^[1-9]\d*$/.test(values.sample ?? '1') ||
  !/^\d+$/.test(values.seed)
) {
  console.error(
    `usage: make mutation MODULE=<module>[/<file>] [SAMPLE=<n> [SEED=<n>]]; modules: ${Object.keys(MODULES).join(', ')}`,
  );
  process.exit(2);
}

process.env.MUTATION_TEST_FILES = JSON.stringify(testFilesOf(module));
// Left by an interrupted run.
rmSync(join(WORK, name), { recursive: true, force: true });
mkdirSync(WORK, { recursive: true });
const place = openWorkplace();
process.env.MUTATION_PLACE = place;
process.on('exit', () => removePlace(place));
if (values.sample === undefined) {
  // Results are saved after each file, so that an interrupted run continues from there.
  const known = `${WORK}/${name}.json`;
  for (const path of mutated) await mutate([path], { incremental: true, incrementalFile: known });
  console.log(summarize(known, mutated));
} else {
  process.env.MUTATION_SAMPLE = values.sample;
  process.env.MUTATION_SEED = values.seed;
  const path = `${WORK}/${name}-sample.json`;
  await mutate(mutated, { jsonReporter: { fileName: path } }, ['json']);
  console.log(summarize(path, mutated, Number(values.sample), Number(values.seed)));
}

async function mutate(paths: string[], more: PartialStrykerOptions, reporters: string[] = []): Promise<void> {
  await new Stryker({
    mutate: paths,
    // String mutations of a type would not compile, and most others are messages. Objects without fields add nothing.
    mutator: { excludedMutations: ['StringLiteral', 'ObjectLiteral'] },
    ignorers: ['log-calls'],
    plugins: [join(ROOT, 'scripts/mutation/runner.ts')],
    testRunner: 'module',
    coverageAnalysis: 'perTest',
    ignorePatterns: ['**', '!package.json', ...PARTS.map((part) => `!${part}/**`)],
    // The sandbox must use its own packages, not those that this tree's node_modules links to.
    symlinkNodeModules: false,
    buildCommand: `sh ${join(ROOT, 'scripts/mutation/link-modules.sh')} ${ROOT}`,
    tempDirName: `${WORK}/${name}`,
    concurrency: JOBS,
    // The runner detects hanging tests; these limits apply to the runner itself.
    timeoutMS: 900_000,
    dryRunTimeoutMinutes: 30,
    reporters: [process.stdout.isTTY ? 'progress' : 'progress-append-only', ...reporters],
    allowConsoleColors: false,
    warnings: false,
    ...more,
  }).runMutationTest();
}
