// The one fact about the guest's machine that the agent acts on: whether its CPU is emulated, as the engine says.
import { hasKernelWord } from '../lib/kernel-words.ts';

/** A word of the kernel's command line, written by the host's engine. */
const EMULATED = 'sandbox.emulated';

/** To be called when /proc is there. */
export function readIsEmulated(): boolean {
  return hasKernelWord(EMULATED);
}
