// Parameters of the kernel command line that the host sets.
import { addon, NO_DIRECTORY } from '../native/addon.ts';

export function hasKernelWord(word: string): boolean {
  return addon.readText(NO_DIRECTORY, '/proc/cmdline').split(/\s/).includes(word);
}
