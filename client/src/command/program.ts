// Entry point of the npm package's `sandbox`.
import { runProgram } from './main.ts';

void runProgram(process.argv.slice(2));
