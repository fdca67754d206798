// Leaves of a package's development dependencies those that its tests need: test-dependencies.mjs package.json
import { readFileSync, writeFileSync } from 'node:fs';

const NEEDED = ['@types/node', '@types/platform', 'dotenv', 'error-stack-parser-es', 'msw', 'vitest'];
const [, , path = 'package.json'] = process.argv;
const about = JSON.parse(readFileSync(path, 'utf8'));
const kept = Object.entries(about.devDependencies).filter(([name]) => NEEDED.includes(name));
writeFileSync(path, JSON.stringify({ ...about, scripts: {}, devDependencies: Object.fromEntries(kept) }));
