// What the host says on the kernel's command line.
import { addon, NO_DIRECTORY } from '../native/addon.ts';

export function hasKernelWord(word: string): boolean {
  return addon.readText(NO_DIRECTORY, '/proc/cmdline').split(/\s/).includes(word);
}
