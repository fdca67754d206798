// The programs `sandboxd` and, by another name of the same file, `sandbox`.
import { basename } from 'node:path';

const words = process.argv.slice(2);
// Neither carries the other's start-up along.
if (basename(process.argv0) === 'sandbox')
  void import('@sandboxd/client/command').then(({ runProgram }) => runProgram(words));
else void import('./commands/index.ts').then(({ runCommandLine }) => runCommandLine(words));
