// Entry point of `sandboxd` and, under another name of the same file, of `sandbox`.
import { basename } from 'node:path';

const args = process.argv.slice(2);
const name = basename(process.argv0);
// Dynamic imports, so that neither program loads the other.
if (name === 'sandbox') void import('@sandboxd/client/command').then(({ runProgram }) => runProgram(args));
else void import('./commands/index.ts').then(({ runCommandLine }) => runCommandLine(args));
