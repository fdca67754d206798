// The program `sandboxd`.
import { runCommand } from './command.ts';

runCommand();
