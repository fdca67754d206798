// The part of the guest kernel's command line that is the same for every engine.
import { ARCHITECTURE } from '@sandboxd/proto';
import type { VmSpec } from './engine.ts';

const COMMON = [
  // For diagnosis.
  `console=${ARCHITECTURE.console}`,
  'quiet',
  'loglevel=4',
  // A panic ends the VM at once.
  'panic=-1',
  // No PS/2, no legacy UARTs beyond the console: each costs probing time.
  'i8042.noaux',
  'i8042.nokbd',
  'i8042.nopnp',
  '8250.nr_uarts=1',
  'no_timer_check',
  'random.trust_cpu=on',
  'cryptomgr.notests',
  'rcupdate.rcu_expedited=1',
  'mitigations=auto',
];

/** Joins the common part, the engine's additions, and the sandbox's own arguments. */
export function kernelCommandLine({ bootArgs }: VmSpec, engineArgs: readonly string[]): string {
  return [...COMMON, ...engineArgs, ...(bootArgs === '' ? [] : [bootArgs])].join(' ');
}
