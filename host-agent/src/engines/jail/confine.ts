// Programs of ours that read what strangers made run where VMMs do.
import { type Jail, leaveJail } from './jail.ts';

export type ConfinedCommand = {
  readonly program: string;
  readonly args: readonly string[];
  /** Files that it sees, beside the program's own. */
  readonly reads: readonly string[];
  /** Descriptors that it gets, the standard ones included. */
  readonly descriptors: number;
  readonly memoryMib: number;
};

/** As the kernel has it; disks are smaller. */
const ANY_SIZE = 2 ** 60;
const VCPUS = 2;

/** The command that runs it there; `leave` is to be called when it has ended. AppError exhausted without a free user. */
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
