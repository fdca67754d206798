// Whether the guest's CPU is emulated, as the engine reports it on the kernel command line.
import { hasKernelWord } from '../lib/kernel-words.ts';

/** Kernel command-line parameter that the host's engine writes. */
const EMULATED = 'sandbox.emulated';

/** To be called after /proc is mounted. */
export function readIsEmulated(): boolean {
  return hasKernelWord(EMULATED);
}
