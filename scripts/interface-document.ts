// docs/openapi.json, generated from the route table. As a program it writes the file. `make check` compares the file
// and runs a linter on it.
import { readFileSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { toOpenApi } from '@sandboxd/api';

const PATH = resolve(import.meta.dirname, '../docs/openapi.json');

/** The linter's recommended rules, except those that do not apply to this interface. */
const RULES: Parameters<typeof createConfig>[0] = {
  extends: ['recommended'],
  rules: {
    // A WebSocket request is answered with 101.
    'operation-2xx-response': 'off',
    // Frame payloads are described in text, so their schemas are not referenced.
    'no-unused-components': 'off',
    // Otherwise an invalid example would only be a warning.
    'no-invalid-media-type-examples': 'error',
    'no-invalid-schema-examples': 'error',
  },
};

/** Rejects with the list of problems. */
export async function checkDocument(): Promise<void> {
  const written = readFileSync(PATH, 'utf8');
  if (written !== render())
    throw new Error('docs/openapi.json is not what api/ gives; run scripts/interface-document.ts');
  const found = await lintDocument(written);
  if (found.length > 0) throw new Error(found.join('\n'));
}

/** Problems of a document, one per line. */
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
