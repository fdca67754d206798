// The commands of docs/testing.md: one test file is run as written. For `make …`, which can take hours, the target
// must exist; for `make mutation`, the modules and files must exist.
import { execFile } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import t from 'tap';
import { MODULES, testFilesOf } from '../../../scripts/mutation/modules.ts';

t.setTimeout(300_000);
const ROOT = resolve(import.meta.dirname, '../../..');
const page = readFileSync(join(ROOT, 'docs/testing.md'), 'utf8');
const makefile = readFileSync(join(ROOT, 'Makefile'), 'utf8');
const examples = [...page.matchAll(/^ {4}(\S.*?)(?: +# .*)?$/gm)].map(([, line = '']) => line);

t.test('examples are of a kind that is checked here', async (t) => {
  t.ok(examples.length > 4);
  for (const line of examples) t.match(line, /^(?:make|cd test &&) /);
});

t.test('one file runs as it is written', async (t) => {
  const lines = examples.filter((line) => !line.startsWith('make '));
  t.ok(lines.length > 0);
  for (const line of lines) {
    const { stdout } = await promisify(execFile)('sh', ['-c', line], { cwd: ROOT, maxBuffer: 2 ** 26 });
    t.match(stdout, /# \{ total: \d+, pass: \d+ \}/, line);
  }
});

t.test('make targets exist, and so do their modules', async (t) => {
  const named = [
    ...page.matchAll(/`make ([a-z0-9-]+)/g),
    ...examples.join('\n').matchAll(/^make ([a-z0-9-]+)/gm),
  ];
  t.ok(named.length > 8);
  for (const [, target = ''] of named) t.match(makefile, new RegExp(`^${target}:`, 'm'), target);
  for (const line of examples.filter((each) => each.startsWith('make mutation'))) {
    const [, name = '', file = '**/*.ts'] = /MODULE='?(\w+)(?:\/([^\s']+))?/.exec(line) ?? [];
    const module = MODULES[name];
    t.ok(module && globSync(join(ROOT, module.source, file)).length > 0, line);
    for (const variable of line.matchAll(/([A-Z]+)=/g)) t.match(makefile, `$(${variable[1]})`);
  }
});

t.test('the places that it names are there', async (t) => {
  const places = [...page.matchAll(/`((?:test|scripts)\/[\w./-]+)`/g)].map(([, place = '']) => place);
  t.ok(places.length > 8);
  for (const place of places) t.ok(existsSync(join(ROOT, place)), place);
  const figures = readFileSync(join(ROOT, 'docs/measurements/mutation.md'), 'utf8');
  for (const [, name = ''] of figures.matchAll(/^\| `(\w+)`(?:, `\w+`)* \|/gm))
    t.ok(MODULES[name] && testFilesOf(MODULES[name]), name);
});
