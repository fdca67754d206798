// docs/openapi.json, which is made from the table of routes. As a program it writes the file; `make check` asks whether it is
// what the table gives, and what a linter says of it.
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { toOpenApi } from '@sandboxd/api';

const PATH = resolve(import.meta.dirname, '../docs/openapi.json');

/** The linter's recommended rules but those that have no word for what this interface is. */
const RULES: Parameters<typeof createConfig>[0] = {
  extends: ['recommended'],
  rules: {
    // The answer to a WebSocket's request is a 101.
    'operation-2xx-response': 'off',
    // What frames hold is referred to in words.
    'no-unused-components': 'off',
    // Without it an example that is none would be a warning only.
    'no-invalid-media-type-examples': 'error',
    'no-invalid-schema-examples': 'error',
  },
};

/** Rejects with what is wrong. */
export async function checkDocument(): Promise<void> {
  const written = readFileSync(PATH, 'utf8');
  if (written !== render())
    throw new Error('docs/openapi.json is not what api/ gives; run scripts/interface-document.ts');
  const found = await lintDocument(written);
  if (found.length > 0) throw new Error(found.join('\n'));
}

/** Problems of a document, a line each. */
export async function lintDocument(source: string): Promise<string[]> {
  const config = await createConfig(RULES);
  const problems = await lintFromString({ source, absoluteRef: PATH, config });
  return problems.map(
    ({ ruleId, message, location }) =>
      `docs/openapi.json${location[0]?.pointer ?? ''}: ${message} (${ruleId})`,
  );
}

function render(): string {
  return `${JSON.stringify(toOpenApi(), null, 2)}\n`;
}

if (import.meta.main) writeFileSync(PATH, render());
