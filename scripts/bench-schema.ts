// Writes docs/results/schema.json, the JSON Schema of results of `sandboxd bench`.
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { z } from 'zod';
import { benchResult } from '../host-agent/src/commands/bench/result.ts';

export function renderSchema(): string {
  return `${JSON.stringify(z.toJSONSchema(benchResult), null, 2)}\n`;
}

if (import.meta.main)
  writeFileSync(resolve(import.meta.dirname, '../docs/results/schema.json'), renderSchema());
