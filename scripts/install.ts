// `make install`: copies the build into a directory.
// usage: node scripts/install.ts directory
import { resolve } from 'node:path';
import { copyProgram } from './program-files.ts';

const [target] = process.argv.slice(2);
if (!target) throw new Error('usage: node scripts/install.ts directory');
const absolute = resolve(target);
process.chdir(resolve(import.meta.dirname, '..'));
copyProgram(absolute);
process.stderr.write(`installed in ${absolute}\n`);
