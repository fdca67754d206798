// The results in docs/results: each by the schema, with its page beside it.
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import t from 'tap';
import { renderPage } from '../../../host-agent/src/commands/bench/page.ts';
import { benchResult } from '../../../host-agent/src/commands/bench/result.ts';
import { renderSchema } from '../../../scripts/bench-schema.ts';

const FOLDER = resolve(import.meta.dirname, '../../../docs/results');
const read = (name: string) => readFileSync(join(FOLDER, name), 'utf8');

t.test('the schema is that of the program: scripts/bench-schema.ts', async (t) => {
  t.equal(read('schema.json'), renderSchema());
});

t.test('each result is valid, and its page is made of it', async (t) => {
  const ajv = new Ajv2020({ strict: false });
  addFormats.default(ajv);
  const validate = ajv.compile(JSON.parse(read('schema.json')));
  const names = globSync('*.json', { cwd: FOLDER }).filter((name) => name !== 'schema.json');
  t.ok(names.length > 0);
  const index = read('README.md');
  for (const name of names) {
    const value: unknown = JSON.parse(read(name));
    t.ok(validate(value), `${name}: ${ajv.errorsText(validate.errors)}`);
    const page = name.replace(/json$/, 'md');
    t.equal(read(page), renderPage(benchResult.parse(value)), page);
    t.match(index, `(${page})`, 'it is in the list');
    t.match(name, /^\d{4}-\d{2}-\d{2}-[a-z0-9-]+\.json$/);
  }
});
