// Started by scripts/mutation/runner.ts: runs the test files of MUTATION_FILES in one process, and writes which
// top-level test reached which mutant to the file of MUTATION_REPORT. (These are not arguments, because tap derives
// directory names from arguments, and names have a maximum length.)
import { writeFileSync } from 'node:fs';
import process from 'node:process';
import { pathToFileURL } from 'node:url';
import t from 'tap';
import { GATE, type HostReport } from './shared.ts';

type Space = {
  currentTestId?: string;
  hitLimit?: number;
  hitCount?: number;
  mutantCoverage?: HostReport['coverage'];
};

const space: Space = {};
Object.assign(globalThis, { __stryker__: space });
if (process.env.MUTATION_HIT_LIMIT !== undefined) {
  space.hitLimit = Number(process.env.MUTATION_HIT_LIMIT);
  space.hitCount = 0;
}
const files: string[] = JSON.parse(process.env.MUTATION_FILES ?? '[]');
const tests: HostReport['tests'][number][] = [];
let imported = '';
const addTest = t.test.bind(t);
t.test = ((...args: unknown[]) => {
  if (typeof args[0] === 'string') tests.push({ name: args[0], file: imported });
  return Reflect.apply(addTest, t, args);
}) as typeof t.test;
// The timeout of one file must not apply to all of them.
t.setTimeout = () => undefined;
t.beforeEach((test) => {
  if (test.parent === t && test.name !== GATE) space.currentTestId = test.name;
});
process.on('exit', () => {
  const report: HostReport = { tests, coverage: space.mutantCoverage, hits: space.hitCount };
  writeFileSync(process.env.MUTATION_REPORT ?? '/dev/null', JSON.stringify(report));
});

// Tests start after all imports: code that runs while modules load belongs to no test.
addTest(GATE, async () => {
  for (const file of files) {
    imported = file;
    await import(pathToFileURL(file).href);
  }
  // Created by the first module with a mutant; a file that contains only types has none.
  space.mutantCoverage ??= { static: {}, perTest: {} };
});
