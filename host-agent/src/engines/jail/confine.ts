// Runs our own programs that parse untrusted input in the same jail as VMMs.
import { type Jail, leaveJail } from './jail.ts';

export type ConfinedCommand = {
  readonly program: string;
  readonly args: readonly string[];
  /** Files that it can read, in addition to the program's own. */
  readonly reads: readonly string[];
  /** Number of descriptors that it inherits, the standard ones included. */
  readonly descriptors: number;
  readonly memoryMib: number;
};

/** The kernel's maximum; disks are smaller. */
const ANY_SIZE = 2 ** 60;
const VCPUS = 2;

/**
 * The command that runs the program in a jail; `leave` must be called after it has exited. AppError exhausted if no
 * user id is free.
 */
export async function confine(
  jail: Jail,
  command: ConfinedCommand,
): Promise<{ readonly program: string; readonly args: readonly string[]; leave(): Promise<void> }> {
  const { program, args, reads, descriptors, memoryMib } = command;
  const cell = await jail.enter({
    program,
    argv0: 'confined',
    args,
    view: { reads, writes: [] },
    vcpus: VCPUS,
    memoryMib,
    descriptors,
    maxFileBytes: ANY_SIZE,
  });
  return { program: cell.program, args: cell.args, leave: () => leaveJail(cell) };
}
