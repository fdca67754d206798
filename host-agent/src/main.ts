// Entry point of `sandboxd` and, under other names of the same file, of `sandbox` and of the gateway.
import { basename } from 'node:path';

const args = process.argv.slice(2);
const name = basename(process.argv0);
// Dynamic imports, so that no program loads another.
if (name === 'sandbox') void import('@sandboxd/client/command').then(({ runProgram }) => runProgram(args));
else if (name === 'sandboxd-gateway')
  void import('./gateway/index.ts').then(({ runGateway }) => runGateway(args));
else void import('./commands/index.ts').then(({ runCommandLine }) => runCommandLine(args));
