// The program `sandboxd`.
import { runCommandLine } from './commands/index.ts';

void runCommandLine(process.argv.slice(2));
